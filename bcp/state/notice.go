package state

import (
	"slices"
	"time"

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
	Message any
}

// notice is what is kept of one.
type notice struct {
	id     bcp.DeliveryID
	role   bcp.Role
	peer   bcp.AgentName
	prompt scheduleKey // zero of a result
	at     int64       // when the prompt was due, or the item that the result is about began to wait
	result bcp.ValidationResult
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
	for i := range a.notices {
		if n := &a.notices[i]; n.role == role {
			notices = append(notices, Notice{n.id, agent, n.role, n.peer, s.noticeMessage(n)})
		}
	}
	return notices
}

func (s *State) noticeMessage(n *notice) any {
	if n.prompt != (scheduleKey{}) {
		return bcp.Prompt{Type: bcp.TypePrompt, PromptID: n.id, Message: n.prompt.message, Time: time.Unix(0, n.at).In(s.mesh.TimeZone)}
	}
	return n.result
}

// Waits reports whether a notice is not acknowledged.
func (s *State) Waits(id bcp.DeliveryID) bool {
	_, waits := s.noticed[id]
	return waits
}

func (s *State) notify(agent bcp.AgentName, n notice) {
	a := s.allAgents[agent]
	if a == nil {
		return
	}
	a.notices = append(a.notices, n)
	s.noticed[n.id] = agentRole{agent, n.role}
	if len(a.notices) > maxNotices {
		s.forgetNotice(a.notices[0].id)
	}
}

func (s *State) forgetNotice(id bcp.DeliveryID) {
	a := s.allAgents[s.noticed[id].agent]
	delete(s.noticed, id)
	if a != nil {
		a.notices = slices.DeleteFunc(a.notices, func(n notice) bool { return n.id == id })
	}
}
