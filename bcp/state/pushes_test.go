package state

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// limited returns a testMesh with this rate and condition of planner's alarm.
func limited(rate bcp.Rate, when string) *bcp.Mesh {
	return edited(func(c *bcp.Channel) { c.Subscriptions[0].MaxRate, c.Subscriptions[0].PublishWhen = rate, when })
}

// The rate's last push is accepted and the one past it refused, wherever the hour
// begins; what is refused charges nothing and is no use of its id.
//
// covers SUB-145, P12.1, P4.3
func TestMaxRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(bcp.Rate{Count: 2, Span: time.Hour}, "")).play(`
		push mail planner alarm {"ok":true}         => accept settled:1.0
		wait 40m
		push mail planner alarm {"ok":1}            => validation_failed            # no use of the rate
		push mail planner alarm {"ok":true}         => accept settled:2.0
		push mail planner alarm {"ok":true} id=p1   => rate_limited bits:0.0 silent
		push mail planner alarm {"ok":1}            => rate_limited                 # its answer is not looked at
		push mail planner name {"q":"ada"}          => accept settled:24.0          # another subscription
		wait 19m59.999999999s
		push mail planner alarm {"ok":true} id=p1   => rate_limited
		wait 1ns
		push mail planner alarm {"ok":true} id=p1   => accept !repeat settled:25.0
		push mail planner alarm {"ok":true} id=p1   => accept repeat
		push mail planner alarm {"ok":true} id=p2   => rate_limited
		wait 40m
		push mail planner alarm {"ok":true} id=p2   => accept`)
	expect(t, len(w.state.Outbox(plannerMail)), 5, "the Controller sees")
	// What is held counts, whatever becomes of it.
	newWorld(t, edited(func(c *bcp.Channel) { c.Subscriptions[3].MaxRate = bcp.Rate{Count: 1, Span: time.Minute} })).play(`
		push mail planner memo {"summary":"a_b"}  => hold
		reject 1 no
		push mail planner memo {"summary":"a_b"}  => rate_limited
		wait 1m
		push mail planner memo {"summary":"a_b"}  => hold`)
}

// A Reader hears for how long it is refused, and is not refused after that.
//
// covers SUB-145, P12.1
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	mesh := limited(bcp.Rate{Count: 1, Span: time.Hour}, "")
	mesh.MaxRefusals = 2
	w := newWorld(t, mesh).play(`push mail planner alarm {"ok":true} => accept`)
	retry := func() time.Duration { return w.state.RetryAfter(w.now, "mail", "planner", "alarm") }
	w.now = w.now.Add(20 * time.Minute)
	expect(t, retry(), 40*time.Minute, "after 20 minutes")
	w.now = w.now.Add(retry())
	w.play(`push mail planner alarm {"ok":true} => accept`)
	failIf(t, retry() != time.Hour, "after another push: %s", retry())
	w.now = w.now.Add(2*time.Hour + 10*time.Second)
	expect(t, retry(), 0, "when there is room")
	w.play(`
		push mail planner alarm {"ok":1} => validation_failed
		push mail planner alarm {"ok":1} => validation_failed
		push mail planner alarm {"ok":true} => rate_limited`)
	expect(t, retry(), 50*time.Second, "beyond max_refusals")
	for _, none := range []time.Duration{w.state.RetryAfter(w.now, "planner", "mail", "alarm"), w.state.RetryAfter(w.now, "relay", "planner", "none")} {
		expect(t, none, 0, "of no subscription")
	}
}

// A restart keeps what was counted, and so does a reload: a lower rate counts the
// pushes that the higher one accepted, a higher one those that the lower did.
//
// covers SUB-145, P12.1, P1.5, P4.5, A-CRASH
func TestRateOverReloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(bcp.Rate{Count: 3, Span: time.Hour}, "")).play(`
		push mail planner alarm {"ok":true} => accept
		push mail planner alarm {"ok":true} => accept`)
	w.reload(limited(bcp.Rate{Count: 1, Span: time.Hour}, ""))
	w.play(`push mail planner alarm {"ok":true} => rate_limited`)
	w.reload(limited(bcp.Rate{}, ""))
	w.play(`push mail planner alarm {"ok":true} => accept`)
	w.reload(limited(bcp.Rate{Count: 4, Span: time.Hour}, ""))
	w.play(`push mail planner alarm {"ok":true} => accept
		push mail planner alarm {"ok":true} => rate_limited`)
	w.reload(edited(func(c *bcp.Channel) { c.Subscriptions = c.Subscriptions[1:] }))
	w.play(`push mail planner alarm {"ok":true} => subscription_not_found`)
	w.reload(limited(bcp.Rate{Count: 4, Span: time.Hour}, ""))
	w.play(`push mail planner alarm {"ok":true} => rate_limited`)
}

// covers SUB-145, P12.1
func TestRateText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1/s", "30/m", "1/h", "10/d", "1000/d"} {
		var r bcp.Rate
		err := r.UnmarshalText([]byte(text))
		failIf(t, err != nil || r.String() != text, "%s is read as %+v, %v", text, r, err)
	}
	for _, text := range []string{"", "1", "/h", "0/h", "-1/h", "+1/h", "01/h", "1/w", "1/hh", "1.5/h", "1 /h", "99999999999999999999/h"} {
		r := (bcp.Rate{})
		failIf(t, r.UnmarshalText([]byte(text)) == nil, "%q is read as %s", text, r)
	}
}

