package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// covers BCP-137, SUB-1, SUB-3, SUB-4, SUB-19, SUB-62, SUB-64, SUB-70, SUB-82, SUB-83, SUB-88, SUB-96, SUB-109, SUB-111, P4.3
func TestPushIsDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push mail planner alarm {"ok":true} => accept delivers bits:1.0 settled:1.0 pushed:1.0 reserved:0.0 begins by-delivery !renews epoch:1
		push mail planner alarm {"ok":true} => accept delivers settled:2.0 pushed:2.0 !begins`)
	out := w.state.Outbox(plannerMail)
	stopIf(t, len(out) != 2, "the outbox has %d deliveries", len(out))
	v := w.state.channels[plannerMail].subscriptions["alarm"]
	want := bcp.Delivery{Type: bcp.TypeResponseDelivery, DeliveryID: out[0].DeliveryID, SubscriptionID: "alarm", Category: 1, FromAgent: "mail",
		Response: []byte(`{"ok":true}`), BandwidthBits: bcp.Bit, CapacityBits: v.Prices().Capacity + 2*bcp.Bit, Taint: bcp.TaintMedium, ChannelMode: "bcp"}
	same(t, want, out[0].Delivery, "delivery")
}

// covers SUB-10, SUB-11, SUB-13, SUB-90, SUB-91, SUB-97, SUB-113, SUB-114, SUB-115, P10, A-SPOOF, C-11, SUB-96, P4.3
func TestPushCodesInOrder(t *testing.T) {
	t.Parallel()
	mesh := edited(func(c *bcp.Channel) { c.MaxPendingApprovals, c.Budget, c.PushBudget = 0, 23*bcp.Bit, 50*bcp.Bit })
	w := newWorld(t, mesh).play(`
		push mail planner memo {"summary":"a_b"}   => approval_queue_full bits:0.0 epoch:0 silent
		push mail planner alarm {"ok":true}        => accept
		push mail planner alarm {"ok":true}        => accept
		push mail planner memo {"summary":"a_b"}   => budget_exhausted bits:0.0 epoch:0 cap:0.0 silent
		push mail planner memo ` + answerWord(longSum) + ` => validation_failed
		push mail planner none {"summary":"a_b"}   => subscription_not_found
		push mail nobody alarm {"ok":true}         => subscription_not_found
		push web planner alarm {"ok":true}         => subscription_not_found   # the subscription is mail's
		push mail planner none junk                => malformed
		push mail planner alarm {"n":1}            => validation_failed
		push mail planner alarm {"ok":true,"taint":"low"} => validation_failed`)
	_, b, _ := w.state.Balance(plannerMail)
	failIf(t, b.Settled != 2*bcp.Bit || b.Pushed != 2*bcp.Bit || b.Reserved != 0, "refused pushes were charged: %+v", b)
	expect(t, len(w.state.Outbox(plannerMail)), 2, "deliveries")
	for body, want := range map[string]bcp.Code{
		string(pushBytes("clerk", "alarm", `{"ok":true}`, "")):                                                                      bcp.Malformed, // not the subject's
		string(pushBytes("planner", "note", `{"ok":true}`, "")):                                                                     bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"alarm","controller":"planner","not_enough_information":true}`:                    bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"alarm","controller":"planner","category":1,"response":{"ok":true}}`:              bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"alarm","controller":"planner","fields":[{"name":"n"}],"response":{"ok":true}}`:   bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"alarm","controller":"planner","response":{"ok":true,"requires_approval":false}}`: bcp.ValidationFailed,
	} {
		expect(t, w.state.DecidePush(w.moment(), "mail", "planner", "alarm", []byte(body)).Code, want, "%s", body)
	}
	limit := w.state.channels[plannerMail].subscriptions["alarm"].MaxBytes()
	for size, want := range map[int]bcp.Code{limit: "", limit + 1: bcp.MessageTooLarge} {
		body := fmt.Appendf(nil, "%-*s", size, pushBytes("planner", "alarm", `{"ok":true}`, ""))
		expect(t, w.state.DecidePush(w.moment(), "mail", "planner", "alarm", body).Code, want, "a push of %d bytes", size)
	}
}

// Two Controllers use one id for different specs of the same Reader.
//
// covers SUB-40, SUB-86, C-8, SUB-2, SUB-12, SUB-13, P1.1, A-COLL
func TestPushOfTheSameID(t *testing.T) {
	t.Parallel()
	newWorld(t, testMesh()).play(`
		push mail planner alarm {"ok":true} => accept bits:1.0
		push mail clerk alarm {"n":7}       => accept bits:10.0 settled:10.0
		push mail planner alarm {"n":7}     => validation_failed
		push mail clerk alarm {"ok":true}   => validation_failed
		push relay planner alarm {"ok":true} => accept settled:1.0
		push mail clerk note {"q":"hello"}  => subscription_not_found`)
}

// covers SUB-92, SUB-98, C-12, P4.3, P7.6, P7.4
func TestHeldPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.MaxPendingApprovals = 2 })).play(`
		push mail planner memo {"summary":"a_b"}  => hold item silent bits:22.0 settled:22.0 pushed:22.0 !begins
		push mail planner memo {"summary":"a_b"}  => hold item silent settled:44.0
		push mail planner memo {"summary":"a_b"}  => approval_queue_full
		push mail planner alarm {"ok":true}       => accept delivers     # none waits behind what is held
		wait 24h
		due                                       => expire item silent bits:0.0 settled:45.0
		due                                       => expire item silent settled:45.0
		due                                       => nothing
		push mail planner memo {"summary":"a_b"}  => hold settled:67.0`)
	out := w.state.Outbox(plannerMail)
	failIf(t, len(out) != 1 || out[0].SubscriptionID != "alarm", "the Controller hears of held pushes: %+v", out)
	if items := w.state.Items(); len(items) != 1 || items[0].Kind != "summary" || items[0].Subscription != "memo" || items[0].Query != "" {
		t.Errorf("items are %+v", items)
	}
}

// covers SUB-96, SUB-97, SUB-98, P4.3, P4.7, A-EXHAUST
func TestPushAtTheLimit(t *testing.T) {
	t.Parallel()
	ok, name := `push mail planner alarm {"ok":true}`, `push mail planner name {"q":"ada_lovelace"}`
	for _, tt := range []struct {
		name    string
		edit    func(*bcp.Channel)
		history []string
	}{
		{"push budget exactly", func(c *bcp.Channel) { c.PushBudget = 23 * bcp.Bit }, []string{name + " => accept", ok + " => accept pushed:23.0", ok + " => budget_exhausted"}},
		{"a nano-bit less", func(c *bcp.Channel) { c.PushBudget = 23*bcp.Bit - 1 }, []string{name + " => accept", ok + " => budget_exhausted", "ask planner mail num => accept"}},
		{"budget exactly", func(c *bcp.Channel) { c.Budget = 23 * bcp.Bit }, []string{name + " => accept", ok + " => accept settled:23.0", ok + " => budget_exhausted", "ask planner mail one => budget_exhausted"}},
		{"budget a nano-bit less", func(c *bcp.Channel) { c.Budget = 23*bcp.Bit - 1 }, []string{name + " => accept", ok + " => budget_exhausted"}},
		{"reserved counts", func(c *bcp.Channel) { c.Budget = 10 * bcp.Bit }, []string{"ask planner mail num => accept", ok + " => budget_exhausted", "answer mail 1 nei => accept", ok + " => accept settled:2.0"}},
		{"no push budget", func(c *bcp.Channel) { c.PushBudget = 0 }, []string{ok + " => budget_exhausted"}},
		{"window", func(c *bcp.Channel) { c.WindowBudget = 2 * bcp.Bit }, []string{ok + " => accept", ok + " => accept", ok + " => budget_exhausted", "wait 24h", ok + " => budget_exhausted", "wait 23m", ok + " => accept settled:3.0"}},
		{"queries leave it", func(c *bcp.Channel) { c.PushBudget = 1 * bcp.Bit }, []string{"ask planner mail name => accept", `answer mail 1 {"q":"ada"} => settled:22.0 pushed:0.0`, ok + " => accept pushed:1.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, edited(tt.edit))
			for _, line := range tt.history {
				w.play(line)
			}
		})
	}
}

// The choice of the moment is priced from the channel's last release, or from
// the beginning of the journal.
//
// covers P4.1, A-SUBSEL
func TestPushTimingIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.ReleaseInterval = 60e9 }))
	base := w.state.channels[plannerMail].subscriptions["alarm"].Prices().Capacity
	price := func(slots uint64) string { return "cap:" + (base + bcp.PushTiming(slots)).String() }
	w.play(`
		event connect mail 0
		wait 9m
		push mail planner alarm {"ok":true} => accept ` + price(10) + `
		push mail planner alarm {"ok":true} => accept ` + price(10) + `
		wait 1m
		push mail planner alarm {"ok":true} => accept ` + price(2) + `
		wait 100m
		push mail planner alarm {"ok":true} => accept ` + price(101))
	failIf(t, !w.last.Timing, "the record says that timing is uncounted")
}

// covers P2.6
func TestPushRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push mail planner alarm {"ok":true} id=p1   => accept settled:1.0
		push mail planner alarm {"ok":true} id=p1   => accept repeat silent settled:1.0 bits:1.0
		push mail planner alarm {"ok":false} id=p1  => malformed !repeat silent
		push mail planner alarm {"ok":true} id=p1   => accept repeat
		push relay planner alarm {"ok":true} id=p1  => accept !repeat
		ask planner mail yes id=p1                  => accept !repeat   # the other end's id
		push mail planner memo {"summary":"a_b"} id=p2 => hold
		push mail planner memo {"summary":"a_b"} id=p2 => hold repeat
		push mail planner alarm {"n":1} id=p3       => validation_failed
		push mail planner alarm {"n":1} id=p3       => validation_failed repeat
		wait 24h
		push mail planner alarm {"ok":false} id=p1  => accept !repeat`)
	expect(t, len(w.state.Outbox(plannerMail)), 2, "deliveries")
}

