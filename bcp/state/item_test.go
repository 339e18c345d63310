package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// At max_pending_approvals nothing more is held, of either kind; escalations
// pass, each decision makes room, and a channel's flood is its own.
//
// covers P7.4
func TestQueueLimit(t *testing.T) {
	t.Parallel()
	mesh := edited(func(c *bcp.Channel) {
		c.MaxPendingApprovals, c.Budget, c.PushBudget, c.MaxRetries = 2, 1000*bcp.Bit, 1000*bcp.Bit, 1
	})
	memo := `push mail planner memo {"summary":"a_b"}`
	w := newWorld(t, mesh).play(`
		ask planner mail text                => accept
		ask planner mail three why=so        => hold       # not counted
		` + memo + ` => hold
		` + memo + ` => hold settled:44.0
		` + memo + ` => approval_queue_full settled:0.0 bits:0.0
		push mail planner alarm {"ok":true}  => delivers
		answer mail 1 ` + answerWord(heldAnswer) + ` => approval_queue_full try:1
		ask planner mail three why=more      => hold       # still not counted
		approve 1                            => accept
		answer mail 2 {"summary":"a"}        => approval_queue_full try:1
		reject 2                             => silent     # makes room
		answer mail 1 ` + answerWord(heldAnswer) + ` try=1 => hold
		` + memo + ` => approval_queue_full
		wait 24h
		due                                  => expire
		due                                  => expire
		due                                  => expire
		due                                  => expire
		due                                  => nothing
		` + memo + ` => hold
		` + memo + ` => hold
		` + memo + ` => approval_queue_full`)
	expect(t, w.state.channels[plannerMail].pending, 2, "are pending")
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxPendingApprovals = 0 })).play(memo + ` => approval_queue_full settled:0.0`)
}

