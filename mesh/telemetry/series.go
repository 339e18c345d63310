package telemetry

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// series is one series: its family and the values of its labels, in their order.
type series struct {
	family *Family
	labels [6]string
}

func of(f *Family, labels []string) (s series) {
	s.family = f
	copy(s.labels[:], labels)
	return s
}

// declared collects every counter and histogram that definitions have, and reuses those that exist.
type declared struct {
	vecs map[*Family]prometheus.Collector
	all  map[series]any // a prometheus.Counter or Observer
}

func (d *declared) add(f *Family, labels ...string) {
	switch vec := d.vecs[f].(type) {
	case *prometheus.CounterVec:
		d.all[of(f, labels)] = vec.WithLabelValues(labels...)
	case *prometheus.HistogramVec:
		d.all[of(f, labels)] = vec.WithLabelValues(labels...)
	}
}

// seriesOf returns every series of a mesh. What a definition does not have has none; the zero channel, agent and
// subscription are for those that are not declared.
func seriesOf(vecs map[*Family]prometheus.Collector, definition *bcp.Mesh) map[series]any {
	d := &declared{vecs, map[series]any{}}
	for _, kind := range bcp.DecisionKinds() {
		d.add(decisionsTotal, kind.String())
	}
	for _, kind := range bcp.AlertKinds() {
		d.add(alertsTotal, string(kind))
	}
	for _, outcome := range outcomes() {
		d.add(querySeconds, string(outcome))
	}
	d.add(recordSeconds)
	for _, outcome := range []string{sent, undelivered, dropped} {
		d.add(spansTotal, outcome)
	}
	for i := range definition.Notify {
		d.add(notified, definition.Notify[i].Name, "taken")
		d.add(notified, definition.Notify[i].Name, "failed")
	}
	for _, c := range append([]bcp.Channel{{}}, definition.Channels...) {
		d.channel(&c)
	}
	for i := range definition.Kernels {
		d.add(decideSeconds, string(definition.Kernels[i].Kernel), "")
	}
	for _, a := range append([]bcp.Agent{{}}, definition.Agents...) {
		d.agent(&a)
	}
	for _, names := range [][]bcp.AgentName{{bcp.Operator}, definition.Approvers, definition.Auditors} {
		for _, name := range names {
			d.agent(&bcp.Agent{Name: name})
		}
	}
	return d.all
}

func (d *declared) channel(c *bcp.Channel) {
	controller, reader := string(c.Controller), string(c.Reader)
	messages := func(to bcp.Audience, subscription, kind string) {
		for _, v := range []bcp.Outcome{bcp.Accept, bcp.Hold} {
			d.add(messagesTotal, controller, reader, subscription, kind, v.String(), "")
		}
		for _, code := range refusalCodes(to) {
			d.add(messagesTotal, controller, reader, subscription, kind, bcp.Reject.String(), string(code))
		}
	}
	settled := func(subscription, source string) {
		d.add(settledBits, controller, reader, subscription, source, "nominal")
		d.add(settledBits, controller, reader, subscription, source, "capacity")
	}
	messages(bcp.ToController, "", "ask")
	messages(bcp.ToReader, "", "answer")
	for _, act := range []bcp.Act{bcp.Approve, bcp.RejectItem, bcp.EditItem} {
		messages(bcp.ToApprover, "", string(act))
	}
	settled("", "query")
	for _, sub := range append([]bcp.Subscription{{}}, c.Subscriptions...) {
		messages(bcp.ToReader, string(sub.ID), "push")
		d.add(messagesTotal, controller, reader, string(sub.ID), "window", bcp.Accept.String(), "")
		settled(string(sub.ID), "push")
	}
	for category := range 3 {
		d.add(queriesTotal, controller, reader, strconv.Itoa(category+1), "false")
		d.add(queriesTotal, controller, reader, strconv.Itoa(category+1), "true")
	}
	d.add(decideSeconds, controller, reader)
	for _, rule := range append(text.Set(math.MaxUint16).Codes(), anyRule) {
		d.add(decidedSigns, controller, reader, rule, "false")
		d.add(decidedSigns, controller, reader, rule, "true")
	}
	for _, outcome := range outcomes() {
		d.add(endedTotal, controller, reader, string(outcome))
	}
}

var tokenKinds = [...]string{"input", "cache_read", "cache_write", "output"}

// agent makes the series of an agent; those of a person have only a name, and those of nobody not even that.
func (d *declared) agent(a *bcp.Agent) {
	name := string(a.Name)
	events := func(has bool, kind string, codes ...string) {
		for _, code := range codes {
			if has {
				d.add(eventsTotal, name, kind, code)
			}
		}
	}
	events(true, "refusal", "")
	events(true, "violation", "")
	events(a.Controller, "session", "controller", "delivery")
	events(len(a.CronSchedules) > 0, "prompt", "")
	events(len(a.CronSchedules) > 0, "missed_run", "")
	events(a.Supervised(), "process", bcp.ProcessStarted, bcp.ProcessEnded, bcp.ProcessUnavailable)
	if len(a.Egress.Hosts) > 0 {
		events(true, "request", "")
		for _, code := range guard.Codes() {
			events(code.Refused() || code == guard.BudgetExhausted, "request", string(code))
		}
		d.add(egressBits, name)
		d.add(egressBytes, name)
	}
	if a.AsksModel() {
		events(true, "model_call", "", string(bcp.BudgetExhausted), string(bcp.NotPermitted), string(bcp.Malformed))
		for _, kind := range tokenKinds {
			d.add(modelTokens, name, kind)
		}
		d.add(modelCost, name)
	}
}
