package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A request is what the gateway does with one kind of message. Each is in the file of its
// family: asks.go, keepers.go, people.go, control.go, declare.go,
// runmessages.go and acknowledge.go.
type request interface {
	// decide judges the message; it sends nothing. It returns false if there is nothing to
	// record.
	decide(*Gateway, bcp.Moment, *outcome) (bcp.Decision, bool)
	// answer answers it where nothing was recorded, after the record of the batch, since it
	// may report changes of others. refuse does so where it is refused, or only counted.
	answer(*Gateway, *outcome)
	refuse(*Gateway, *outcome)
	// refusal is the reply to one that is not decided about.
	refusal(*Gateway, *message, bcp.Code) any
	// channel is that of the message, or zero.
	channel(*Gateway, *message) bcp.ChannelKey
}

// received is the row of a request.
type received struct {
	request
	sender bcp.Role // zero: its subject says
	// closed is when it is refused; Open is never.
	closed Closing
}

// outcome is a decided message or event, or an act of the gateway's own: the decision and
// what follows from it. Some outcomes need no record: an unknown acknowledgement, a list
// for an approver, a message beyond the limit.
type outcome struct {
	in       *input   // nil for an act
	message  *message // of in: it is answered
	event    event    // of in
	decision bcp.Decision
	body     []byte // what the decision is about: sealed with it
	record   []byte // the decision as the journal keeps it, if it does: a part of Gateway.records
	// gathered says that the decision is only counted, with others of its sender.
	gathered bool

	change   *kernel.Change    // decided by a kernel, with its consequences
	releases []kernel.Release  // once it is applied
	wait     string            // of a kernel's ask: what a run waits for
	repeats  kernel.RunID      // the run that a message asks for again
	ended    *kernel.End       // the end of that run
	reasons  []string          // why the operator's act is refused
	reply    *contract.Message // to a message about roles
	verdict  *contract.Message // on a declaration of roles
}

// sender returns the agent that may publish on the message's subject.
func (g *Gateway) sender(m *message) agentRole {
	s, role := &m.subject, m.kind.sender
	switch {
	case role == bcp.RoleOperator:
		return agentRole{bcp.Operator, role}
	case s.Kind == subjects.KindRole:
		role = g.rolesOver(s.Agent)
	case role == 0:
		role = s.Role
	case s.Agent == "" && role == bcp.RoleReader:
		return agentRole{s.Reader, role}
	case s.Agent == "":
		return agentRole{s.Controller, role}
	}
	return agentRole{s.Agent, role}
}

// rolesOver is in which role an agent negotiates: of an agent with both only one counts.
func (g *Gateway) rolesOver(agent bcp.AgentName) bcp.Role {
	if a, _ := g.config.State.Mesh.Agent(agent); !a.Controller {
		return bcp.RoleReader
	}
	return bcp.RoleController
}

// isOnceOnly reports whether a message can be sent only once: the server lets planners
// and tools answer each message once.
func (m *message) isOnceOnly() bool {
	return m.subject.Kind == subjects.KindReply && m.subject.Role != bcp.RoleReader && m.subject.Role != bcp.RoleController
}
