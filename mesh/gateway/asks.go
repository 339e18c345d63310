package gateway

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// asks are the questions of Controllers.
type asks struct{ plain }

func (asks) prepare(g *Gateway, m *message, _ *nats.Msg) {
	m.prepared = prepare(g, m.body, "constraints", func(today *definitions) *state.Prepared {
		return today.Prepare(bcp.ChannelKey{Controller: m.subject.Controller, Reader: m.subject.Reader}, m.body)
	})
}

func (asks) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	m := o.message
	g.state.Adopt(m.prepared)
	d := g.state.DecideAsk(now, m.subject.Controller, m.subject.Reader, m.body)
	return d, d.Code != bcp.RateLimited
}

func (asks) refuse(g *Gateway, o *outcome) { g.answer(o.message, askReceipt(&o.decision)) }

func (asks) release(g *Gateway, o *outcome) {
	d := &o.decision
	if o.wait != "" {
		g.askedReader(o)
	}
	g.answer(o.message, askReceipt(d))
	// A Reader that became ready in the same batch already has it.
	if d.Verdict == bcp.Accept && !d.Repeat && len(g.dispatched[d.Query]) == 0 {
		g.sendQuery(d.Query)
	}
}

func askReceipt(d *bcp.Decision) any {
	if !d.Accepted() {
		return bcp.RefusalOf(d.Code)
	}
	return bcp.Accepted{QueryID: d.Query, NominalBits: d.Nominal, CapacityBits: d.Capacity,
		RemainingBits: d.Remaining}
}

// answers are those of Readers to queries.
type answers struct{ plain }

func (answers) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	s := &o.message.subject
	id := bcp.QueryID(s.ID)
	d := g.state.DecideAnswer(now, s.Agent, id, g.sendingAttempt(id, s.Attempt), o.message.body)
	return d, d.Code != bcp.RateLimited
}

// refuse: a Reader's one permission to answer is used up, for example beyond max_refusals,
// so the query is sent again in the next minute, when its messages are accepted again.
func (answers) refuse(g *Gateway, o *outcome) {
	if o.gathered {
		g.sendResult(&o.decision)
		return
	}
	s := &o.message.subject
	id := bcp.QueryID(s.ID)
	g.sendResult(&bcp.Decision{Kind: bcp.KindAnswer, Reader: s.Agent, Query: id, Verdict: bcp.Reject, Code: o.decision.Code})
	g.runAt(g.clock().Truncate(time.Minute).Add(time.Minute), func() { g.sendQuery(id) })
}

func (answers) release(g *Gateway, o *outcome) {
	d := &o.decision
	g.sendResult(d)
	if d.Attempt > g.sendingAttempt(d.Query, o.message.subject.Attempt) {
		g.sendQuery(d.Query)
	}
	g.freed(agentRole{d.Reader, bcp.RoleReader})
	g.forgetEnded(d.Query)
}

// sendResult sends a Reader the result of its answer. A Reader that misses it
// sees its query again, or not, so the gateway does not wait for a reply on the
// reply subject. This only proves that the result is ours: another Reader can
// have its own receipt sent to any subject, but not with a reply subject.
func (g *Gateway) sendResult(d *bcp.Decision) {
	peer := d.Controller
	if peer == "" {
		peer = bcp.Gateway
	}
	id := bcp.DeliveryID(string(rune(receiptLetter)) + g.moment().Fresh)
	g.publish(agentRole{d.Reader, bcp.RoleReader}, subjects.Deliver(bcp.RoleReader, d.Reader, peer),
		subjects.ReplyDelivery(bcp.RoleReader, d.Reader, id), d.Result())
}

// expiries are the ends of queries and items by time.
type expiries struct{}

func (expiries) release(g *Gateway, o *outcome) { g.forgetEnded(o.decision.Query) }

// forgetEnded forgets the sendings of a query that is not open any more.
func (g *Gateway) forgetEnded(id bcp.QueryID) {
	if _, _, _, open := g.state.Open(id); !open {
		delete(g.dispatched, id)
	}
}