// The list has the oldest first, and the channels take turns: a flood of one
// hides no other.
//
// covers P7.1
func TestItemsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push mail planner memo {"summary":"a"} => hold
		wait 1s
		push mail planner memo {"summary":"b"} => hold
		push mail planner memo {"summary":"c"} => hold
		wait 1s
		ask planner web three why=so           => hold
		ask clerk mail three why=so            => hold
		wait 1s
		ask clerk mail three why=too           => hold
		push mail planner memo {"summary":"d"} => hold`)
	numbers := func(items []bcp.Item) (order []int) {
		for _, it := range items {
			order = append(order, slices.Index(w.items, it.ID)+1)
		}
		return order
	}
	if got := numbers(w.state.ItemsFor("mia")); !slices.Equal(got, []int{1, 4, 5, 2, 6, 3, 7}) {
		t.Errorf("the list is %v", got)
	}
	if got := numbers(w.state.Items()); !slices.Equal(got, []int{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("by age it is %v", got)
	}
	mesh := testMesh()
	channelIn(mesh, plannerMail).Approvers = []bcp.AgentName{"noah"}
	w.config.Mesh = mesh
	w.state = w.replay()
	got := numbers(w.state.ItemsFor("mia"))
	failIf(t, !slices.Equal(got, []int{4, 5, 6}), "of the other channels the list is %v", got)
}

// An approver sees these fields and no others: of what a Reader sent only the
// canonical content. An escalation has no content; earlier deliveries are the
// session's, bounded, oldest first.
//
// covers BCP-63, BCP-116, P7.1, P7.2
func TestView(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	mail := &mesh.Agents[slices.IndexFunc(mesh.Agents, func(a bcp.Agent) bool { return a.Name == "mail" })]
	mail.Description, mail.Network, mail.Tools = "Reads mail.", "imap only", []string{"imap"}
	channelIn(mesh, plannerMail).Budget = 1000 * bcp.Bit
	w := newWorld(t, mesh)
	for n := range maxReleases + 3 {
		w.play(fmt.Sprintf("ask planner mail num => accept\nanswer mail %d {\"n\":%d} => delivers", n+1, n))
	}
	w.play(`
		ask planner mail text          => accept
		answer mail 20 ` + answerWord(heldAnswer) + ` => hold
		ask planner mail three why=so  => hold
		push mail planner memo {"summary":"A,_b"} id=canary => hold`)
	keys := func(view bcp.ItemView) []string {
		b, err := bcp.Encode(view, bcp.JSON)
		failIf(t, err != nil || bytes.Contains(b, []byte("canary")), "%s, %v", b, err)
		var fields map[string]json.RawMessage
		noError(t, json.Unmarshal(b, &fields))
		return slices.Sorted(maps.Keys(fields))
	}
	want := []string{"anomalies", "capacity_bits", "category", "content", "controller", "deadline", "earlier", "item_id", "kind", "nominal_bits",
		"query_id", "reader", "sha256", "since", "source", "spec", "taint"}
	anomaly, _ := w.state.View("mia", w.items[0])
	if got := keys(anomaly); !slices.Equal(got, want) {
		t.Errorf("of an anomaly the fields are %v", got)
	}
	failIf(t, string(anomaly.Content) != heldAnswer || anomaly.SHA256 != sha256.Sum256([]byte(heldAnswer)) || anomaly.Kind != bcp.ItemAnomaly ||
		len(anomaly.Anomalies) == 0 || anomaly.Nominal != 88*bcp.Bit || anomaly.Spec.Questions[0].Question != "What?",
		"an anomaly is seen as %+v", anomaly)
	if s := anomaly.Source; s.Agent != "mail" || s.Description != "Reads mail." || s.Network != "imap only" || !slices.Equal(s.Tools, []string{"imap"}) || s.Taint != bcp.TaintHigh {
		t.Errorf("its source is %+v", s)
	}
	stopIf(t, len(anomaly.Earlier) != maxReleases, "%d earlier deliveries", len(anomaly.Earlier))
	if last := anomaly.Earlier[maxReleases-1]; last.Outcome != bcp.Held || last.Content != nil || string(anomaly.Earlier[maxReleases-2].Content) != `{"n":18}` {
		t.Errorf("the last is %+v", last)
	}

	escalation, _ := w.state.View("mia", w.items[1])
	want = slices.DeleteFunc(slices.Clone(want), func(k string) bool { return k == "content" || k == "anomalies" })
	want = append(want, "justification", "justification_bits")
	slices.Sort(want)
	got := keys(escalation)
	failIf(t, !slices.Equal(got, want), "of an escalation the fields are %v", got)
	failIf(t, escalation.Kind != bcp.ItemEscalation || escalation.Content != nil || escalation.Justification != "so" || escalation.Spec.Directive != "Tell." || escalation.SHA256 == (bcp.Digest{}),
		"an escalation is seen as %+v", escalation)
	push, _ := w.state.View("mia", w.items[2])
	failIf(t, string(push.Content) != `{"summary":"a b"}` || push.Kind != bcp.ItemSummary || push.Subscription != "memo" || push.Query != "" || push.Spec.MaxWords != 2,
		"a push is seen as %+v", push)
	w.play("close planner\nopen planner => begins")
	push, _ = w.state.View("mia", w.items[2])
	failIf(t, len(push.Earlier) != 0, "earlier deliveries of another session: %+v", push.Earlier)
	expect(t, errorOf(w.state.View("mia", "i-none")), bcp.ItemNotFound, "no such item")
	w.play("reject 3 no")
	expect(t, errorOf(w.state.View("mia", w.items[2])), bcp.AlreadyDecided, "a decided item")
}

// A delivery bears the taint of its agent when it was decided, and never less
// than when it was answered: what an operator forgets meanwhile makes nothing
// clean that was said before.
//
// covers P8.1, P8.2, A-NEUTRAL
func TestTaintOfADecidedItem(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	channelIn(mesh, bcp.ChannelKey{Controller: "planner", Reader: "relay"}).Subscriptions = testMesh().Channels[1].Subscriptions
	memo := "push relay planner memo {\"summary\":\"a\"} => hold "
	for _, history := range []string{
		memo + "taint:low\napprove 1 => taint:low",
		memo + "taint:low\nreport relay web\napprove 1 => taint:medium",
		memo + "taint:low\npush mail relay alarm {\"ok\":true} => subscription_not_found\napprove 1 => taint:low",
		"report relay web\n" + memo + "taint:medium\nreset relay\napprove 1 => taint:medium",
		"ask relay mail three why=so => hold\napprove 1\nanswer mail 1 {\"summary\":\"a\"} => hold taint:medium\nreset mail\nreject 2 no => out:approval_rejected taint:medium",
		"report relay web\n" + memo + "\nreset relay\nwait 24h\ndue => expire silent",
	} {
		newWorld(t, mesh).play(history)
	}
}

// With a release interval what people decide leaves at a slot, in an order that
// they and the Reader did not choose: queries as they were asked, then pushes.
//
// covers P4.1, P7.3, P9.1
func TestDecidedItemsLeaveInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) {
		c.ReleaseInterval, c.Budget, c.PushBudget, c.MaxEscalations = time.Minute, 1000*bcp.Bit, 1000*bcp.Bit, 9
	})).play(`
		ask planner mail text            => accept
		ask planner mail three why=so    => hold
		ask planner mail three why=so    => hold
		wait 1s
		push mail planner memo {"summary":"b"} => hold
		push mail planner memo {"summary":"a"} => hold
		answer mail 1 ` + answerWord(heldAnswer) + ` => hold
		wait 61s
		approve 3   # the push b
		approve 4
		reject 2    # the third query
		reject 1    # the second
		approve 5   # the first`)
	var got []string
	slot := w.now.Truncate(time.Minute).Add(time.Minute)
	for _, o := range w.state.Outbox(plannerMail) {
		if o.Outcome == bcp.Held {
			continue // in the slots before
		}
		got = append(got, string(o.Outcome)+string(o.Response))
		failIf(t, !o.Release.Equal(slot), "%s leaves at %s, not at %s", o.DeliveryID, o.Release, slot)
	}
	want := []string{heldAnswer, "escalation_denied", "escalation_denied", `{"summary":"a"}`, `{"summary":"b"}`}
	failIf(t, !slices.Equal(got, want), "they leave as %q", got)
}

