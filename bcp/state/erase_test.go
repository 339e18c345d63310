package state

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// quiet ends everything that the mesh needs of the days before, and lets them go
// by.
func quiet(w *world) {
	for _, c := range controllersOf(w.config.Mesh) {
		w.act("close " + c)
	}
	for range 200 {
		for _, act := range []string{"ack planner", "ack clerk", "ack relay", "notice mail", "notice web", "notice planner", "due"} {
			w.act(act)
		}
		w.now = w.now.Add(20 * time.Minute)
	}
	w.act("wait 48h")
	w.act("due")
}

// controllersOf names those that may open sessions.
func controllersOf(m *bcp.Mesh) (names []string) {
	for _, a := range m.Agents {
		if a.Controller {
			names = append(names, string(a.Name))
		}
	}
	return names
}

// What outlives its day in the state goes with the erasure: what approvers are shown
// of a session that is over, its quotations, and the push_id in a result that its
// Reader has not got.
//
// covers P6.4, P7.1, P11.5
func TestStateForgets(t *testing.T) {
	t.Parallel()
	const text = "the rates rise on monday again"
	w := newWorld(t, edited(func(c *bcp.Channel) { c.Budget, c.PushBudget = 1000*bcp.Bit, 1000*bcp.Bit })).play("start\nopen planner\npush mail planner note " + answerWord(`{"q":"`+text+`"}`) + ` => delivers
		ack planner
		push mail planner note ` + answerWord(heldAnswer) + ` id=canary => hold
		reject 1 => notice
		ask planner web yes
		close planner
		due`)
	for len(w.state.Outbox(bcp.ChannelKey{Controller: "planner", Reader: "web"})) > 0 {
		w.act("ack planner")
	}
	w.act("wait 48h")
	run := wordRuns(text)[0]
	has := func() (content, quoted, client bool) {
		checkpoint := must(w.state.Checkpoint())
		return bytes.Contains(checkpoint, []byte(text)), bytes.Contains(checkpoint, run[:]), bytes.Contains(checkpoint, []byte("canary"))
	}
	if content, quoted, client := has(); !content || !quoted || !client {
		t.Fatalf("before: %t %t %t", content, quoted, client)
	}
	w.play("erase planner mail latest => accept")
	content, quoted, client := has()
	failIf(t, content || quoted || client, "afterwards: %t %t %t", content, quoted, client)
	expect(t, len(w.state.Notices("mail", bcp.RoleReader)), 1, "notices")
}

// What is needed is not erased: each reason alone refuses, and at the limit
// nothing does.
//
// covers P2.6, P6.4, P9.1, P11.5
func TestNeededIsNotErased(t *testing.T) {
	t.Parallel()
	tomorrow := "2027-01-16" // a world begins at 8:00 on the 15th
	for name, c := range map[string]struct {
		history, reason string
	}{
		"a delivery":    {`push mail planner alarm {"ok":true}`, "1 deliveries of those days are not acknowledged"},
		"an item":       {"push mail planner note " + answerWord(heldAnswer), "1 items of those days wait for a person"},
		"an open query": {"ask planner mail yes", "1 queries of those days are open"},
		"an ended one":  {"wait 15h50m\nask planner mail yes\nwait 14m\nanswer mail 1 {\"ok\":true}\nack planner", "1 queries of those days ended less than a day ago: it can be erased from 20"},
		"a session":     {"open planner", "the controller's session began before and is open: bcpmesh session close ends it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testMesh()).play("start\n" + c.history)
			if name == "a session" {
				w.state.mesh.IdleTimeout = 100 * time.Hour
			} else {
				w.act("close planner")
			}
			w.now = time.Date(2027, 1, 17, 0, 0, 0, 0, time.UTC)
			got := w.act("erase planner mail " + tomorrow)
			stopIf(t, got[0] != "refused" || !strings.Contains(strings.Join(w.reasons, "; "), c.reason), "%v, %q", got, w.reasons)
		})
	}
	w := newWorld(t, testMesh()).play("start\npush mail planner alarm {\"ok\":true}\nack planner\nclose planner")
	for _, limit := range []struct {
		at     time.Time
		reason string
	}{
		{time.Date(2027, 1, 17, 0, 0, 0, -1, time.UTC), "request ids"},
		{time.Date(2027, 1, 17, 0, 0, 0, 0, time.UTC), ""},
	} {
		w.now = limit.at
		got := w.act("erase planner mail " + tomorrow)
		failIf(t, limit.reason == "" && got[0] == "refused" || limit.reason != "" && !strings.Contains(strings.Join(w.reasons, ""), limit.reason),
			"at %s: %v, %q", limit.at, got, w.reasons)
	}
	for _, r := range []bcp.EraseRequest{{}, {Before: "2027-1-16"}, {Before: "yesterday"}, {Before: "1969-12-31"}, {Before: "9999-12-31"}, {Controller: "planner", Before: tomorrow}, {Reader: "mail", Before: tomorrow},
		{Controller: "*", Reader: "mail", Before: tomorrow}, {Controller: "planner", Reader: ">", Before: tomorrow}, {Controller: "planner.x", Reader: "mail", Before: tomorrow}} {
		d, reasons := w.state.DecideErase(w.moment(), r)
		failIf(t, d.Verdict == bcp.Accept || len(reasons) == 0, "%+v: %+v", r, d)
	}
}

// A delivery that nobody acknowledged, of a channel that comes back after it was
// erased, is not delivered without its content.
//
// covers P11.5
func TestErasedDeliveryIsNotDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play("start\npush mail planner alarm {\"ok\":true}\nask planner mail yes\npush mail planner note " + answerWord(heldAnswer))
	w.erased = []bcp.Decision{{Controller: "planner", Reader: "mail", Before: w.now.Add(time.Hour).UnixNano()}}
	s := w.replay()
	out := s.Outbox(plannerMail)
	failIf(t, len(out) > 0, "waits: %+v", out)
	ids := s.OpenQueries("mail")
	failIf(t, len(ids) > 0, "open: %v", ids)
	if _, got, _ := s.Balance(plannerMail); got.Spent() == 0 {
		t.Error("nothing is charged")
	}
	items := s.Items()
	stopIf(t, len(items) != 1, "%d items", len(items))
	w.state = s
	got := w.act("approve 1")
	failIf(t, slices.Contains(got, "delivers") || !slices.Contains(got, "reject"), "an erased item is approved: %v", got)
}