// The same answer is judged and delivered alike as the answer to a query and
// as a push.
//
// covers SUB-2, SUB-15, SUB-38, SUB-93, SUB-137
func TestPushIsJudgedLikeAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ spec, subscription, value string }{
		{"yes", "alarm", `{"ok":true}`}, {"yes", "alarm", `{"ok":1}`}, {"name", "name", `{"q":"Ada_LOVELACE"}`}, {"name", "name", `{"q":"ada_lovelace_king"}`},
		{"text", "note", answerWord(heldAnswer)}, {"three", "memo", `{"summary":"two_words"}`}, {"three", "memo", `{"summary":""}`},
	} {
		w := newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 0 }))
		w.play(`push mail planner ` + tt.subscription + ` ` + tt.value)
		push := w.last
		v := w.state.channels[plannerMail].subscriptions[bcp.SubscriptionID(tt.subscription)]
		query := must(bcp.Compile(testSpec(tt.spec), w.state.channels[plannerMail].settings))
		in, code := bcp.ParseResponse(answerBytes("q1", tt.value), bcp.JSON)
		stopIf(t, code != "", "%v", code)
		verdict := query.Judge(in.Raw)
		if verdict.Outcome != push.Verdict || verdict.Reason != push.Reason || verdict.Field != push.Field || string(verdict.Answer.JSON()) != string(push.Payload) ||
			v.Prices().Nominal != query.Prices().Nominal {
			t.Errorf("%s: the query's verdict is %+v, the push's decision %+v", tt.value, verdict, push)
		}
	}
}

