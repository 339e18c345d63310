package telemetry

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Metrics counts decisions. Its methods may be used concurrently.
type Metrics struct {
	registry *prometheus.Registry // our own: metrics that others register are not shown
	vecs     map[*Family]prometheus.Collector

	mu     sync.Mutex // guards all below
	series map[series]any
	asked  map[bcp.QueryID]int64 // journal time of the ask
	people *status.People
}

// maxAsked bounds the queries that are timed at once; beyond it all open ones
// are forgotten. Budgets end a flood long before.
const maxAsked = 1 << 16

// New returns the metrics of a mesh, with all its series at 0.
func New(definition *bcp.Mesh) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), vecs: map[*Family]prometheus.Collector{}, asked: map[bcp.QueryID]int64{}, people: status.NewPeople()}
	for _, f := range families {
		switch f.Type {
		case Counter:
			m.vecs[f] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.FullName(), Help: f.Help + "."}, f.Labels)
		case Histogram:
			m.vecs[f] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.FullName(), Help: f.Help + ".", Buckets: f.buckets}, f.Labels)
		default: // it is read at each scrape
			continue
		}
		m.registry.MustRegister(m.vecs[f])
	}
	m.Use(definition)
	return m
}

// Use switches to other definitions: series of removed names are removed, those
// of new names are at 0, and the rest continue.
func (m *Metrics) Use(definition *bcp.Mesh) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := seriesOf(m.vecs, definition)
	for s := range m.series {
		if _, stays := next[s]; !stays {
			m.vecs[s.family].(interface{ DeleteLabelValues(...string) bool }).DeleteLabelValues(s.labels[:len(s.family.Labels)]...)
		}
	}
	m.series = next
}

// add adds to a series, and returns false if the definitions have none like it.
func (m *Metrics) add(f *Family, n float64, labels ...string) bool {
	switch s := m.series[of(f, labels)].(type) {
	case prometheus.Counter:
		s.Add(max(0, n)) // it panics at less
	case prometheus.Observer:
		s.Observe(max(0, n))
	default:
		return false
	}
	return true
}

func (m *Metrics) has(f *Family, labels ...string) bool {
	_, has := m.series[of(f, labels)]
	return has
}

// Observe counts a stored decision. It keeps only the id that the gateway gave
// a query.
func (m *Metrics) Observe(d *bcp.Decision) {
	now := time.Now().UnixNano()
	m.mu.Lock()
	defer m.mu.Unlock()
	// Journal time does not go back when the clock does.
	m.add(recordSeconds, seconds(now-d.Time))
	m.add(decisionsTotal, 1, d.Kind.String())
	if d.Verdict == bcp.Reject {
		m.event(d.Agent, 1, "refusal", "")
	}
	if d.Repeat {
		return
	}
	if d.SessionBegins {
		by := "controller"
		if d.SessionByDelivery {
			by = "delivery"
		}
		m.event(d.Controller, 1, "session", by)
	}
	if s, ok := m.people.Add(d); ok && s.Act != "" {
		m.decided(&s)
	}
	count := float64(max(1, d.Count))
	switch d.Kind {
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush, bcp.KindExpire, bcp.KindApproval, bcp.KindBatch:
		m.countOnChannel(d)
	case bcp.KindRefusals:
		m.event(d.Agent, count, "refusal", "")
		if _, ok := d.Channel(); ok { // of a subscription's max_rate
			m.message(d, count, "push", bcp.Reject)
		}
	case bcp.KindViolation:
		m.event(d.Agent, count, "violation", "")
	case bcp.KindPrompt:
		if d.Notice != "" {
			m.event(d.Agent, 1, "prompt", "")
		}
		m.event(d.Agent, float64(d.Count), "missed_run", "")
	case bcp.KindProcess:
		m.event(d.Agent, 1, "process", d.Event)
	case bcp.KindEgress:
		m.countEgress(d)
	case bcp.KindUsage:
		m.countUsage(d)
	}
	if alert, ok := d.Alert(); ok {
		m.add(alertsTotal, 1, string(alert.Alert))
	}
}

// anyRule stands for all rules.
const anyRule = "any"

// decided counts what a person decided about an item.
func (m *Metrics) decided(s *status.Settled) {
	controller, reader := string(s.Channel.Controller), string(s.Channel.Reader)
	if !m.has(decideSeconds, controller, reader) {
		controller, reader = "", ""
	}
	m.add(decideSeconds, s.Waited.Seconds(), controller, reader)
	if !s.Sign {
		return
	}
	for _, rule := range append([]string{anyRule}, s.Rules...) {
		m.add(decidedSigns, 1, controller, reader, rule, strconv.FormatBool(s.False))
	}
}

// event counts what happened to an agent or a person. Refusals and violations of unknown ones are counted under the empty
// name; all else is of a declared agent that has such events.
func (m *Metrics) event(agent bcp.AgentName, n float64, kind, code string) {
	if !m.add(eventsTotal, n, string(agent), kind, code) {
		m.add(eventsTotal, n, "", kind, code)
	}
}

