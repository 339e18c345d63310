package telemetry

import (
	"container/list"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxOpen bounds the exchanges that a projection follows at once. Beyond it the
// oldest is sent as it is.
const maxOpen = 16 << 10

// projection makes spans of decisions. It is owned by one goroutine at a time.
type projection struct {
	tracer   oteltrace.Tracer
	channels map[bcp.ChannelKey]map[bcp.SubscriptionID]bool
	names    map[bcp.AgentName]bool // of agents and people

	queries    map[bcp.QueryID]*exchange
	items      map[bcp.ItemID]*exchange
	deliveries map[bcp.DeliveryID]*exchange
	order      list.List // all open ones, oldest first
}

// newProjection returns the projection of a mesh, without earlier exchanges.
func newProjection(tracer oteltrace.Tracer, definition *bcp.Mesh) *projection {
	p := &projection{tracer: tracer, queries: map[bcp.QueryID]*exchange{}, items: map[bcp.ItemID]*exchange{}, deliveries: map[bcp.DeliveryID]*exchange{}}
	p.use(definition)
	return p
}

// use switches to other definitions.
func (p *projection) use(definition *bcp.Mesh) {
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

// decisionNames are the spans of decisions. Other kinds have none.
var decisionNames = map[bcp.DecisionKind]string{
	bcp.KindAsk: "decide ask", bcp.KindAnswer: "decide answer", bcp.KindPush: "decide push", bcp.KindApproval: "decide approval", bcp.KindExpire: "decide expire",
	bcp.KindBatch: "decide batch",
}

// add takes the next decision, in the order of the journal, whose record was stored at a time.
func (p *projection) add(d *bcp.Decision, at time.Time) {
	name, decides := decisionNames[d.Kind]
	if !decides {
		if e := p.deliveries[d.Delivery]; e != nil && d.Kind == bcp.KindAcknowledge {
			p.acknowledge(e, d)
		}
		return
	}
	stored := max(d.Time, at.UnixNano()) // journal time does not go back when the clock does
	e := p.find(d, stored)
	e.last = max(e.last, stored)
	p.span(e, name, d.Time, judgement(d, p.names)...).End(oteltrace.WithTimestamp(time.Unix(0, stored)))
	if outcome := ends(d); outcome != "" {
		e.ended = true
		e.root.SetAttributes(bits(attributes{}.text("bcp.outcome", outcome), d)...)
	}
	if !d.Repeat {
		p.advance(e, d, stored)
	}
	p.closeEnded(e)
}

// advance begins and ends what waits in an exchange.
func (p *projection) advance(e *exchange, d *bcp.Decision, stored int64) {
	begin := func(name string, since int64, about attributes) wait {
		return wait{p.span(e, name, since, about...), since, d.Attempt}
	}
	read := func() {
		e.end(&e.reading, d.Time, "")
		e.reading = begin("reader", stored, attributes{}.number("bcp.attempt", int64(d.Attempt)))
	}
	switch d.Kind {
	case bcp.KindAsk:
		if d.Verdict == bcp.Accept {
			read()
		}
	case bcp.KindAnswer:
		switch {
		case d.Delivery != "" || d.Verdict == bcp.Hold:
			e.end(&e.reading, d.Time, "")
		case d.Attempt > e.reading.attempt: // an answer to an earlier sending leaves the newest with the Reader
			read()
		}
	case bcp.KindApproval:
		if d.Verdict != bcp.Accept {
			break
		}
		e.end(&e.approving, d.Time, "")
		if d.Query != "" && d.Delivery == "" {
			read()
		}
	case bcp.KindExpire:
		e.end(&e.reading, d.Time, "")
		e.end(&e.approving, d.Time, "")
	}
	if d.Verdict == bcp.Hold {
		e.approving = begin("approval", stored, attributes{}.text("bcp.item_id", string(d.Item)))
		if d.Item != "" {
			p.items[d.Item] = e
			e.items = append(e.items, d.Item)
		}
	}
	if d.Delivery != "" {
		about := attributes{}.text("bcp.delivery_id", string(d.Delivery)).text("bcp.outcome", deliveredOr(d.Outcome))
		if d.Outcome == "" {
			about = about.text("bcp.taint", d.Taint.String())
		}
		e.delivering[d.Delivery] = begin("deliver", max(stored, d.Release), about)
		p.deliveries[d.Delivery] = e
	}
}

func (p *projection) acknowledge(e *exchange, d *bcp.Decision) {
	w := e.delivering[d.Delivery]
	e.end(&w, d.Time, "bcp.acknowledged")
	delete(e.delivering, d.Delivery)
	delete(p.deliveries, d.Delivery)
	p.closeEnded(e)
}

// span begins a span below the root of an exchange.
func (p *projection) span(e *exchange, name string, at int64, about ...attribute.KeyValue) oteltrace.Span {
	_, span := p.tracer.Start(oteltrace.ContextWithSpan(context.Background(), e.root), name, oteltrace.WithTimestamp(time.Unix(0, at)), oteltrace.WithAttributes(about...))
	return span
}

// closeEnded closes an exchange that is complete.
func (p *projection) closeEnded(e *exchange) {
	if e.ended && len(e.delivering) == 0 {
		p.close(e, e.last)
	}
}

// find returns the exchange of a decision, or begins one: for its first
// message; for a message without an exchange, such as a repeat or a late answer; or
// if it began before the projection.
func (p *projection) find(d *bcp.Decision, stored int64) *exchange {
	switch {
	case d.Kind == bcp.KindAsk && !d.Repeat:
		return p.begin("query", d, stored)
	case d.Kind == bcp.KindPush && !d.Repeat:
		return p.begin("push", d, stored)
	case d.Kind == bcp.KindBatch, !known(d), d.Repeat:
		return p.begin(d.Kind.String(), d, stored)
	}
	e := p.queries[d.Query]
	if d.Query == "" {
		e = p.items[d.Item]
	}
	switch {
	case e != nil:
		return e
	case !moves(d): // about an ended exchange
		e = p.begin(d.Kind.String(), d, stored)
		e.ended = true
		e.root.SetAttributes(attribute.String("bcp.outcome", refused))
		return e
	case d.Query != "":
		e = p.begin("query", d, stored)
	default:
		e = p.begin("push", d, stored)
	}
	e.root.SetAttributes(attribute.Bool("bcp.continued", true))
	return e
}

// begin returns an exchange that begins with a decision.
func (p *projection) begin(name string, d *bcp.Decision, stored int64) *exchange {
	for p.order.Len() >= maxOpen {
		p.closeOldest(d.Time)
	}
	about := attributes{}
	key := bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}
	if subscriptions, declared := p.channels[key]; declared {
		about = about.text("bcp.controller", string(key.Controller)).text("bcp.reader", string(key.Reader))
		if subscriptions[d.Subscription] {
			about = about.text("bcp.subscription_id", string(d.Subscription))
		}
	}
	e := &exchange{begun: d.Time, last: stored, delivering: map[bcp.DeliveryID]wait{}}
	if known(d) {
		e.query = d.Query
		about = about.text("bcp.query_id", string(d.Query)).text("bcp.session", string(d.Session))
	}
	if d.Category.Valid() {
		about = about.number("bcp.category", int64(d.Category))
	}
	_, e.root = p.tracer.Start(context.Background(), name, oteltrace.WithNewRoot(), oteltrace.WithSpanKind(oteltrace.SpanKindServer),
		oteltrace.WithTimestamp(time.Unix(0, d.Time)), oteltrace.WithAttributes(about...))
	if name == "query" && e.query != "" {
		p.queries[e.query] = e
	}
	e.place = p.order.PushBack(e)
	return e
}

// close ends the root, and what is unfinished as of a time.
func (p *projection) close(e *exchange, at int64) {
	const unfinished = "bcp.unfinished"
	if !e.ended || len(e.delivering) > 0 {
		e.root.SetAttributes(attribute.Bool(unfinished, true))
	}
	e.end(&e.reading, at, unfinished)
	e.end(&e.approving, at, unfinished)
	for id, w := range e.delivering {
		e.end(&w, at, unfinished)
		delete(p.deliveries, id)
	}
	for _, id := range e.items {
		delete(p.items, id)
	}
	if p.queries[e.query] == e {
		delete(p.queries, e.query)
	}
	p.order.Remove(e.place)
	e.root.End(oteltrace.WithTimestamp(time.Unix(0, max(e.begun, e.last))))
}

// closeOldest closes the exchange that has been open for longest.
func (p *projection) closeOldest(at int64) { p.close(p.order.Front().Value.(*exchange), at) }

// end closes the open exchanges as of a time, marked as unfinished.
func (p *projection) end(at time.Time) {
	for p.order.Len() > 0 {
		p.closeOldest(at.UnixNano())
	}
}

// judgement are the attributes of a decision's span.
func judgement(d *bcp.Decision, names map[bcp.AgentName]bool) attributes {
	a := attributes{}.number("bcp.seq", int64(d.Seq))
	if names[d.Agent] {
		a = a.text("bcp.agent", string(d.Agent))
	}
	if d.Verdict >= bcp.Accept && d.Verdict <= bcp.Reject {
		a = a.text("bcp.verdict", d.Verdict.String())
	}
	a = a.text("bcp.code", codeWord(d.Code)).text("bcp.check", d.Check.Info().Name).text("bcp.rule", d.DecidedBy())
	if d.Reason != 0 {
		a = a.text("bcp.reason", d.Reason.String())
	}
	if len(d.Anomalies) > 0 {
		a = append(a, attribute.StringSlice("bcp.anomalies", d.Anomalies))
	}
	switch act := bcp.Act(d.Event); act {
	case bcp.Approve, bcp.RejectItem, bcp.EditItem:
		a = a.text("bcp.act", string(act))
	}
	if d.Repeat {
		a = append(a, attribute.Bool("bcp.repeat", true))
	}
	return bits(a, d)
}

// attributes collects the non-zero ones; docs/metrics.md lists them.
type attributes []attribute.KeyValue

func (a attributes) text(key, value string) attributes {
	if value == "" {
		return a
	}
	return append(a, attribute.String(key, value))
}

func (a attributes) number(key string, value int64) attributes {
	if value == 0 {
		return a
	}
	return append(a, attribute.Int64(key, value))
}

// bits adds what a decision costs.
func bits(a attributes, d *bcp.Decision) attributes {
	if d.Nominal == 0 && d.Capacity == 0 {
		return a
	}
	return append(a, attribute.Float64("bcp.nominal_bits", float64(d.Nominal)/float64(bcp.Bit)), attribute.Float64("bcp.capacity_bits", float64(d.Capacity)/float64(bcp.Bit)))
}
