package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/trace/otlp"
)

// Metrics counts decisions. Its methods may be used concurrently.
type Metrics struct {
	registry *prometheus.Registry // our own: metrics that others register are not shown
	vecs     map[*Family]any      // CounterVec, GaugeVec or HistogramVec

	record   prometheus.Observer
	reloads  prometheus.Counter
	sent     prometheus.Counter
	untraced prometheus.Counter
	lost     map[otlp.Loss]prometheus.Counter
	kinds    map[bcp.DecisionKind]prometheus.Counter
	alerts   map[bcp.AlertKind]prometheus.Counter
	took     map[bcp.Code]prometheus.Observer // of a query, by outcome; empty if delivered

	mu       sync.Mutex // guards all below
	made     map[string]series
	channels map[bcp.ChannelKey]*channelSeries // the zero key for channels that are not in the definitions
	agents   map[bcp.AgentName]*agentSeries    // people too; the empty name for unknown ones
	routes   map[string]routeSeries            // of notifications
	asked    map[bcp.QueryID]int64             // journal time of the ask
}

// maxAsked bounds the queries that are timed at once; beyond it all open ones
// are forgotten. Budgets end a flood long before.
const maxAsked = 1 << 16

// New returns the metrics of a mesh, with all its series at 0.
func New(definition *bcp.Mesh) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), vecs: make(map[*Family]any),
		kinds: make(map[bcp.DecisionKind]prometheus.Counter), alerts: make(map[bcp.AlertKind]prometheus.Counter),
		took: make(map[bcp.Code]prometheus.Observer), asked: make(map[bcp.QueryID]int64),
	}
	for _, f := range families {
		if vec := f.vec(); vec != nil {
			m.vecs[f] = vec
			m.registry.MustRegister(vec)
		}
	}
	k := maker{vecs: m.vecs, made: map[string]series{}}
	m.reloads = k.counter(reloadsTotal)
	m.sent, m.untraced, m.lost = k.counter(spansSent), k.counter(untraced), make(map[otlp.Loss]prometheus.Counter)
	for _, loss := range otlp.Losses() {
		m.lost[loss] = k.counter(spansLost, string(loss))
	}
	for _, kind := range bcp.DecisionKinds() {
		m.kinds[kind] = k.counter(decisionsTotal, kind.String())
	}
	for _, kind := range bcp.AlertKinds() {
		m.alerts[kind] = k.counter(alertsTotal, string(kind))
	}
	seconds := m.vecs[querySeconds].(*prometheus.HistogramVec)
	for _, outcome := range outcomes() {
		m.took[outcome] = seconds.WithLabelValues(string(outcome))
	}
	m.took[""] = m.took[delivered]
	m.record = m.vecs[recordSeconds].(*prometheus.HistogramVec).WithLabelValues()
	m.Use(definition)
	return m
}

// vec returns the collector of a family's series, nil for a family that is read
// at each scrape.
func (f *Family) vec() prometheus.Collector {
	switch {
	case f.Type == Counter:
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.FullName(), Help: f.Help + "."}, f.Labels)
	case f.Type == Histogram:
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.FullName(), Help: f.Help + ".", Buckets: f.buckets}, f.Labels)
	case f == processRunning:
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.FullName(), Help: f.Help + "."}, f.Labels)
	}
	return nil
}

// Use switches to other definitions: series of removed names are removed, those
// of new names are at 0, and the rest continue.
func (m *Metrics) Use(definition *bcp.Mesh) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := maker{vecs: m.vecs, made: make(map[string]series)}
	m.channels = map[bcp.ChannelKey]*channelSeries{{}: k.channel(bcp.Channel{})}
	for _, c := range definition.Channels {
		m.channels[c.ChannelKey] = k.channel(c)
	}
	m.agents = map[bcp.AgentName]*agentSeries{"": k.agent(bcp.Agent{})}
	for _, names := range [][]bcp.AgentName{{bcp.Operator}, definition.Approvers, definition.Auditors} {
		for _, name := range names {
			m.agents[name] = k.agent(bcp.Agent{Name: name})
		}
	}
	for _, a := range definition.Agents {
		m.agents[a.Name] = k.agent(a)
	}
	m.routes = map[string]routeSeries{}
	for i := range definition.Notify {
		m.routes[definition.Notify[i].Name] = k.route(definition.Notify[i].Name)
	}
	for key, s := range m.made {
		if _, kept := k.made[key]; !kept {
			s.vec.DeleteLabelValues(s.labels...)
		}
	}
	m.made = k.made
}

