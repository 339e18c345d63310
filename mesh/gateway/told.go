package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Marks let agents and people tell whether the journal was set back.
type Marks struct {
	// Secret, of 32 bytes, is as old as the mesh: a gateway with an older state must
	// be able to read the marks of a later one.
	Secret []byte
	// SetBack lists who has shown a rollback.
	SetBack *SetBack
}

// markPause is the minimum time between two marks for one party, except in releases to a
// Controller: each of those has one.
const markPause = time.Second

// telling is the state of marks of one agent or person in one role in this run.
type telling struct {
	// heard says that it has shown its mark, or that it has none. Until then it is given
	// no mark, which would replace the one that it must show.
	heard bool
	given time.Time // when it got a mark last
	// newest is the sequence of the newest record that it has shown and the journal has:
	// older ones are not looked up.
	newest  uint64
	strange bool // it has shown something that is not a mark
}

// readMark checks a message's mark before the message is decided.
func (g *Gateway) readMark(ctx context.Context, in *input) {
	if m := in.message; g.marker != nil && m != nil && m.shows {
		g.guard("a mark", func() { g.hearMark(ctx, m) })
	}
}

func (g *Gateway) hearMark(ctx context.Context, said *message) {
	who := g.sender(said)
	t := g.tellings[who]
	if t == nil {
		t = &telling{}
		g.tellings[who] = t
	}
	if said.mark == "" {
		t.heard = true
		return
	}
	m, own, err := g.marker.open(said.mark, who)
	switch {
	case own:
		t.heard = true
	case err != nil:
		if t.heard = true; !t.strange {
			t.strange = true
			g.log.Warn("a mark is not of this mesh, or of another key of it", "agent", who.Agent, "role", who.Role)
			g.raiseAlert(bcp.AlertMarkStrange, who)
		}
	case m.sequence <= t.newest:
		t.heard = true
	default:
		g.compare(ctx, who, t, m)
	}
}

// compare checks that the journal has the record that an agent has seen.
func (g *Gateway) compare(ctx context.Context, who agentRole, t *telling, m mark) {
	back := g.config.Marks.SetBack
	switch err := g.journal.Holds(ctx, m.position()); {
	case err == nil:
		t.heard, t.newest = true, m.sequence
	case !errors.Is(err, jetstream.ErrPosition):
		g.log.Warn("a mark cannot be compared with the journal", "error", err) // the next message shows it again
	case !m.at.After(back.accepted()):
		t.heard, t.newest = true, m.sequence
	default:
		t.newest = m.sequence
		added, err := back.add(who, m.at)
		if err != nil {
			g.log.Error("that the journal was set back is forgotten when the gateway ends", "error", err)
		}
		if added {
			g.log.Error("the journal was set back: somebody has seen more of it; what this closes waits for up --accept-rollback",
				"agent", who.Agent, "role", who.Role, "seen", m.at.UTC().Format(time.RFC3339))
			g.raiseAlert(bcp.AlertRollbackSeen, who)
		}
	}
}

// raiseAlert has an alert about somebody recorded with the next batch.
func (g *Gateway) raiseAlert(kind bcp.AlertKind, who agentRole) {
	g.tellMistake(report{made: func(m bcp.Moment) bcp.Decision {
		d := g.state.DecideAlert(m, kind)
		d.Agent, d.Role = who.Agent, who.Role
		return d
	}})
}

// markFor returns the mark for a message, or nothing. delivers says that it releases
// something to a Controller.
func (g *Gateway) markFor(who agentRole, delivers bool) nats.Header {
	if g.marker == nil || !g.sound || g.failed != nil {
		return nil
	}
	t := g.tellings[who]
	if t == nil || !t.heard || g.config.Marks.SetBack.has(who) {
		return nil
	}
	now := g.clock()
	if !delivers && now.Sub(t.given).Abs() < markPause {
		return nil
	}
	t.given = now
	m := mark{sequence: g.journal.Last(), head: g.state.Head(), at: now}
	return nats.Header{bcp.MarkHeader: {g.marker.seal(m, who)}}
}
