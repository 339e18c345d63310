package state

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Each push is counted once, as what became of it, and none of a subscription that
// is not there.
//
// covers SUB-149, P12.5
func TestPushCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batched(func(c *bcp.Channel) {
		c.Subscriptions[0].MaxRate, c.Subscriptions[0].PublishWhen = bcp.Rate{Count: 2, Span: time.Hour}, "ok"
		c.Budget = 70 * bcp.Bit
	})).play(`
		push mail planner alarm {"ok":true} id=p1
		push mail planner alarm {"ok":true} id=p1   => repeat
		push mail planner alarm {"ok":false}        => filtered
		push mail planner alarm {"ok":1}            => validation_failed
		push mail planner alarm junk                => malformed
		push mail planner alarm {"ok":true}
		push mail planner none {"ok":true}          => subscription_not_found
		push mail planner memo {"summary":"a"}      => hold
		push mail planner name {"q":"ada"}
		push mail planner name {"q":"bob"}
		push mail planner name {"q":"eve"}          => budget_exhausted
		ask planner relay yes
		wait 1h
		due                                         => expire
		due                                         => batch`)
	w.commit(w.state.DecideEvent(w.moment(), bcp.Decision{Kind: bcp.KindRefusals, Agent: "mail", Role: bcp.RoleReader, Reader: "mail", Controller: "planner", Subscription: "alarm",
		Check: bcp.CheckRate, Code: bcp.RateLimited, Count: 7}))
	var counts PushCounts
	counts.Declare(channelIn(w.config.Mesh, plannerMail))
	for _, record := range w.journal {
		d := must(bcp.DecodeDecision(record)) // sealed, as the audit has it
		counts.Add(&d)
	}
	begin := time.Unix(1_800_000_000, 0).UTC()
	price := func(id bcp.SubscriptionID) bcp.Bits {
		return w.state.channels[plannerMail].subscriptions[id].Prices().Capacity + bcp.PushTiming(1)
	}
	want := []PushCount{
		{"planner", "mail", "alarm", 2, 0, 1, 7, 2, 0, 0, 2 * bcp.Bit, 2 * price("alarm"), begin},
		{"planner", "mail", "memo", 0, 1, 0, 0, 0, 0, 0, 22 * bcp.Bit, price("memo"), begin},
		{"planner", "mail", "name", 2, 0, 0, 0, 0, 1, 1, 44 * bcp.Bit, 2 * price("name"), begin},
		{Controller: "planner", Reader: "mail", Subscription: "note"},
		{Controller: "planner", Reader: "mail", Subscription: "zero"},
	}
	got := counts.List()
	same(t, want, got, "counts")
	failIf(t, got[0].Pushes() != 12 || got[0].InvalidPercent() != 16 || got[3].InvalidPercent() != 0,
		"%d pushes, %d %% invalid", got[0].Pushes(), got[0].InvalidPercent())
}