// Between hold and decision the definitions may change. Those of today hold:
// what they would not let through can be rejected and not released, and a query
// at its gate that costs something else now is cancelled.
//
// covers BCP-84, P1.5, P7.3
func TestDecisionsUnderOtherDefinitions(t *testing.T) {
	t.Parallel()
	const (
		push    = `push mail planner memo {"summary":"a_b"} => hold` + "\n"
		gate    = "ask planner mail three why=so => hold\n"
		summary = gate + "approve 1 => accept\n" + heldSummary + "\n"
		open    = "ask planner mail text => accept\n"
	)
	other := map[string]func(*bcp.Channel){
		"the same":          func(*bcp.Channel) {},
		"category denied":   func(c *bcp.Channel) { c.MaxCategory = 2 },
		"subscription gone": func(c *bcp.Channel) { c.Subscriptions = nil },
		"subscription redefined": func(c *bcp.Channel) {
			c.Subscriptions = slices.Clone(c.Subscriptions)
			c.Subscriptions[3].Spec = c.Subscriptions[0].Spec
		},
		"subscription narrower": func(c *bcp.Channel) {
			c.Subscriptions = slices.Clone(c.Subscriptions)
			c.Subscriptions[3].Spec.MaxWords = 1
		},
		"another price":           func(c *bcp.Channel) { c.ReleaseInterval = time.Minute },
		"approver removed":        func(c *bcp.Channel) { c.Approvers = nil },
		"another time to approve": func(c *bcp.Channel) { c.ApprovalTTL = time.Minute },
		"a smaller queue":         func(c *bcp.Channel) { c.MaxPendingApprovals = 0 },
	}
	for _, tt := range []struct{ name, before, after string }{
		{"the same", push, "approve 1 => delivers"},
		{"the same", gate, "approve 1 => accept\n" + heldSummary},
		{"the same", summary, "approve 2 => delivers"},
		{"category denied", push, `approve 1 => not_permitted
			edit 1 {"summary":"c"} => not_permitted
			reject 1 => accept silent notice`},
		{"category denied", gate, "approve 1 => not_permitted\nreject 1 => accept out:escalation_denied settled:1.0"},
		{"category denied", summary, "approve 2 => not_permitted\nreject 2 => accept out:approval_rejected settled:22.0"},
		{"category denied", gate + "approve 1", `answer mail 1 {"summary":"a"} => hold` + "\napprove 2 => not_permitted\nreject 2 => out:approval_rejected"},
		{"category denied", open, `answer mail 1 {"q":"fine"} => delivers`},
		{"subscription gone", push, "approve 1 => not_permitted\nreject 1 => accept notice"},
		{"subscription redefined", push, `approve 1 => not_permitted
			edit 1 {"summary":"c"} => malformed
			reject 1 => accept`},
		{"subscription narrower", push, `approve 1 => not_permitted
			edit 1 {"summary":"c"} => delivers`},
		{"subscription gone", push, "wait 24h\ndue => expire silent notice\ndue => nothing"},
		{"another price", gate, "reject 1 => item_expired\ndue => out:cancelled"},
		{"another price", summary, "approve 2 => not_permitted\nwait 24h\ndue => out:approval_expired settled:22.0\ndue => nothing"},
		{"another price", push, "approve 1 => delivers settled:22.0"},
		{"approver removed", gate, "approve 1 => !accept\nwait 24h\ndue => out:approval_expired"},
		{"another time to approve", push, "wait 23h\napprove 1 => delivers"},
		{"a smaller queue", push, push[:len(push)-len("=> hold\n")] + "=> approval_queue_full\napprove 1 => delivers"},
	} {
		t.Run(tt.name+", "+tt.before, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testMesh()).play("open planner\n" + tt.before)
			w.reload(edited(other[tt.name]))
			w.play(tt.after)
		})
	}

	// A channel that is gone has nothing to decide, and its open queries are cancelled; when
	// it comes back, the rest is decided.
	w := newWorld(t, testMesh()).play(push + gate)
	mesh := testMesh()
	mesh.Channels = slices.DeleteFunc(mesh.Channels, func(c bcp.Channel) bool { return c.ChannelKey == plannerMail })
	w.reload(mesh)
	failIf(t, len(w.state.ItemsFor("mia")) > 0 || len(w.state.Items()) > 0,
		"of a channel that is gone there waits %v", w.state.Items())
	w.play("approve 1 => item_not_found\nwait 2h\ndue => out:cancelled\ndue => nothing")
	w.reload(testMesh())
	w.play("due => nothing\napprove 1 => delivers\nwait 22h\ndue => nothing")
}