// channel returns the names of a decision's channel and of its subscription, empty for undeclared ones.
func (m *Metrics) channel(d *bcp.Decision) (controller, reader, subscription string) {
	key, _ := d.Channel()
	controller, reader, subscription = string(key.Controller), string(key.Reader), string(d.Subscription)
	if !m.has(settledBits, controller, reader, "", "push", "nominal") {
		controller, reader = "", ""
	}
	if !m.has(settledBits, controller, reader, subscription, "push", "nominal") {
		subscription = ""
	}
	return controller, reader, subscription
}

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / float64(time.Second) }

func inBits(b bcp.Bits) float64 { return float64(b) / float64(bcp.Bit) }

// message counts a message on a channel. A code that is not expected is counted as none.
func (m *Metrics) message(d *bcp.Decision, n float64, kind string, verdict bcp.Outcome) {
	controller, reader, subscription := m.channel(d)
	code := string(d.Code)
	switch {
	case verdict == bcp.Accept || verdict == bcp.Hold:
		code = ""
	default:
		verdict = bcp.Reject
	}
	if kind != "push" && kind != "window" {
		subscription = ""
	}
	if !m.add(messagesTotal, n, controller, reader, subscription, kind, verdict.String(), code) {
		m.add(messagesTotal, n, controller, reader, subscription, kind, verdict.String(), "")
	}
}

func (m *Metrics) settle(d *bcp.Decision, source string) {
	controller, reader, subscription := m.channel(d)
	if source == "query" {
		subscription = ""
	}
	m.add(settledBits, inBits(d.Nominal), controller, reader, subscription, source, "nominal")
	m.add(settledBits, inBits(d.Capacity), controller, reader, subscription, source, "capacity")
}

func (m *Metrics) countOnChannel(d *bcp.Decision) {
	controller, reader, _ := m.channel(d)
	switch d.Kind {
	case bcp.KindAsk:
		m.message(d, 1, "ask", d.Verdict)
		if d.Verdict != bcp.Reject {
			m.add(queriesTotal, 1, controller, reader, strconv.Itoa(int(d.Category)), strconv.FormatBool(d.Escalation))
			if len(m.asked) >= maxAsked {
				clear(m.asked)
			}
			m.asked[d.Query] = d.Time
		}
		return // an ask's cost is reserved, not settled
	case bcp.KindPush:
		m.message(d, 1, "push", d.Verdict)
		m.settle(d, "push")
		return
	case bcp.KindBatch:
		m.message(d, 1, "window", bcp.Accept)
		return
	case bcp.KindAnswer:
		m.message(d, 1, "answer", d.Verdict)
	case bcp.KindApproval:
		m.message(d, 1, d.Event, d.Verdict)
	}
	if !d.Prepaid {
		m.settle(d, "query")
	}
	if d.Query == "" || d.Delivery == "" || d.Outcome == bcp.Held {
		return
	}
	outcome := deliveredOr(d.Outcome)
	m.add(endedTotal, 1, controller, reader, outcome)
	if asked, timed := m.asked[d.Query]; timed {
		delete(m.asked, d.Query)
		m.add(querySeconds, seconds(d.Time-asked), outcome)
	}
}

// countEgress counts an agent's requests to hosts, if its definition has hosts.
func (m *Metrics) countEgress(d *bcp.Decision) {
	agent, e := string(d.Agent), d.Egress
	switch {
	case e == nil:
	case d.Verdict != bcp.Accept:
		m.add(eventsTotal, 1, agent, "request", string(e.Why))
	case e.Act == bcp.EgressSettle:
		m.add(egressBytes, float64(e.Bytes), agent)
	default:
		m.add(eventsTotal, 1, agent, "request", "")
		m.add(egressBits, inBits(e.Bits), agent)
	}
}

// countUsage counts the use of an agent's model, if it has one.
func (m *Metrics) countUsage(d *bcp.Decision) {
	agent, u := string(d.Agent), d.Usage
	switch {
	case u == nil:
	case d.Verdict != bcp.Accept:
		m.add(eventsTotal, 1, agent, "model_call", string(d.Code))
	case u.Act == bcp.UsageSettle:
		for i, n := range [...]int64{u.Input, u.CacheRead, u.CacheWrite, u.Output} {
			m.add(modelTokens, float64(n), agent, tokenKinds[i])
		}
		m.add(modelCost, float64(u.Cost)/float64(bcp.Dollar), agent)
	case u.Act == bcp.UsageReserve:
		m.add(eventsTotal, 1, agent, "model_call", "")
	}
}

// Notified counts an attempt to send a message by a notification route, which failed if
// err is not nil.
func (m *Metrics) Notified(route string, err error) {
	outcome := "taken"
	if err != nil {
		outcome = "failed"
	}
	m.count(notified, 1, route, outcome)
}

// Spans counts what became of spans: it is Counted of [ExportConfig].
func (m *Metrics) Spans(outcome string, n int) { m.count(spansTotal, n, outcome) }

func (m *Metrics) count(f *Family, n int, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(f, float64(n), labels...)
}
