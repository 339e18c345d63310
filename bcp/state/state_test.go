package state

import (
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// covers SUB-5, SUB-17, SUB-18, SUB-77, SUB-78, SUB-81, SUB-131, SUB-132, P9.1, P9.2
func TestSessions(t *testing.T) {
	t.Parallel()
	mesh := edited(func(c *bcp.Channel) { c.QueryTTL = 3 * time.Hour })
	w := newWorld(t, mesh).play(`
		open planner                        => begins session:s000001
		open planner                        => !begins session:s000001
		ask planner mail yes                => session:s000001
		ask planner web yes                 => session:s000001     # working on meanwhile
		wait 29m
		answer mail 1 {"ok":true}           => delivers !begins session:s000001
		wait 29m                            # a delivery is activity
		push mail planner alarm {"ok":true} => !begins session:s000001
		ask planner mail yes                => session:s000001
		wait 30m
		push mail planner alarm {"ok":true} => begins by-delivery session:s000008
		answer mail 3 {"ok":true}           => delivers !begins session:s000008
		ask clerk mail num                  => begins renews !by-delivery
		open planner                        => !begins session:s000008
		close planner                       => ends session:s000008
		push mail planner alarm {"ok":true} => begins by-delivery`)
	expect(t, len(w.state.Outbox(plannerMail)), 5, "deliveries")
}

// covers P10
func TestSessionCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	for body, want := range map[string]bcp.Code{
		`{"verb":"open"}`: "", `{"type":"bcp_session","verb":"close"}`: "", `{"verb":"renew"}`: bcp.Malformed, `{"verb":7}`: bcp.Malformed,
		`{"verb":"open","epoch":2}`: bcp.Malformed, `{"verb"`: bcp.Malformed, strings.Repeat(" ", bcp.MaxControllerMessage-15) + `{"verb":"open"}`: "",
		strings.Repeat(" ", bcp.MaxControllerMessage-14) + `{"verb":"open"}`: bcp.MessageTooLarge,
	} {
		expect(t, w.state.DecideSession(w.moment(), "planner", []byte(body)).Code, want, "%.30q of %d bytes", body, len(body))
	}
	expect(t, w.state.DecideSession(w.moment(), "nobody", []byte(`{"verb":"open"}`)).Code, bcp.RateLimited, "nobody")
}

// Beyond max_refusals an agent's messages are not read until the next minute.
//
// covers P4.7, P10, A-FLOODRESP
func TestRefusalsAreLimited(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	mesh.MaxRefusals = 3
	junk := "push mail planner alarm junk => malformed\n"
	limited := `
		push mail planner alarm {"ok":true} => rate_limited
		answer mail none {"ok":true}        => rate_limited
		answer mail none junk               => rate_limited
		push web planner alarm {"ok":true}  => subscription_not_found   # another agent
		ask planner mail yes                => accept
		wait 1m
		push mail planner alarm {"ok":true} => accept`
	newWorld(t, mesh).play(junk + junk + `push mail planner alarm {"ok":true} => accept`)
	newWorld(t, mesh).play(junk + junk + junk + limited)
	newWorld(t, mesh).play("event violation mail 2\n" + junk + limited)
	newWorld(t, mesh).play("event violation mail 9223372036854775807\nevent violation mail 9223372036854775807\n" + limited)
	// What was only counted was refused because of the limit, and does not
	// extend it: an agent that goes on is heard again in the next minute.
	newWorld(t, mesh).play("event refusals mail 3\n" + `push mail planner alarm {"ok":true} => accept`)
	// What a Reader can bring about does not silence its Controller elsewhere.
	broke := testMesh()
	broke.MaxRefusals = 3
	for i := range broke.Channels {
		if broke.Channels[i].ChannelKey == (bcp.ChannelKey{Controller: "planner", Reader: "mail"}) {
			broke.Channels[i].Budget = 0
		}
	}
	newWorld(t, broke).play(strings.Repeat("ask planner mail yes => budget_exhausted\n", 9) + "ask planner web yes => accept")
	newWorld(t, mesh).play("event connect mail 5\n" + junk + junk + `push mail planner alarm {"ok":true} => accept`)
	// A repeated refusal is a refusal; a repeated success is none at first.
	newWorld(t, mesh).play(`
		push mail planner alarm {"n":1} id=a  => validation_failed
		push mail planner alarm {"n":1} id=a  => validation_failed repeat
		push mail planner alarm {"n":1} id=a  => validation_failed repeat` + limited)
	repeats := strings.Repeat(`push mail planner alarm {"ok":true} id=a => accept
		`, 1+maxRepeats)
	newWorld(t, mesh).play(repeats + `push mail planner alarm {"ok":true} id=b => accept`)
	more := testMesh()
	more.MaxRefusals = maxRepeats + 2 // fewer are only counted
	newWorld(t, more).play(repeats + strings.Repeat(`push mail planner alarm {"ok":true} id=a => accept repeat
		`, maxRepeats+2) + limited)
	// So is an answer to a query that is answered: the gateway sent the query again.
	answers := `ask planner mail yes => accept
		answer mail 1 {"ok":true} => delivers
		` + strings.Repeat(`answer mail 1 {"ok":true} => already_answered
		`, maxRepeats)
	newWorld(t, mesh).play(answers + junk + `push mail planner alarm {"ok":true} => accept`)
	newWorld(t, more).play(answers + strings.Repeat(`answer mail 1 {"ok":true} => already_answered
		`, maxRepeats+2) + limited)
	// An agent that is both has one limit.
	newWorld(t, mesh).play(`
		push relay planner alarm junk         => malformed
		ask relay web yes                     => no_channel
		ask relay web yes                     => no_channel
		ask relay mail yes                    => rate_limited
		open relay                            => rate_limited
		push relay planner alarm {"ok":true}  => rate_limited`)
	// So are a Controller's, and its sessions.
	newWorld(t, mesh).play(`
		say planner mail {                    => malformed
		say planner mail {                    => malformed
		ask planner web yes                   => accept
		say planner mail {                    => malformed
		ask planner mail yes                  => rate_limited
		close planner                         => rate_limited`)
}

