package state

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Notice is a message that waits for its agent and is no delivery: the final
// result of what was held (PROTOCOL P7.6), or a prompt (P9.4). It is sent when
// it is made and to each new connection of its agent, until acknowledged.
type Notice struct {
	ID    bcp.DeliveryID
	Agent bcp.AgentName
	Role  bcp.Role
	Peer  bcp.AgentName // in the subject that it is delivered on
	// Message is a ValidationResult or a Prompt.
	Message  any
	schedule string // of a prompt
	held     int64  // of a result: when the item that it is about began to wait
}

type agentRole struct {
	agent bcp.AgentName
	role  bcp.Role
}

// maxNotices bounds what waits for an agent that never acknowledges; the oldest
// is dropped, and stays in the audit.
const maxNotices = 256

// Notices returns what waits for an agent in a role, oldest first.
func (s *State) Notices(agent bcp.AgentName, role bcp.Role) []Notice {
	a := s.agents[agent]
	if a == nil {
		return nil
	}
	var notices []Notice
	for _, n := range a.notices {
		if n.Role == role {
			if prompt, ok := n.Message.(bcp.Prompt); ok {
				prompt.Time = prompt.Time.In(s.mesh.TimeZone)
				n.Message = prompt
			}
			notices = append(notices, n)
		}
	}
	return notices
}

// Waits reports whether a notice is not acknowledged.
func (s *State) Waits(id bcp.DeliveryID) bool {
	_, waits := s.noticed[id]
	return waits
}

func (s *State) notify(n Notice) {
	a := s.agent(n.Agent)
	if a == nil {
		return
	}
	a.notices = append(a.notices, n)
	s.noticed[n.ID] = agentRole{n.Agent, n.Role}
	if len(a.notices) > maxNotices {
		s.forgetNotice(a.notices[0].ID)
	}
}

func (s *State) forgetNotice(id bcp.DeliveryID) {
	a := s.agent(s.noticed[id].agent)
	delete(s.noticed, id)
	if a != nil {
		a.notices = slices.DeleteFunc(a.notices, func(n Notice) bool { return n.ID == id })
	}
}
