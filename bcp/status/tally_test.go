package status_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Only what counts now is counted: by agent and model, with what each of the agent's bits cost.
//
// covers P15.3
func TestTally(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	later := now.Add(time.Minute).UnixNano()
	mesh := &bcp.Mesh{Agents: []bcp.Agent{{Name: "a", Builtin: true, Model: "m", Run: bcp.Run{Window: time.Hour, CostBudget: bcp.Dollar}}, {Name: "b"}}}
	uses := status.NewTally(mesh, now)
	usage := func(seq uint64, c bcp.UsageChange) bcp.Decision {
		return bcp.Decision{Seq: seq, Kind: bcp.KindUsage, Agent: "a", Verdict: bcp.Accept, Usage: &c}
	}
	delivery := func(at time.Time) bcp.Decision {
		return bcp.Decision{Kind: bcp.KindAnswer, Reader: "a", Controller: "b", Delivery: "d", Time: at.UnixNano(), Nominal: 3 * bcp.Bit, Private: bcp.Private{Payload: []byte("{}")}}
	}
	refused := usage(9, bcp.UsageChange{Act: bcp.UsageReserve, Model: "m", Until: later})
	refused.Verdict, refused.Code = bcp.Reject, bcp.BudgetExhausted
	for _, d := range []bcp.Decision{
		usage(1, bcp.UsageChange{Act: bcp.UsageReserve, Model: "m", Tokens: 100, Cost: 50, Until: later}),
		usage(2, bcp.UsageChange{Act: bcp.UsageReserve, Model: "m", Tokens: 100, Cost: 50, Until: later}),
		usage(3, bcp.UsageChange{Act: bcp.UsageReserve, Model: "m", Tokens: 100, Cost: 50, Until: now.UnixNano()}),
		usage(4, bcp.UsageChange{Act: bcp.UsageSettle, Model: "m", Tokens: 12, Input: 10, Output: 2, Cost: 6, Until: later, Reserved: 1}),
		usage(5, bcp.UsageChange{Act: bcp.UsageReserve, Model: "n", Tokens: 7, Unpriced: true, Until: later}),
		usage(6, bcp.UsageChange{Act: bcp.UsageSettle, Model: "n", Tokens: 5, Output: 5, Unpriced: true, Until: later, Reserved: 5}),
		refused, delivery(now), delivery(now.Add(-time.Hour)), {Kind: bcp.KindUsage},
	} {
		uses.Add(&d)
	}
	want := []status.Use{
		{Agent: "a", Model: "m", Calls: 2, Refused: 1, Tokens: bcp.Tokens{Input: 10, Output: 2}, Cost: 6, ReservedTokens: 100, ReservedCost: 50, Delivered: 3 * bcp.Bit, CostBudget: bcp.Dollar, Window: 3600},
		{Agent: "a", Model: "n", Calls: 1, Tokens: bcp.Tokens{Output: 5}, Unpriced: true, Delivered: 3 * bcp.Bit, CostBudget: bcp.Dollar, Window: 3600},
	}
	for range 2 {
		if got := uses.List(); !slices.Equal(got, want) {
			t.Errorf("%+v", got)
		}
	}
}
