package gateway

import "github.com/bcpmesh/bcpmesh/bcp"

// sessions are the acts of Controllers about their sessions: what they read, proposals, and
// sealed values for people too.
type sessions struct{ plain }

func (sessions) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	m := o.message
	if g.state.ListsChannels(now, m.subject.Controller, m.body) {
		return bcp.Decision{}, false
	}
	d := g.state.DecideSession(now, m.subject.Controller, m.body)
	return d, d.Code != bcp.RateLimited
}

func (sessions) answer(g *Gateway, o *outcome) {
	g.answer(o.message, g.state.Channels(o.message.subject.Controller, g.clock()))
}

func (sessions) release(g *Gateway, o *outcome) {
	switch d := &o.decision; d.Verdict {
	case bcp.Accept:
		g.answer(o.message, sessionReceipt{Session: d.Session})
	case bcp.Hold: // a proposal, or a sealed value
		g.answer(o.message, bcp.Proposed{Item: d.Item})
	default:
		g.answer(o.message, bcp.RefusalOf(d.Code))
	}
}

type sessionReceipt struct {
	Session bcp.SessionID `json:"session_id"`
}
