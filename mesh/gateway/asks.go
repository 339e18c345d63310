package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// asks are the questions of Controllers.
type asks struct{ plain }

func (asks) prepare(g *Gateway, m *message) {
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
		subjects.Reply(bcp.RoleReader, d.Reader, id, 0), d.Result())
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

// pushes are those of Readers against subscriptions.
type pushes struct{ plain }

func (pushes) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	s := &o.message.subject
	d := g.state.DecidePush(now, s.Reader, s.Controller, s.Subscription, o.message.body)
	return d, d.Code != bcp.RateLimited
}

func (p pushes) refuse(g *Gateway, o *outcome) {
	if o.gathered {
		p.release(g, o)
	} else {
		g.answer(o.message, p.refusal(g, o.message, o.decision.Code))
	}
}

func (pushes) refusal(g *Gateway, m *message, code bcp.Code) any {
	s := &m.subject
	result := bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: s.Subscription,
		Status: bcp.StatusRefused, Code: code, Detail: code.Info().Text}
	if code == bcp.RateLimited {
		wait := g.state.RetryAfter(g.clock(), s.Reader, s.Controller, s.Subscription)
		result.RetryAfter = int64((wait + time.Second - 1) / time.Second)
	}
	return result
}

func (pushes) release(g *Gateway, o *outcome) { g.answer(o.message, o.decision.Result()) }

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
