package telemetry

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// series is one labelled series, for its removal.
type series struct {
	vec    *prometheus.MetricVec
	labels []string
}

// maker makes the series of one set of definitions and notes them. It reuses
// existing ones.
type maker struct {
	vecs map[*Family]any
	made map[string]series
}

func (k *maker) addSeries(f *Family, vec *prometheus.MetricVec, labels []string) {
	k.made[f.Name+"\xff"+strings.Join(labels, "\xff")] = series{vec, labels}
}

func (k *maker) counter(f *Family, labels ...string) prometheus.Counter {
	vec := k.vecs[f].(*prometheus.CounterVec)
	k.addSeries(f, vec.MetricVec, labels)
	return vec.WithLabelValues(labels...)
}

func (k *maker) gauge(f *Family, labels ...string) prometheus.Gauge {
	vec := k.vecs[f].(*prometheus.GaugeVec)
	k.addSeries(f, vec.MetricVec, labels)
	return vec.WithLabelValues(labels...)
}

// results are the counters of one kind of message, by verdict and code.
type results struct {
	accepted, held prometheus.Counter
	refused        map[bcp.Code]prometheus.Counter // the empty code for unexpected codes
}

// results makes the counters of a family whose last labels are verdict and
// code.
func (k *maker) results(f *Family, to bcp.Audience, labels ...string) results {
	with := func(v bcp.Outcome, code bcp.Code) prometheus.Counter {
		return k.counter(f, append(labels[:len(labels):len(labels)], v.String(), string(code))...)
	}
	r := results{accepted: with(bcp.Accept, ""), held: with(bcp.Hold, ""),
		refused: map[bcp.Code]prometheus.Counter{"": with(bcp.Reject, "")}}
	for _, code := range refusalCodes(to) {
		r.refused[code] = with(bcp.Reject, code)
	}
	return r
}

func (r *results) count(d *bcp.Decision) {
	switch d.Verdict {
	case bcp.Accept:
		r.accepted.Inc()
	case bcp.Hold:
		r.held.Inc()
	default:
		known(r.refused, d.Code).Inc()
	}
}

// known returns the value of a key in a map, or that of the zero key.
func known[K comparable, V any](m map[K]V, key K) V {
	if v, ok := m[key]; ok {
		return v
	}
	var zero K
	return m[zero]
}

// bits are a nominal and a capacity counter.
type bits struct{ nominal, capacity prometheus.Counter }

func (b bits) add(d *bcp.Decision) {
	b.nominal.Add(inBits(max(0, d.Nominal))) // a counter panics at less
	b.capacity.Add(inBits(max(0, d.Capacity)))
}

func inBits(b bcp.Bits) float64 { return float64(b) / float64(bcp.Bit) }

// channelSeries are the counters of one channel.
type channelSeries struct {
	queries, escalations map[bcp.Category]prometheus.Counter // nothing for 0
	asks, answers        results
	ended                map[bcp.Code]prometheus.Counter // delivered for the empty code
	approvals            map[bcp.Act]*results
	queryBits, pushBits  bits
	subscriptions        map[bcp.SubscriptionID]*subscriptionSeries
}

type subscriptionSeries struct {
	pushes  results
	windows prometheus.Counter
	bits    bits
}

// channel makes the series of a channel; the zero one is for all channels that
// are not in the definitions.
func (k *maker) channel(definition bcp.Channel) *channelSeries {
	controller, reader := string(definition.Controller), string(definition.Reader)
	c := &channelSeries{
		queries: map[bcp.Category]prometheus.Counter{}, escalations: map[bcp.Category]prometheus.Counter{},
		asks:    k.results(asksTotal, bcp.ToController, controller, reader),
		answers: k.results(answersTotal, bcp.ToReader, controller, reader),
		ended:   map[bcp.Code]prometheus.Counter{}, approvals: map[bcp.Act]*results{},
		queryBits:     bits{k.counter(settledNominal, controller, reader, "query"), k.counter(settledCapacity, controller, reader, "query")},
		pushBits:      bits{k.counter(settledNominal, controller, reader, "push"), k.counter(settledCapacity, controller, reader, "push")},
		subscriptions: map[bcp.SubscriptionID]*subscriptionSeries{},
	}
	for _, category := range categories {
		word := strconv.Itoa(int(category))
		c.queries[category] = k.counter(queriesTotal, controller, reader, word)
		c.escalations[category] = k.counter(escalationsTotal, controller, reader, word)
	}
	for _, outcome := range outcomes() {
		counter := k.counter(endedTotal, controller, reader, string(outcome))
		if outcome == delivered {
			outcome = ""
		}
		c.ended[outcome] = counter
	}
	for _, act := range acts {
		r := k.results(approvalsTotal, bcp.ToApprover, controller, reader, string(act))
		c.approvals[act] = &r
	}
	for _, sub := range append([]bcp.Subscription{{}}, definition.Subscriptions...) {
		id := string(sub.ID)
		c.subscriptions[sub.ID] = &subscriptionSeries{
			pushes:  k.results(pushesTotal, bcp.ToReader, controller, reader, id),
			windows: k.counter(windowsTotal, controller, reader, id),
			bits:    bits{k.counter(pushNominal, controller, reader, id), k.counter(pushCapacity, controller, reader, id)},
		}
	}
	return c
}

