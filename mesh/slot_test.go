package mesh_test

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// What a Controller hears when it asks within a release slot, with a stock client: that
// its Reader has ended a query is told by nothing before the slot is over, and an ask
// whose bits pushes have taken meanwhile ends with them.
//
// covers P4.2, P9.1, A-TIME
func TestNothingIsToldWithinASlot(t *testing.T) {
	t.Parallel()
	c := &clock{}
	c.set(time.Date(2026, 3, 10, 12, 1, 0, 0, time.UTC))
	m := meshtest.Start(t, pair(69, "release_interval: 1h"), func(config *mesh.Config) { config.Now = c.now })
	main, mailer := connect(t, m)
	main.Accepted(t, "mailer", askWho) // 66 bits
	query := mailer.queries.Next(t)
	poll := func(want string) {
		t.Helper()
		for range 3 {
			coded(t, main.Ask(t, "mailer", askWho), want)
		}
	}
	poll("budget_exhausted")
	mailer.Answer(t, query, `"not_enough_information":true`)
	mailer.result(t)
	poll("budget_exhausted")
	nothing(t, main.rest(t))
	c.forward(time.Hour)
	m.Settle(t) // which wakes the gateway: it does not see its clock jump
	carries(t, main.delivery(t), "outcome", "not_enough_information", "after it")
	succeeded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""))
	main.Accepted(t, "mailer", askWho)
	mailer.queries.Next(t)
	succeeded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""))
	unfunded := main.Accepted(t, "mailer", askUrgent)
	end := m.Wait(t, func(d *bcp.Decision) bool { return d.Query == unfunded && d.Kind == bcp.KindExpire })
	failIf(t, end.Outcome != bcp.BudgetExhausted || end.Release != end.At().Truncate(time.Hour).Add(time.Hour).UnixNano(),
		"the ask that is not funded ends as %q at %d", end.Outcome, end.Release)
	nothing(t, main.rest(t))
	if queries := mailer.queries.Taken(t); len(queries) > 0 {
		t.Errorf("the reader gets %v", queries)
	}
	c.forward(time.Hour)
	m.Settle(t)
	if d := main.delivery(t); d.Text("outcome") != "budget_exhausted" || d.Text("query_id") != string(unfunded) || d.Fields["bandwidth_bits"] != 0. {
		t.Errorf("first in its slot comes %s", d.JSON)
	}
	for range 2 {
		carries(t, main.delivery(t), "subscription_id", "alerts", "then comes")
	}
	checkStreams(t, m)
}