// covers SUB-12, SUB-43, SUB-44, SUB-47, SUB-87, SUB-129
func TestSubscriptionsOfAReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	var got []string
	for _, sub := range w.state.Subscriptions("mail").Subscriptions {
		got = append(got, fmt.Sprintf("%s/%s/%d", sub.Controller, sub.SubscriptionID, sub.Category))
	}
	want := []string{"clerk/alarm/1", "planner/alarm/1", "planner/name/2", "planner/note/2", "planner/memo/3", "planner/zero/1"}
	same(t, want, got, "subscriptions")
	if got := w.state.Subscriptions("web").Subscriptions; got == nil || len(got) != 0 {
		t.Errorf("web has %v", got)
	}
}

// What waits for a Controller that is absent is bounded: pushes by themselves, and
// queries whose end it has not acknowledged by themselves. So neither end of a
// channel can tell from a refusal what the other has waiting there.
//
// covers P4.7, A-FREE, A-TIME
func TestOutboxIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push mail planner zero {"x":"x"} => accept bits:1.0
		ask planner mail one             => accept
		answer mail 1 {"x":"x"}          => delivers
		ask planner mail text            => accept
		answer mail 2 ` + answerWord(heldAnswer) + ` => hold`)
	ch := w.state.channels[plannerMail]
	push, end, held := ch.outbox[0], ch.outbox[1], ch.outbox[2]
	full := func(name string, pushes, asks bcp.Code) {
		t.Helper()
		push := w.state.DecidePush(w.moment(), "mail", "planner", "zero", pushBytes("planner", "zero", `{"x":"x"}`, ""))
		failIf(t, push.Code != pushes, "%s: a push got %q", name, push.Code)
		ask := w.state.DecideAsk(w.moment(), "planner", "mail", askBytes("one", "", ""))
		failIf(t, ask.Code != asks, "%s: an ask got %q", name, ask.Code)
	}
	with := func(out Outgoing, n int, more ...Outgoing) {
		ch.outbox, ch.ends, ch.holds = slices.Concat(slices.Repeat([]Outgoing{out}, n), more), 0, 0
		for i := range ch.outbox {
			ch.count(&ch.outbox[i], 1)
		}
	}
	with(push, maxOutbox-1)
	full("a push less than there may be", "", "")
	with(push, maxOutbox)
	full("as many pushes as there may be", bcp.ControllerUnavailable, "")
	with(end, maxOutbox-2) // and the one that a person has
	full("a query less than there may be", "", "")
	with(end, maxOutbox-1)
	full("as many queries as there may be", "", bcp.Unavailable)
	with(end, maxOutbox-2, held)
	full("what is held is one query", "", "")
	ch.pools[1].open++
	full("an open query", "", bcp.Unavailable)
}

// No message of either end makes or widens a channel, a subscription, a limit
// or a query of the other.
//
// covers BCP-11, BCP-164, SUB-8, SUB-127, SUB-130, C-2, BCP-1, SUB-1, P1.5
func TestNothingWidensAtRuntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	before := w.state.Subscriptions("mail")
	subscription := `{"id":"new",` + testSpecs["yes"] + `}`
	w.play(`
		say planner mail {"subscriptions":[` + subscription + `],` + testSpecs["yes"] + `} => invalid_query
		say planner mail {"type":"bcp_subscribe",` + testSpecs["yes"] + `}                 => malformed
		say planner mail {"budget_bits":100000,` + testSpecs["yes"] + `}                   => invalid_query
		say planner mail {"max_category":3,` + testSpecs["yes"] + `}                       => invalid_query
		ask planner clerk yes                                                             => no_channel
		ask clerk relay yes                                                               => no_channel
		ask mail planner yes                                                              => no_channel
		push mail planner new {"ok":true}                                                 => subscription_not_found
		push web planner alarm {"ok":true}                                                => subscription_not_found
		push planner mail alarm {"ok":true}                                               => subscription_not_found
		due                                                                               => nothing`)
	if diff := cmp.Diff(before, w.state.Subscriptions("mail")); diff != "" || len(w.state.channels) != len(testMesh().Channels) || len(w.state.queries) != 0 {
		t.Errorf("the mesh changed:\n%s", diff)
	}
}