// covers P2.6, P4.5
func TestStateForgetsAfterADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.MaxRetries = 0 })).play(`
		ask planner mail yes id=r1                => accept
		ask planner mail yes                      => accept
		ask planner mail yes                      => accept
		ask planner mail three why=so             => hold
		answer mail 1 {"ok":true}                 => delivers
		answer mail 2 junk                        => out:rejected
		push mail planner alarm {"ok":true} id=p1 => accept
		push mail planner alarm {"n":1} id=p2     => validation_failed
		push mail nobody alarm {"n":1} id=p3      => subscription_not_found
		wait 15m
		due                                       => out:expired
		wait 23h45m
		due                                       => out:approval_expired
		due                                       => nothing`)
	if n := len(w.state.queries); n != 2 { // two ended a day ago
		t.Errorf("%d queries are kept", n)
	}
	w.play(`
		wait 24h
		event connect mail 0`)
	for what, n := range map[string]int{"queries": len(w.state.queries), "items": len(w.state.items), "timers": len(w.state.deadline),
		"endings": len(w.state.endings), "client ids": w.state.firsts.kept, "their chunks": len(w.state.firsts.chunks), "pools": len(w.state.channels[plannerMail].pools) - 1} {
		expect(t, n, 0, "%s are kept", what)
	}
	expect(t, errorOf(w.state.NextDue()), false, "something is due of nothing")
}

// NextDue never says that something is due when DecideDue decides nothing: the
// gateway would spin.
//
// covers P4.5
func TestNextDueIsDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail yes       => accept
		wait 1m
		ask planner mail yes       => accept
		answer mail 1 {"ok":true}  => delivers
		wait 14m`)
	if at, ok := w.state.NextDue(); !ok || !at.Equal(w.now.Add(time.Minute)) {
		t.Errorf("next is %v %v at %v", at, ok, w.now)
	}
	w.play(`
		due                        => nothing
		wait 1m
		due                        => out:expired
		due                        => nothing`)
	at, ok := w.state.NextDue()
	failIf(t, ok, "next is %v", at)
}

// An alert is due from the decision on that raised it, and as many times as there are
// alerts.
//
// covers P4.6, P4.5
func TestAlertsAreDueAtOnce(t *testing.T) {
	t.Parallel()
	name := "ask planner mail name "
	w := newWorld(t, edited(func(c *bcp.Channel) { c.AlertBits = 20 * bcp.Bit })).play(strings.Repeat(name+"=> accept\n", 4))
	w.play(name + "=> budget_exhausted\nwait 1m")
	for _, kind := range []bcp.AlertKind{bcp.AlertThreshold, bcp.AlertExhausted} {
		at, ok := w.state.NextDue()
		failIf(t, !ok || at.After(w.now), "next is %v %v at %v", at, ok, w.now)
		w.play("due => alert event:" + string(kind))
	}
	at, ok := w.state.NextDue()
	failIf(t, !ok || !at.After(w.now), "next is %v %v at %v", at, ok, w.now)
	w.play("due => nothing")
}

// covers P1.3
func TestCompiledSpecsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	ch := w.state.channels[plannerMail]
	high := int64(0)
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "n", Type: bcp.TypeInteger, Min: new(int64), Max: &high}}}
	for high = range int64(maxCompiled + 100) {
		_, _, err := w.state.validator(ch, spec)
		noError(t, err)
		stopIf(t, len(w.state.compiled) > maxCompiled, "%d specs are kept", len(w.state.compiled))
	}
	// Equal specs of two channels are compiled for each.
	first, _, _ := w.state.validator(ch, spec)
	again, _, _ := w.state.validator(ch, spec)
	other, _, _ := w.state.validator(w.state.channels[bcp.ChannelKey{Controller: "clerk", Reader: "mail"}], spec)
	failIf(t, first != again || first == other, "the memo mixes channels, or keeps nothing")
}

// Deciding changes nothing: only Apply does.
//
// covers P4.5
func TestDecideTouchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail yes       => accept
		ask planner mail three why=so => hold
		push mail planner alarm {"ok":true} => accept
		wait 30m`)
	before, m := dump(w.state), w.moment()
	w.state.DecideStart(m, "1")
	w.state.DecideAsk(m, "planner", "mail", askBytes("num", "r", ""))
	w.state.DecideAnswer(m, "mail", w.queries[0], 0, answerBytes(w.queries[0], "junk"))
	w.state.DecidePush(m, "mail", "planner", "alarm", pushBytes("planner", "alarm", `{"ok":true}`, "p"))
	w.state.DecideAcknowledge(m, "planner", bcp.RoleController, w.state.Outbox(plannerMail)[0].DeliveryID)
	w.state.DecideSession(m, "planner", []byte(`{"verb":"close"}`))
	w.state.DecideViolation(m, "mail", bcp.RoleReader, "publish", "push", []byte("x"), 1)
	w.state.DecideDue(m)
	expect(t, dump(w.state), before, "the state")
	// Every decision names the one before it, and the context.
	d := w.state.DecideStart(m, "1")
	failIf(t, d.Seq != w.state.Last()+1 || d.Prev != w.state.Head() || d.Context != w.state.context || d.Versions == "",
		"the next decision is %+v", d)
}
