package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

// What no short test can bring about in a mesh: schedules, commands, floods.
func TestObserve(t *testing.T) {
	t.Parallel()
	definition := meshtest.Parse(t, office(""))
	metrics := telemetry.New(definition)
	at := time.Now().UnixNano()
	decisions := []bcp.Decision{
		{Kind: bcp.KindPrompt, Agent: "clerk", Notice: "n1"},
		{Kind: bcp.KindPrompt, Agent: "clerk", Count: 3},
		{Kind: bcp.KindPrompt, Agent: "clerk", Notice: "n2", Count: 2},
		{Kind: bcp.KindPrompt, Agent: "main", Notice: "n3"}, // it has no schedule any more
		{Kind: bcp.KindProcess, Agent: "clerk", Event: bcp.ProcessStarted},
		{Kind: bcp.KindProcess, Agent: "clerk", Event: bcp.ProcessEnded},
		{Kind: bcp.KindProcess, Agent: "clerk", Event: bcp.ProcessUnavailable},
		{Kind: bcp.KindProcess, Agent: "clerk", Event: bcp.ProcessStarted},
		{Kind: bcp.KindProcess, Agent: "main", Event: bcp.ProcessStarted},
		{Kind: bcp.KindRefusals, Agent: "mailer", Count: 1200},
		{Kind: bcp.KindRefusals, Agent: "mailer", Controller: "main", Reader: "mailer", Subscription: "alerts", Check: bcp.CheckRate, Code: bcp.RateLimited, Count: 5},
		{Kind: bcp.KindBatch, Controller: "main", Reader: "mailer", Subscription: "alerts", Delivery: "d0", Count: 3, Prepaid: true, Nominal: 3 * bcp.Bit},
		{Kind: bcp.KindViolation, Agent: "mailer", Count: 7, Code: bcp.NotPermitted, Event: "publish"},
		{Kind: bcp.KindViolation, Agent: "nobody", Count: 1, Code: bcp.NotPermitted},
		{Kind: bcp.KindReload, Agent: bcp.Operator},
		{Kind: bcp.KindTaint, Agent: bcp.Operator, Verdict: bcp.Reject, Code: bcp.Malformed},
		{Kind: bcp.KindAlert, Event: string(bcp.AlertSpending), Controller: "main", Reader: "mailer"},
		{Kind: bcp.KindEgress, Agent: "clerk", Verdict: bcp.Accept, Egress: &bcp.EgressChange{Act: bcp.EgressReserve, Bits: 29 * bcp.Bit, Bytes: 1000}},
		{Kind: bcp.KindEgress, Agent: "clerk", Verdict: bcp.Accept, Egress: &bcp.EgressChange{Act: bcp.EgressSettle, Bytes: 700}},
		{Kind: bcp.KindEgress, Agent: "clerk", Verdict: bcp.Reject, Code: bcp.NotPermitted, Egress: &bcp.EgressChange{Act: bcp.EgressRefuse, Why: guard.HostDenied}},
		{Kind: bcp.KindEgress, Agent: "clerk", Verdict: bcp.Reject, Code: bcp.Malformed, Egress: &bcp.EgressChange{Why: "an agent's word"}},
		{Kind: bcp.KindEgress, Agent: "main", Verdict: bcp.Accept, Egress: &bcp.EgressChange{Act: bcp.EgressReserve, Bits: 29 * bcp.Bit}}, // it has no network any more
		// A query and what came of it, a quarter of an hour later.
		{Kind: bcp.KindAsk, Agent: "main", Controller: "main", Reader: "mailer", Verdict: bcp.Accept, Query: "q1", Category: 1, Nominal: bcp.Bit},
		{Kind: bcp.KindExpire, Controller: "main", Reader: "mailer", Query: "q1", Category: 1, Delivery: "d1", Outcome: bcp.Expired,
			Nominal: bcp.Bit / 2, Capacity: 3 * bcp.Bit, Time: at + int64(15*time.Minute)},
		{Kind: bcp.KindAcknowledge, Agent: "main", Controller: "main", Reader: "mailer", Query: "q1", Delivery: "d1"},
		// What two rules held, and a person approved a minute later.
		{Kind: bcp.KindAnswer, Agent: "mailer", Controller: "main", Reader: "mailer", Verdict: bcp.Hold, Item: "i1", Category: 2, Anomalies: []string{"instruction", "url"}},
		{Kind: bcp.KindApproval, Agent: "alice", Role: bcp.RoleApprover, Controller: "main", Reader: "mailer", Verdict: bcp.Accept, Event: "approve", Item: "i1", Category: 2, Time: at + int64(time.Minute), Prepaid: true},
	}
	for i := range decisions {
		d := &decisions[i]
		d.Seq = uint64(i + 1)
		if d.Time == 0 {
			d.Time = at
		}
		metrics.Observe(d)
	}
	s := scrapeOf(t, metrics, resting{})
	for _, line := range differences(counted(definition, decisions), s.values) {
		t.Error(line)
	}
	s.expect(t, 2, "agent_events_total", "agent=clerk", "kind=prompt", "code=")
	s.expect(t, 5, "agent_events_total", "agent=clerk", "kind=missed_run", "code=")
	s.expect(t, 0, "settled_bits_total", "controller=main", "reader=mailer", "subscription=", "source=push", "measure=nominal")
}

// More queries at once than are timed lose their times, and nothing else.
func TestManyOpenQueries(t *testing.T) {
	t.Parallel()
	metrics := metricsOf(t)
	const n = 1<<16 + 10
	for i := range n {
		metrics.Observe(&bcp.Decision{Kind: bcp.KindAsk, Controller: "main", Reader: "mailer", Verdict: bcp.Accept, Query: bcp.QueryID(fmt.Sprint(i)), Category: 1})
	}
	for i := range n {
		metrics.Observe(&bcp.Decision{Kind: bcp.KindAnswer, Controller: "main", Reader: "mailer", Verdict: bcp.Accept, Query: bcp.QueryID(fmt.Sprint(i)), Delivery: "d"})
	}
	s := scrapeOf(t, metrics, resting{})
	s.expect(t, 10, "query_seconds_count", "outcome=delivered")
	s.expect(t, n, "queries_ended_total", "controller=main", "reader=mailer", "outcome=delivered")
}