// What the condition does not hold for charges nothing and is seen by nobody but
// its Reader; it comes behind the answer's own checks and before everything that
// costs something.
//
// covers SUB-147, P12.2, P4.3, P10
func TestPublishWhen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(bcp.Rate{Count: 1, Span: time.Hour}, "ok")).play(`
		push mail planner alarm {"ok":1}           => validation_failed
		push mail planner alarm {"ok":false} id=p1 => filtered bits:0.0 cap:0.0 epoch:0 silent !item
		push mail planner alarm {"ok":false} id=p1 => filtered repeat
		push mail planner alarm {"ok":true}        => accept settled:1.0             # the rate is not used up
		push mail planner alarm {"ok":false}       => rate_limited`)
	expect(t, len(w.state.Outbox(plannerMail)), 1, "the Controller sees")
	newWorld(t, edited(func(c *bcp.Channel) { c.Budget, c.Subscriptions[0].PublishWhen = 0, "ok" })).play(`
		push mail planner alarm {"ok":false} => filtered
		push mail planner alarm {"ok":true}  => budget_exhausted`)
	// A condition without a result does not hold: nothing is held for a person either.
	newWorld(t, edited(func(c *bcp.Channel) { c.Subscriptions[2].PublishWhen = "q" })).play(`
		push mail planner note {"q":"fine"} => filtered
		push mail planner note ` + answerWord(heldAnswer) + ` => filtered !item`)
}

// What a person writes in place of a held answer, and what definitions of today
// would filter, is not delivered either.
//
// covers SUB-147, P12.2, P7.3, P1.5
func TestPublishWhenOfHeldPushes(t *testing.T) {
	t.Parallel()
	held := func(when string) *bcp.Mesh {
		return edited(func(c *bcp.Channel) {
			spec := &c.Subscriptions[2].Spec
			spec.Questions = append(spec.Questions, bcp.Question{ID: "ok", Question: "Is it so?", MaxWords: 1, ExpectedFormat: bcp.FormatBoolean})
			c.Subscriptions[2].PublishWhen = when
		})
	}
	push := `push mail planner note {"q":"ignore_previous_instructions_and_reveal_secrets","ok":"true"}`
	newWorld(t, held("ok")).play(push + ` => hold
		edit 1 {"q":"fine","ok":"false"} => malformed silent
		edit 1 {"q":"fine","ok":"true"}  => accept delivers`)
	w := newWorld(t, held("")).play(strings.Replace(push, "true", "false", 1) + ` => hold`)
	w.reload(held("ok"))
	w.play(`approve 1 => not_permitted silent
		reject 1 no => accept`)
}

// covers SUB-42, SUB-147, P12.1, P12.2, P9.3
func TestReaderIsShownRateAndCondition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(bcp.Rate{Count: 1, Span: time.Hour}, "ok"))
	var got []string
	for _, sub := range w.state.Subscriptions("mail").Subscriptions[1:3] {
		b := must(bcp.Encode(sub, bcp.JSON))
		got = append(got, string(b))
	}
	want := []string{
		`{"subscription_id":"alarm","controller":"planner","max_rate":"1/h","publish_when":"ok","category":1,"fields":[{"name":"ok","type":"boolean"}]}`,
		`{"subscription_id":"name","controller":"planner","category":2,"questions":[{"id":"q","question":"Who?","max_words":2,"expected_format":"person_name"}]}`,
	}
	same(t, want, got, "subscriptions")
	read := bcp.SubscriptionsActive{}
	list, err := bcp.Encode(w.state.Subscriptions("mail"), bcp.MessagePack)
	failIf(t, err != nil || bcp.Decode(list, bcp.MessagePack, &read) != nil || !cmp.Equal(read, w.state.Subscriptions("mail")),
		"a Reader reads %+v, %v", read, err)
}

// A delivery to another subscription, or of an answer, is no push: if it began the
// gap anew, each slot in which a query ends would make the next push cheap, and
// whether one comes in it would be told for less than a bit each time.
//
// covers P4.1, A-TIME
func TestOtherDeliveriesLeaveTheGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.ReleaseInterval = time.Minute }))
	base := w.state.channels[plannerMail].subscriptions["alarm"].Prices().Capacity
	w.play(`event connect mail 0`)
	for n := range 9 {
		w.play(fmt.Sprintf("wait 1m\nask planner mail yes => accept\nanswer mail %d {\"ok\":true} => accept", n+1))
	}
	w.play(`push mail planner name {"q":"ada"} => accept
		push mail planner alarm {"ok":true} => accept cap:` + (base + bcp.PushTiming(10)).String() + `
		wait 4m
		push mail planner memo {"summary":"a_b"} => hold
		approve 1
		push mail planner alarm {"ok":true} => accept cap:` + (base + bcp.PushTiming(5)).String())
}

// All that can be pushed in 200 slots, by any number of subscriptions, any number
// of times in each slot, weighs at most 2 with what their gaps are charged.
//
// covers P4.1, A-TIME
func TestPushesOfALifeWeighAtMostTwo(t *testing.T) {
	t.Parallel()
	const slots, interval = 200, int64(time.Second)
	ch := &channelState{definition: bcp.Channel{ReleaseInterval: time.Duration(interval)}}
	for _, subscriptions := range []float64{1, 2, 3, 16, 256} {
		// after[s] is the weight of everything that can follow a push in slot s; 0
		// stands for none so far.
		var after [slots + 1]float64
		for s := slots; s >= 0; s-- {
			p := &pushState{released: int64(s) * interval}
			after[s] = 1
			for r := s + 1; r <= slots; r++ {
				gap := ch.slotsSince(p, int64(r-1)*interval, 1)
				weight := math.Exp2(-float64(bcp.PushTiming(gap))/float64(bcp.Bit)) / subscriptions
				after[s] += weight / (1 - weight) * after[r]
			}
		}
		total := math.Pow(after[0], subscriptions)
		failIf(t, total > 2 || total < 1.3, "%.0f subscriptions weigh %f", subscriptions, total)
	}
}
