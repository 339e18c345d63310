package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Closing is what a gateway refuses. Such messages get unavailable and leave no
// record.
type Closing uint8

const (
	// Open closes nothing.
	Open Closing = 0
	// ClosedToNew refuses asks, pushes, and requests of keepers.
	ClosedToNew Closing = 1
	// ClosedToAll also refuses answers, decisions of people, and decisions by timers:
	// nothing more is released. It is for a journal that is not the newest.
	ClosedToAll Closing = 2
)

func (g *Gateway) closing() Closing {
	if g.config.Closed == nil {
		return Open
	}
	return g.config.Closed()
}

// closes reports whether a message is refused, because its channel or everything is
// closed.
func (g *Gateway) closes(in *input) bool {
	s, least := in.subject, ClosedToAll
	switch s.Kind {
	case subjects.KindAsk, subjects.KindPush, subjects.KindEgress, subjects.KindUsage, subjects.KindRun:
		least = ClosedToNew
	case subjects.KindApproval:
		if _, decides := verbAct(s.Verb); !decides {
			return false
		}
	case subjects.KindReply:
		if s.Role != bcp.RoleReader || isNotice(s) || isHandshake(s) || isReceipt(s) {
			return false
		}
	default:
		return false
	}
	return g.closing() >= least || g.setBack() && g.config.Marks.SetBack.closed(g.closable(in))
}

// setBack reports whether any channel is closed since the journal was set back.
func (g *Gateway) setBack() bool { return g.marker != nil && g.config.Marks.SetBack.Pending() }

// closedBy returns the alert that says why something is closed, or nothing.
func (g *Gateway) closedBy() bcp.AlertKind {
	switch closing := g.closing(); {
	case closing == ClosedToAll:
		return bcp.AlertWitnessRefused
	case g.setBack():
		return bcp.AlertRollbackSeen
	case closing == ClosedToNew:
		return bcp.AlertWitnessMissing
	}
	return ""
}

// closable returns the channel of a message, also of a person's decision; zero if it has
// none.
func (g *Gateway) closable(in *input) bcp.ChannelKey {
	switch in.subject.Kind {
	case subjects.KindEgress, subjects.KindUsage: // the agent's own, in either role
		return bcp.ChannelKey{Controller: in.subject.Agent, Reader: in.subject.Agent}
	case subjects.KindApproval:
	default:
		return g.inputChannel(in)
	}
	if act, _ := verbAct(in.subject.Verb); act == bcp.Endorse || act == bcp.Revoke {
		e, _ := bcp.ParseEndorsement(act, in.body)
		return e.Channel()
	}
	act, _ := bcp.ParseApproval(in.body)
	for _, item := range g.state.ItemsFor(in.subject.Agent) {
		if item.ID == act.Item {
			return bcp.ChannelKey{Controller: item.Controller, Reader: item.Reader}
		}
	}
	return bcp.ChannelKey{}
}

// waitsForOperator reports whether something due belongs to a channel that is closed
// because of a rollback of the journal.
func (g *Gateway) waitsForOperator(due state.Due) bool {
	return g.setBack() && g.config.Marks.SetBack.closed(g.state.ChannelDue(due))
}
