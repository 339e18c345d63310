package telemetry_test

import (
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// counted says what the counters have to be after some decisions: everything
// that is not 0. It is written down a second time, over the decisions as the
// audit shows them, with none of the code that counts.
func counted(definition *bcp.Mesh, decisions []bcp.Decision) map[string]float64 {
	want := map[string]float64{}
	add := func(n float64, name string, labels ...string) {
		if n != 0 {
			want[series("bcpmesh_"+name, labels...)] += n
		}
	}
	people := map[bcp.AgentName]bool{bcp.Operator: true}
	for _, list := range [][]bcp.AgentName{definition.Approvers, definition.Auditors} {
		for _, name := range list {
			people[name] = true
		}
	}
	agent := func(name bcp.AgentName) string {
		if _, declared := definition.Agent(name); declared || people[name] {
			return "agent=" + string(name)
		}
		return "agent="
	}
	asked := map[bcp.QueryID]int64{}
	for _, d := range decisions {
		key, _ := d.Channel()
		channel, declared := definition.Channel(key)
		with := func(labels ...string) []string {
			if !declared {
				return append(labels, "controller=", "reader=")
			}
			return append(labels, "controller="+string(key.Controller), "reader="+string(key.Reader))
		}
		judged := func(labels ...string) []string {
			return with(append(labels, "verdict="+d.Verdict.String(), "code="+string(d.Code))...)
		}
		category := "category=" + strconv.Itoa(int(d.Category))
		settles := func(source string) {
			add(bitsOf(d.Nominal), "settled_nominal_bits_total", with("source="+source)...)
			add(bitsOf(d.Capacity), "settled_capacity_bits_total", with("source="+source)...)
		}

		add(1, "decisions_total", "kind="+d.Kind.String())
		if alert, ok := d.Alert(); ok {
			add(1, "alerts_total", "alert="+string(alert.Alert))
		}
		switch {
		case d.Kind == bcp.KindRefusals:
			add(float64(d.Count), "refusals_total", agent(d.Agent))
			if d.Subscription != "" {
				add(float64(d.Count), "pushes_total", with("subscription="+string(d.Subscription), "verdict=reject", "code="+string(d.Code))...)
			}
		case d.Verdict == bcp.Reject:
			add(1, "refusals_total", agent(d.Agent))
		case d.Kind == bcp.KindViolation:
			add(float64(d.Count), "violations_total", agent(d.Agent))
		case d.Kind == bcp.KindReload:
			add(1, "reloads_total")
		}
		if d.Repeat {
			continue
		}
		if d.SessionBegins {
			by := "begun_by=controller"
			if d.SessionByDelivery {
				by = "begun_by=delivery"
			}
			add(1, "sessions_total", "controller="+string(d.Controller), by)
		}
		switch d.Kind {
		case bcp.KindBatch:
			add(1, "push_windows_total", with("subscription="+string(d.Subscription))...)
		case bcp.KindEgress:
			a, _ := definition.Agent(d.Agent)
			switch e := d.Egress; {
			case len(a.Egress.Hosts) == 0:
			case d.Verdict == bcp.Reject && e.Why.Known():
				add(1, "egress_requests_total", agent(d.Agent), "code="+string(e.Why))
			case d.Verdict == bcp.Reject:
			case e.Act == bcp.EgressSettle:
				add(float64(e.Bytes), "egress_bytes_total", agent(d.Agent))
			default:
				add(1, "egress_requests_total", agent(d.Agent), "code=")
				add(bitsOf(e.Bits), "egress_bits_total", agent(d.Agent))
			}
		case bcp.KindProcess:
			if a, _ := definition.Agent(d.Agent); len(a.Command) > 0 {
				add(1, "process_events_total", agent(d.Agent), "event="+d.Event)
			}
		case bcp.KindAsk:
			add(1, "asks_total", judged()...)
			if d.Query != "" {
				asked[d.Query] = d.Time
				add(1, "queries_total", with(category)...)
				if d.Escalation {
					add(1, "escalations_total", with(category)...)
				}
			}
		case bcp.KindAnswer:
			add(1, "answers_total", judged()...)
			settles("query")
		case bcp.KindExpire:
			if !d.Prepaid {
				settles("query")
			}
		case bcp.KindApproval:
			add(1, "approvals_total", judged("act="+d.Event)...)
			if !d.Prepaid {
				settles("query")
			}
		case bcp.KindPush:
			subscription := "subscription="
			for _, sub := range channel.Subscriptions {
				if sub.ID == d.Subscription {
					subscription += string(sub.ID)
				}
			}
			add(1, "pushes_total", judged(subscription)...)
			settles("push")
			add(bitsOf(d.Nominal), "push_nominal_bits_total", with(subscription)...)
			add(bitsOf(d.Capacity), "push_capacity_bits_total", with(subscription)...)
		}
		message, delivers := d.Message()
		if !delivers || message.QueryID == "" || message.Outcome == bcp.Held {
			continue
		}
		outcome := "outcome=" + string(message.Outcome)
		if message.Outcome == "" {
			outcome += "delivered"
		}
		add(1, "queries_ended_total", with(outcome)...)
		if at, known := asked[d.Query]; known {
			add(1, "query_seconds_count", outcome)
			add(float64(d.Time-at)/1e9, "query_seconds_sum", outcome)
		}
	}
	add(float64(len(decisions)), "record_seconds_count")
	return want
}

func bitsOf(b bcp.Bits) float64 { return float64(b) / 1e9 }

// stateOf returns the figures that are read from the gateway, as its decisions
// have them: what the last balance of each channel says, and what is not
// acknowledged, ended or decided yet.
func stateOf(definition *bcp.Mesh, decisions []bcp.Decision) map[string]float64 {
	want := map[string]float64{}
	for _, c := range definition.Channels {
		labels := []string{"controller=" + string(c.Controller), "reader=" + string(c.Reader)}
		set := func(value float64, name string, more ...string) {
			want[series("bcpmesh_"+name, append(more, labels...)...)] = value
		}
		epoch, balance := uint64(1), bcp.Balance{}
		open, undelivered, held := map[bcp.QueryID]bool{}, map[bcp.DeliveryID]bool{}, map[bcp.ItemID]string{}
		var settled bcp.Bits
		for _, d := range decisions {
			if key, _ := d.Channel(); key != c.ChannelKey || d.Repeat {
				continue
			}
			if d.Epoch > 0 && d.Verdict != bcp.Reject || d.Delivery != "" {
				epoch, balance = d.Epoch, d.Balance
			}
			if d.Kind == bcp.KindAsk && d.Query != "" {
				open[d.Query] = true
			}
			if message, delivers := d.Message(); delivers {
				undelivered[d.Delivery] = true
				if message.Outcome != bcp.Held || d.Kind != bcp.KindAsk {
					delete(open, d.Query)
				}
			}
			if d.Kind == bcp.KindAnswer && d.Verdict == bcp.Hold {
				delete(open, d.Query)
			}
			if d.Kind == bcp.KindAcknowledge {
				delete(undelivered, d.Delivery)
			}
			switch {
			case d.Item == "":
			case d.Verdict != bcp.Hold:
				if d.Kind == bcp.KindExpire || d.Verdict == bcp.Accept {
					delete(held, d.Item)
				}
			case d.Kind == bcp.KindAsk:
				held[d.Item] = "escalation"
			case d.Category == 3:
				held[d.Item] = "summary"
			default:
				held[d.Item] = "anomaly"
			}
			if d.Kind != bcp.KindAsk && !d.Prepaid {
				settled += d.Nominal
			}
		}
		set(float64(epoch), "channel_epoch")
		set(bitsOf(c.Budget), "channel_budget_bits")
		set(bitsOf(c.Budget-balance.Settled-balance.Reserved), "channel_left_bits")
		set(bitsOf(c.PushBudget), "channel_push_budget_bits")
		set(bitsOf(balance.Pushed), "channel_pushed_bits")
		set(bitsOf(c.WindowBudget), "channel_window_budget_bits")
		set(bitsOf(c.WindowBudget-settled-balance.Reserved), "channel_window_left_bits")
		set(float64(len(open)), "channel_open_queries")
		set(float64(len(undelivered)), "channel_undelivered_deliveries")
		kinds := map[string]int{"escalation": 0, "summary": 0, "anomaly": 0}
		for _, kind := range held {
			kinds[kind]++
		}
		for kind, n := range kinds {
			set(float64(n), "held_items", "kind="+kind)
		}
	}
	return want
}
