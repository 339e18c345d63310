package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Closing says what a gateway does not let through. What it closes is refused with
// unavailable and leaves no record.
type Closing uint8

const (
	// Open closes nothing.
	Open Closing = 0
	// ClosedToNew closes asks, pushes, and what keepers ask for.
	ClosedToNew Closing = 1
	// ClosedToAll closes answers, what people decide, and what time alone decides, too:
	// nothing is released that was not before. It is for a journal that is not the newest.
	ClosedToAll Closing = 2
)

func (g *Gateway) closing() Closing {
	if g.config.Closed == nil {
		return Open
	}
	return g.config.Closed()
}

// closes reports whether a message would let something through that is closed.
func (g *Gateway) closes(in *input) bool {
	s := in.subject
	switch s.Kind {
	case subjects.KindAsk, subjects.KindPush, subjects.KindEgress:
		return g.closing() >= ClosedToNew
	case subjects.KindApproval:
		_, decides := actOf(s.Verb)
		return decides && g.closing() >= ClosedToAll
	case subjects.KindReply:
		return s.Role == bcp.RoleReader && !isNotice(s) && !isHandshake(s) && !isReceipt(s) && g.closing() >= ClosedToAll
	default:
		return false
	}
}
