package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
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

// closes reports whether a message is refused, because its channel or everything is closed.
func (g *Gateway) closes(m *message) bool {
	return m.kind.closed != Open && (g.closing() >= m.kind.closed || g.setBack() && g.config.Marks.closed(m.kind.channel(g, m)))
}

// setBack reports whether any channel is closed since the journal was set back.
func (g *Gateway) setBack() bool { return g.config.Marks != nil && g.config.Marks.Pending() }

// ClosedBy returns the alert that says why something is closed, or nothing. It may be called
// concurrently.
func (g *Gateway) ClosedBy() bcp.AlertKind {
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