// routeSeries are the counters of one notification route.
type routeSeries struct{ taken, failed prometheus.Counter }

func (k *maker) route(name string) routeSeries {
	return routeSeries{k.counter(notificationsTotal, name, "taken"), k.counter(notificationsTotal, name, "failed")}
}

// agentSeries are the counters of an agent or a person. What its definition does
// not have is nil.
type agentSeries struct {
	refusals, violations         prometheus.Counter
	sessionsByItself, byDelivery prometheus.Counter
	prompts, missed              prometheus.Counter
	processes                    map[string]prometheus.Counter
	running                      prometheus.Gauge
	requests                     map[guard.Code]prometheus.Counter // to hosts
	egressBits, egressBytes      prometheus.Counter
	calls                        map[bcp.Code]prometheus.Counter // of a model
	tokens                       [4]prometheus.Counter           // as tokenKinds
	cost                         prometheus.Counter
}

// agent makes the series of an agent; those of a person have only a name, and
// those of nobody not even that.
func (k *maker) agent(definition bcp.Agent) *agentSeries {
	name := string(definition.Name)
	a := &agentSeries{refusals: k.counter(refusalsTotal, name), violations: k.counter(violationsTotal, name)}
	if definition.Controller {
		a.sessionsByItself, a.byDelivery = k.counter(sessionsTotal, name, "controller"), k.counter(sessionsTotal, name, "delivery")
	}
	if len(definition.Egress.Hosts) > 0 {
		a.requests = map[guard.Code]prometheus.Counter{"": k.counter(egressRequests, name, "")}
		for _, code := range guard.Codes() {
			if code.Refused() || code == guard.BudgetExhausted {
				a.requests[code] = k.counter(egressRequests, name, string(code))
			}
		}
		a.egressBits, a.egressBytes = k.counter(egressBits, name), k.counter(egressBytes, name)
	}
	if definition.AsksModel() {
		a.calls = map[bcp.Code]prometheus.Counter{}
		for _, code := range []bcp.Code{"", bcp.BudgetExhausted, bcp.NotPermitted, bcp.Malformed} {
			a.calls[code] = k.counter(modelCalls, name, string(code))
		}
		for i, kind := range tokenKinds {
			a.tokens[i] = k.counter(modelTokens, name, kind)
		}
		a.cost = k.counter(modelCost, name)
	}
	if len(definition.CronSchedules) > 0 {
		a.prompts, a.missed = k.counter(promptsTotal, name), k.counter(missedTotal, name)
	}
	if definition.Supervised() {
		a.processes = map[string]prometheus.Counter{}
		for _, event := range processEvents {
			a.processes[event] = k.counter(processTotal, name, event)
		}
		a.running = k.gauge(processRunning, name)
	}
	return a
}

// countEgress counts an agent's requests to hosts, if its definition has hosts.
func (a *agentSeries) countEgress(d *bcp.Decision) {
	if a.requests == nil || d.Egress == nil {
		return
	}
	switch e := d.Egress; {
	case d.Verdict != bcp.Accept:
		if counter := a.requests[e.Why]; counter != nil {
			counter.Inc()
		}
	case e.Act == bcp.EgressSettle:
		a.egressBytes.Add(float64(max(0, e.Bytes)))
	default:
		a.requests[""].Inc()
		a.egressBits.Add(inBits(max(0, e.Bits)))
	}
}

var tokenKinds = [4]string{"input", "cache_read", "cache_write", "output"}

// countUsage counts the use of an agent's model, if it has one.
func (a *agentSeries) countUsage(d *bcp.Decision) {
	if a.calls == nil || d.Usage == nil {
		return
	}
	switch u := d.Usage; {
	case d.Verdict != bcp.Accept:
		if counter := a.calls[d.Code]; counter != nil {
			counter.Inc()
		}
	case u.Act == bcp.UsageSettle:
		for i, n := range [4]int64{u.Input, u.CacheRead, u.CacheWrite, u.Output} {
			a.tokens[i].Add(float64(max(0, n)))
		}
		a.cost.Add(float64(max(0, u.Cost)) / float64(cost.Dollar))
	case u.Act == bcp.UsageReserve:
		a.calls[""].Inc()
	}
}
