package trace

import (
	"container/list"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxOpen bounds the exchanges that a projection follows at once. Beyond it the
// oldest is sent as it is.
const maxOpen = 16 << 10

// Projection makes spans of facts. It is owned by one goroutine.
type Projection struct {
	ids      ids
	channels map[bcp.ChannelKey]map[bcp.SubscriptionID]bool
	names    map[bcp.AgentName]bool // of agents and people

	queries    map[bcp.QueryID]*exchange
	items      map[bcp.ItemID]*exchange
	deliveries map[bcp.DeliveryID]*exchange
	order      list.List // all open ones, oldest first

	spans []Span     // returned next
	about attributes // of these
}

// New returns the projection of a mesh, without earlier exchanges.
func New(key Key, definition *bcp.Mesh) *Projection {
	p := &Projection{ids: newIDs(key), queries: map[bcp.QueryID]*exchange{}, items: map[bcp.ItemID]*exchange{}, deliveries: map[bcp.DeliveryID]*exchange{}}
	p.Use(definition)
	return p
}

// Use switches to other definitions.
func (p *Projection) Use(definition *bcp.Mesh) {
	p.channels, p.names = map[bcp.ChannelKey]map[bcp.SubscriptionID]bool{}, map[bcp.AgentName]bool{bcp.Operator: true}
	for _, c := range definition.Channels {
		p.channels[c.ChannelKey] = map[bcp.SubscriptionID]bool{}
		for _, sub := range c.Subscriptions {
			p.channels[c.ChannelKey][sub.ID] = true
		}
	}
	for _, a := range definition.Agents {
		p.names[a.Name] = true
	}
	for _, names := range [][]bcp.AgentName{definition.Approvers, definition.Auditors} {
		for _, name := range names {
			p.names[name] = true
		}
	}
}

// Add takes the next fact, in the order of the journal, and returns the spans
// that end with it. They are valid until the next call.
func (p *Projection) Add(f Fact) []Span {
	p.spans, p.about = p.spans[:0], p.about[:0]
	switch {
	case !Traced(f.kind):
	case f.kind == bcp.KindAcknowledge:
		p.acknowledge(&f)
	default:
		p.decide(&f)
	}
	return p.spans
}

// End returns the open exchanges as of a time, marked as unfinished. The spans
// are valid until the next call.
func (p *Projection) End(at time.Time) []Span {
	p.spans, p.about = p.spans[:0], p.about[:0]
	for p.order.Len() > 0 {
		p.oldest(at.UnixNano())
	}
	return p.spans
}

// decide adds the span of a decision, and the spans that end with it.
func (p *Projection) decide(f *Fact) {
	e := p.findExchange(f)
	e.last = max(e.last, f.stored)
	from := len(p.about)
	p.judgement(f)
	p.addSpan(Span{Trace: e.trace, ID: p.ids.span(f.seq, partDecide), Parent: e.root, Name: decisionNames[f.kind], Begin: f.at, End: f.stored}, from)
	for _, w := range e.advance(f) {
		p.endWait(e, w, f.at, "")
	}
	if f.verdict == bcp.Hold && f.item != "" {
		p.items[f.item] = e
		e.items = append(e.items, f.item)
	}
	if f.delivery != "" && !f.repeat {
		p.deliveries[f.delivery] = e
	}
	p.endExchange(e)
}

var decisionNames = map[bcp.DecisionKind]string{
	bcp.KindAsk: "decide ask", bcp.KindAnswer: "decide answer", bcp.KindPush: "decide push", bcp.KindApproval: "decide approval", bcp.KindExpire: "decide expire",
	bcp.KindBatch: "decide batch",
}

func (p *Projection) acknowledge(f *Fact) {
	e := p.deliveries[f.delivery]
	if e == nil {
		return // a notice, or an earlier delivery
	}
	delete(p.deliveries, f.delivery)
	p.endWait(e, e.acknowledged(f.delivery), f.at, "bcp.acknowledged")
	p.endExchange(e)
}

// addSpan adds a span, with the attributes from an index on.
func (p *Projection) addSpan(s Span, from int) {
	s.Attributes = p.about[from:len(p.about):len(p.about)]
	p.spans = append(p.spans, s)
}

// endWait adds the span of a wait that ends, with a mark; the zero wait adds none.
func (p *Projection) endWait(e *exchange, w wait, end int64, mark string) {
	if w.part == 0 {
		return
	}
	end = max(end, w.since)
	e.last = max(e.last, end)
	from := len(p.about)
	p.about.number("bcp.attempt", int64(w.attempt))
	p.about.text("bcp.item_id", string(w.item))
	p.about.text("bcp.delivery_id", string(w.delivery))
	p.about.text("bcp.outcome", w.outcome)
	p.about.text("bcp.taint", w.taint)
	p.about.truth(mark, mark != "")
	p.addSpan(Span{Trace: e.trace, ID: p.ids.span(w.seq, w.part), Parent: e.root, Name: waitNames[w.part], Begin: w.since, End: end}, from)
}

// endExchange closes an exchange that is complete.
func (p *Projection) endExchange(e *exchange) {
	if e.ended && len(e.delivering) == 0 {
		p.close(e, e.last)
	}
}

// findExchange returns the exchange of a decision, or begins one: for its first
// message; for a message without an exchange, such as a repeat or a late answer; or
// if it began before the projection.
func (p *Projection) findExchange(f *Fact) *exchange {
	switch {
	case f.kind == bcp.KindAsk && !f.repeat:
		return p.begin("query", f)
	case f.kind == bcp.KindPush && !f.repeat:
		return p.begin("push", f)
	case f.kind == bcp.KindBatch:
		return p.begin("batch", f)
	case !f.known() || f.repeat:
		return p.begin(f.kind.String(), f)
	}
	e := p.queries[f.query]
	if f.query == "" {
		e = p.items[f.item]
	}
	switch {
	case e != nil:
		return e
	case !f.moves(): // about an ended exchange
		e = p.begin(f.kind.String(), f)
		e.ended, e.outcome = true, refused
		return e
	case f.query != "":
		e = p.begin("query", f)
	default:
		e = p.begin("push", f)
	}
	e.continued = true
	return e
}

// begin returns an exchange that begins with a decision.
func (p *Projection) begin(name string, f *Fact) *exchange {
	for p.order.Len() >= maxOpen {
		p.oldest(f.at)
	}
	e := &exchange{name: name, trace: p.ids.trace(f.seq), root: p.ids.span(f.seq, partRoot), category: f.category, begun: f.at, last: f.stored}
	if subscriptions, declared := p.channels[f.channel]; declared {
		e.channel = f.channel
		if subscriptions[f.subscription] {
			e.subscription = f.subscription
		}
	}
	if f.known() {
		e.query, e.session = f.query, f.session
	}
	if e.name == "query" && e.query != "" {
		p.queries[e.query] = e
	}
	e.place = p.order.PushBack(e)
	return e
}

// close adds the root and the unfinished spans, as of a time.
func (p *Projection) close(e *exchange, at int64) {
	const unfinished = "bcp.unfinished"
	open := !e.ended || len(e.delivering) > 0
	p.endWait(e, e.reading, at, unfinished)
	p.endWait(e, e.approving, at, unfinished)
	for _, w := range e.delivering {
		p.endWait(e, w, at, unfinished)
		delete(p.deliveries, w.delivery)
	}
	for _, id := range e.items {
		delete(p.items, id)
	}
	if p.queries[e.query] == e {
		delete(p.queries, e.query)
	}
	p.order.Remove(e.place)

	from := len(p.about)
	p.about.text("bcp.controller", string(e.channel.Controller))
	p.about.text("bcp.reader", string(e.channel.Reader))
	p.about.text("bcp.subscription_id", string(e.subscription))
	p.about.text("bcp.query_id", string(e.query))
	p.about.text("bcp.session", string(e.session))
	if e.category.Valid() {
		p.about.number("bcp.category", int64(e.category))
	}
	p.about.text("bcp.outcome", e.outcome)
	p.about.bits(e.nominal, e.capacity)
	p.about.truth("bcp.continued", e.continued)
	p.about.truth(unfinished, open)
	p.addSpan(Span{Trace: e.trace, ID: e.root, Name: e.name, Begin: e.begun, End: max(e.begun, e.last)}, from)
}

// oldest closes the exchange that has been open for longest.
func (p *Projection) oldest(at int64) { p.close(p.order.Front().Value.(*exchange), at) }

// judgement adds the attributes of a decision's span.
func (p *Projection) judgement(f *Fact) {
	a := &p.about
	a.number("bcp.seq", int64(f.seq))
	if p.names[f.agent] {
		a.text("bcp.agent", string(f.agent))
	}
	if f.verdict >= bcp.Accept && f.verdict <= bcp.Reject {
		a.text("bcp.verdict", f.verdict.String())
	}
	a.text("bcp.code", codeWord(f.code))
	a.text("bcp.check", f.check.Info().Name)
	a.text("bcp.rule", f.rule)
	if f.reason != 0 {
		a.text("bcp.reason", f.reason.String())
	}
	if len(f.anomalies) > 0 {
		*a = append(*a, Attribute{Key: "bcp.anomalies", Kind: List, Texts: f.anomalies})
	}
	switch act := bcp.Act(f.event); act {
	case bcp.Approve, bcp.RejectItem, bcp.EditItem:
		a.text("bcp.act", string(act))
	}
	a.truth("bcp.repeat", f.repeat)
	a.bits(f.nominal, f.capacity)
}
