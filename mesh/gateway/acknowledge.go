package gateway

import "github.com/bcpmesh/bcpmesh/bcp"

// handshakes are the acknowledgements of bcp_subscriptions_active.
type handshakes struct{ undecided }

func (handshakes) answer(g *Gateway, o *outcome) { g.acknowledgedSubscriptions(o.message.subject) }

// receipts are the acknowledgements of results of answers, which change nothing.
type receipts struct{ undecided }

// acknowledgements are those of deliveries and notices.
type acknowledgements struct{ plain }

func (acknowledgements) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	s := &o.message.subject
	return g.state.DecideAcknowledge(now, s.Agent, s.Role, bcp.DeliveryID(s.ID))
}

func (acknowledgements) release(g *Gateway, o *outcome) {
	d := &o.decision
	delete(g.sending, d.Delivery)
	delete(g.notices, d.Notice)
	g.listens(agentRole{d.Agent, d.Role})
}