// Observe counts a stored decision. It keeps only the id that the gateway gave
// a query.
func (m *Metrics) Observe(d *bcp.Decision) {
	now := time.Now().UnixNano()
	m.mu.Lock()
	defer m.mu.Unlock()
	// Journal time does not go back when the clock does.
	m.record.Observe(seconds(max(0, now-d.Time)))
	if kind := m.kinds[d.Kind]; kind != nil {
		kind.Inc()
	}
	if d.Verdict == bcp.Reject {
		known(m.agents, d.Agent).refusals.Inc()
	}
	if d.Repeat {
		return
	}
	if d.SessionBegins {
		m.countSession(d)
	}
	switch d.Kind {
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush, bcp.KindExpire, bcp.KindApproval:
		m.countOnChannel(d)
	case bcp.KindBatch:
		key, _ := d.Channel()
		known(known(m.channels, key).subscriptions, d.Subscription).windows.Inc()
	case bcp.KindRefusals:
		known(m.agents, d.Agent).refusals.Add(float64(max(1, d.Count)))
		if key, ok := d.Channel(); ok { // of a subscription's max_rate
			pushes := &known(known(m.channels, key).subscriptions, d.Subscription).pushes
			known(pushes.refused, d.Code).Add(float64(max(1, d.Count)))
		}
	case bcp.KindViolation:
		known(m.agents, d.Agent).violations.Add(float64(max(1, d.Count)))
	case bcp.KindPrompt:
		m.countPrompt(d)
	case bcp.KindProcess:
		m.countProcess(d)
	case bcp.KindReload:
		m.reloads.Inc()
	case bcp.KindEgress:
		known(m.agents, d.Agent).countEgress(d)
	case bcp.KindUsage:
		known(m.agents, d.Agent).countUsage(d)
	}
	if alert, ok := d.Alert(); ok {
		if counter := m.alerts[alert.Alert]; counter != nil {
			counter.Inc()
		}
	}
}

// Notified counts an attempt to send a message by a notification route, which failed if
// err is not nil.
func (m *Metrics) Notified(route string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch of := m.routes[route]; {
	case of.taken == nil: // it is gone
	case err != nil:
		of.failed.Inc()
	default:
		of.taken.Inc()
	}
}

// SpansSent implements [otlp.Counter], as the next two do.
func (m *Metrics) SpansSent(n int) { m.sent.Add(float64(n)) }

// SpansDropped counts spans that did not arrive.
func (m *Metrics) SpansDropped(why otlp.Loss, n int) {
	if counter := m.lost[why]; counter != nil {
		counter.Add(float64(n))
	}
}

// DecisionsUntraced counts decisions without a span.
func (m *Metrics) DecisionsUntraced(n int) { m.untraced.Add(float64(n)) }

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / float64(time.Second) }

func (m *Metrics) countOnChannel(d *bcp.Decision) {
	key, _ := d.Channel()
	c := known(m.channels, key)
	switch d.Kind {
	case bcp.KindAsk:
		c.asks.count(d)
		if d.Verdict == bcp.Reject {
			return
		}
		if queries := c.queries[d.Category]; queries != nil {
			queries.Inc()
			if d.Escalation {
				c.escalations[d.Category].Inc()
			}
		}
		if len(m.asked) >= maxAsked {
			clear(m.asked)
		}
		m.asked[d.Query] = d.Time
		return // an ask's cost is reserved, not settled
	case bcp.KindAnswer:
		c.answers.count(d)
	case bcp.KindPush:
		s := known(c.subscriptions, d.Subscription)
		s.pushes.count(d)
		s.bits.add(d)
		c.pushBits.add(d)
		return
	case bcp.KindApproval:
		if r := c.approvals[bcp.Act(d.Event)]; r != nil {
			r.count(d)
		}
	}
	if !d.Prepaid {
		c.queryBits.add(d)
	}
	if d.Query != "" && d.Delivery != "" && d.Outcome != bcp.Held {
		m.countEnd(d, c)
	}
}

func (m *Metrics) countEnd(d *bcp.Decision, c *channelSeries) {
	if ended := c.ended[d.Outcome]; ended != nil {
		ended.Inc()
	}
	asked, timed := m.asked[d.Query]
	if !timed {
		return
	}
	delete(m.asked, d.Query)
	if took := m.took[d.Outcome]; took != nil {
		took.Observe(seconds(d.Time - asked))
	}
}

func (m *Metrics) countSession(d *bcp.Decision) {
	a := known(m.agents, d.Controller)
	counter := a.sessionsByItself
	if d.SessionByDelivery {
		counter = a.byDelivery
	}
	if counter != nil {
		counter.Inc()
	}
}

func (m *Metrics) countPrompt(d *bcp.Decision) {
	a := known(m.agents, d.Agent)
	if a.prompts == nil {
		return
	}
	if d.Notice != "" {
		a.prompts.Inc()
	}
	a.missed.Add(float64(max(0, d.Count)))
}

func (m *Metrics) countProcess(d *bcp.Decision) {
	a := known(m.agents, d.Agent)
	counter := a.processes[d.Event]
	if counter == nil {
		return
	}
	counter.Inc()
	if d.Event == bcp.ProcessStarted {
		a.running.Set(1)
	} else {
		a.running.Set(0)
	}
}
