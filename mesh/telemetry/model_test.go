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
	asked, waits := map[bcp.QueryID]int64{}, map[bcp.ItemID]bcp.Decision{}
	for _, d := range decisions {
		key, _ := d.Channel()
		channel, declared := definition.Channel(key)
		with := func(labels ...string) []string {
			if !declared {
				return append(labels, "controller=", "reader=")
			}
			return append(labels, "controller="+string(key.Controller), "reader="+string(key.Reader))
		}
		message := func(n int, subscription, kind string, verdict bcp.Outcome) {
			add(float64(n), "messages_total", with("subscription="+subscription, "kind="+kind, "verdict="+verdict.String(), "code="+string(d.Code))...)
		}
		event := func(n int, kind, code string) {
			add(float64(n), "agent_events_total", agent(d.Agent), "kind="+kind, "code="+code)
		}
		settles := func(source, subscription string) {
			add(bitsOf(d.Nominal), "settled_bits_total", with("source="+source, "subscription="+subscription, "measure=nominal")...)
			add(bitsOf(d.Capacity), "settled_bits_total", with("source="+source, "subscription="+subscription, "measure=capacity")...)
		}

		add(1, "decisions_total", "kind="+d.Kind.String())
		if alert, ok := d.Alert(); ok {
			add(1, "alerts_total", "alert="+string(alert.Alert))
		}
		switch {
		case d.Kind == bcp.KindRefusals:
			event(d.Count, "refusal", "")
			if d.Subscription != "" {
				message(d.Count, string(d.Subscription), "push", bcp.Reject)
			}
		case d.Verdict == bcp.Reject:
			event(1, "refusal", "")
		case d.Kind == bcp.KindViolation:
			event(d.Count, "violation", "")
		}
		if d.Repeat {
			continue
		}
		if d.SessionBegins {
			by := "code=controller"
			if d.SessionByDelivery {
				by = "code=delivery"
			}
			add(1, "agent_events_total", "agent="+string(d.Controller), "kind=session", by)
		}
		if d.Verdict == bcp.Hold {
			waits[d.Item] = d
		}
		switch d.Kind {
		case bcp.KindBatch:
			message(1, string(d.Subscription), "window", bcp.Accept)
		case bcp.KindEgress:
			a, _ := definition.Agent(d.Agent)
			switch e := d.Egress; {
			case len(a.Egress.Hosts) == 0:
			case d.Verdict == bcp.Reject && e.Why.Known():
				event(1, "request", string(e.Why))
			case d.Verdict == bcp.Reject:
			case e.Act == bcp.EgressSettle:
				add(float64(e.Bytes), "egress_bytes_total", agent(d.Agent))
			default:
				event(1, "request", "")
				add(bitsOf(e.Bits), "egress_bits_total", agent(d.Agent))
			}
		case bcp.KindProcess:
			if a, _ := definition.Agent(d.Agent); len(a.Command) > 0 {
				event(1, "process", d.Event)
			}
		case bcp.KindAsk:
			message(1, "", "ask", d.Verdict)
			if d.Query != "" {
				asked[d.Query] = d.Time
				add(1, "queries_total", with("category="+strconv.Itoa(int(d.Category)), "escalation="+strconv.FormatBool(d.Escalation))...)
			}
		case bcp.KindAnswer:
			message(1, "", "answer", d.Verdict)
			settles("query", "")
		case bcp.KindExpire:
			if !d.Prepaid {
				settles("query", "")
			}
		case bcp.KindApproval:
			message(1, "", d.Event, d.Verdict)
			if !d.Prepaid {
				settles("query", "")
			}
			if held, known := waits[d.Item]; known && d.Verdict == bcp.Accept {
				add(1, "decision_seconds_count", with()...)
				add(float64(d.Time-held.Time)/1e9, "decision_seconds_sum", with()...)
				if held.Kind != bcp.KindAsk && held.Category < 3 {
					for _, rule := range append([]string{"any"}, held.Anomalies...) {
						add(1, "decided_signs_total", with("rule="+rule, "false="+strconv.FormatBool(d.Event == "approve"))...)
					}
				}
			}
		case bcp.KindPush:
			subscription := ""
			for _, sub := range channel.Subscriptions {
				if sub.ID == d.Subscription {
					subscription += string(sub.ID)
				}
			}
			message(1, subscription, "push", d.Verdict)
			settles("push", subscription)
		}
		told, delivers := d.Message()
		if !delivers || told.QueryID == "" || told.Outcome == bcp.Held {
			continue
		}
		outcome := "outcome=" + string(told.Outcome)
		if told.Outcome == "" {
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
