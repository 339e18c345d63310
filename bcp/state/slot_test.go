package state

import (
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// slotted is a testMesh whose channel of planner and mail has slots of a minute. The
// world begins with one.
func slotted(edit func(*bcp.Channel)) *bcp.Mesh {
	return edited(func(c *bcp.Channel) {
		c.ReleaseInterval = time.Minute
		edit(c)
	})
}

// What a query gives back is there for asks and pushes alike from the next slot on;
// what an ask takes, at once.
//
// covers P4.2, P4.3, A-TIME
func TestReservationsComeBackWithTheSlot(t *testing.T) {
	t.Parallel()
	mesh := slotted(func(c *bcp.Channel) { c.Budget, c.PushBudget = 12*bcp.Bit, 12*bcp.Bit })
	for _, end := range []string{"answer mail 1 nei", "close planner\ndue => out:cancelled\nopen planner"} {
		newWorld(t, mesh).play(`
			ask planner mail num                => accept left:2.0
			` + end + `
			push mail planner alarm {"ok":true} => accept settled:2.0
			push mail planner alarm {"ok":true} => accept settled:3.0
			push mail planner alarm {"ok":true} => budget_exhausted
			wait 1m
			push mail planner alarm {"ok":true} => accept
			push mail planner alarm {"ok":true} => accept`)
	}
	newWorld(t, mesh).play(`
		ask planner mail num                => accept left:2.0
		answer mail 1 nei                   => accept settled:1.0 reserved:0.0
		ask planner mail num                => budget_exhausted
		ask planner mail yes                => accept left:1.0
		wait 59.999999999s
		ask planner mail num                => budget_exhausted
		wait 1ns
		ask planner mail num                => accept left:0.0`)
}

// An ask whose bits pushes of the same slot have taken is accepted all the same, and
// ends with their deliveries. It moves no bits.
//
// covers P4.2, P4.3, P9.1, A-EXHAUST, A-TIME
func TestUnfundedAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slotted(func(c *bcp.Channel) { c.Budget, c.PushBudget = 12*bcp.Bit, 12*bcp.Bit })).play(`
		push mail planner alarm {"ok":true} => accept
		push mail planner alarm {"ok":true} => accept
		push mail planner alarm {"ok":true} => accept settled:3.0
		ask planner mail num                => accept unfunded silent left:2.0 bits:10.0 settled:3.0 reserved:0.0
		ask planner mail num                => budget_exhausted
		ask planner mail yes                => accept !unfunded left:1.0 reserved:1.0
		ask planner mail yes id=r1          => accept left:0.0
		ask planner mail yes id=r1          => repeat left:0.0
		ask planner mail yes                => budget_exhausted
		due                                 => out:budget_exhausted prepaid bits:0.0 settled:3.0 reserved:2.0
		due                                 => alert event:budget_exhausted
		due                                 => nothing
		answer mail 1 {"n":1}               => query_unknown`)
	var lines int
	for _, record := range w.journal {
		d, err := bcp.DecodeDecision(record)
		if _, moves := d.Line(); err != nil || moves {
			lines++
		}
		if d.Unfunded && (d.Check != bcp.CheckBudget || d.Price != 10*bcp.Bit || d.Lack != bcp.Bit || d.DecidedBy() != "P4.2" || !strings.Contains(tell.Explain(&d, nil).Decided, "not sent")) {
			t.Errorf("%s of %s lacking %s is explained as %+v", d.Check, d.Price, d.Lack, tell.Explain(&d, nil))
		}
	}
	expect(t, lines, 5, "lines in the ledger, want 3 pushes and 2 asks")
	_, _, _, open := w.state.Open(w.queries[0])
	failIf(t, open || len(w.state.OpenQueries("mail")) != 2, "a Reader would get the query")
	w.play(`
		wait 1m
		ask planner mail yes                => accept left:6.0`)
	last := w.state.Outbox(plannerMail)[0]
	failIf(t, last.Outcome != bcp.BudgetExhausted || last.BandwidthBits != 0 || last.QueryID != w.queries[0],
		"the Controller hears %+v", last)
	// It counts as a query of category 2, and as an escalation: the Controller made it.
	newWorld(t, slotted(func(c *bcp.Channel) { c.Budget, c.PushBudget, c.MaxCat2Queries = 23*bcp.Bit, 23*bcp.Bit, 1 })).play(`
		push mail planner alarm {"ok":true} => accept
		push mail planner alarm {"ok":true} => accept
		ask planner mail name               => accept unfunded cat2:1
		due                                 => out:budget_exhausted
		wait 1m
		ask planner mail name               => query_limit_reached`)
	newWorld(t, slotted(func(c *bcp.Channel) { c.Budget, c.PushBudget, c.MaxEscalations = 23*bcp.Bit, 23*bcp.Bit, 1 })).play(`
		push mail planner alarm {"ok":true} => accept
		push mail planner alarm {"ok":true} => accept
		ask planner mail three why=so       => accept unfunded escalation !item
		due                                 => out:budget_exhausted
		ask planner mail three why=so       => escalation_limit_reached`)
}

// A Reader that cannot be started answers nothing, and its Controller pays to hear so:
// in a slot like any other end of a query, and not at once.
//
// covers P9.2, P4.3, A-CRASH
func TestUnavailableReaderWithSlots(t *testing.T) {
	t.Parallel()
	newWorld(t, slotted(func(*bcp.Channel) {})).play(`
		ask planner mail num          => accept
		process mail unavailable
		ask planner mail num          => accept reserved:20.0
		due                           => out:expired bits:1.0 reserved:10.0 settled:1.0
		due                           => nothing
		answer mail 2 {"n":1}         => query_expired
		process mail started
		ask planner mail num          => accept
		due                           => nothing`)
}

// An act of the Controller within a slot renews for its asks at once, and for pushes
// from the next slot on; no renewal is lost, whoever opens the epoch.
//
// covers P4.4, SUB-99, A-TIME
func TestRenewalsWithinASlot(t *testing.T) {
	t.Parallel()
	push := "push mail planner alarm {\"ok\":true}"
	mesh := func() *bcp.Mesh {
		return slotted(func(c *bcp.Channel) { c.Budget, c.PushBudget = 12*bcp.Bit, 2*bcp.Bit })
	}
	plays(t, mesh, "", map[string]string{
		"asks at once, pushes later": `
			ask planner mail num => accept epoch:1
			wait 1m
			` + push + ` => accept epoch:1
			renew planner
			ask planner mail num => accept epoch:2 left:2.0
			` + push + ` => accept epoch:1 pushed:2.0
			` + push + ` => budget_exhausted
			wait 1m
			` + push + ` => accept epoch:2 pushed:1.0`,
		"a renewal that only pushes follow": `
			ask planner mail num => accept epoch:1
			renew planner
			wait 1m
			` + push + ` => accept epoch:2
			ask planner mail yes => accept epoch:2 left:11.0
			wait 1m
			ask planner mail yes => accept epoch:2 left:9.0`,
		"a renewal in the slot in which pushes open an epoch": `
			ask planner mail num => accept epoch:1
			renew planner
			wait 1m
			` + push + ` => accept epoch:2
			renew planner
			wait 1m
			ask planner mail yes => accept epoch:3`,
		"a renewal before the push that opens an epoch, in its slot": `
			ask planner mail num => accept epoch:1
			renew planner
			wait 1m
			renew planner
			` + push + ` => accept epoch:2
			wait 1m
			ask planner mail yes => accept epoch:3`,
		"two renewals in a slot": `
			ask planner mail num => accept epoch:1
			wait 1m
			renew planner
			ask planner mail yes => accept epoch:2
			renew planner
			ask planner mail yes => accept epoch:3
			` + push + ` => accept epoch:1
			wait 1m
			` + push + ` => accept epoch:3`,
		"the first epoch": `
			` + push + ` => accept epoch:1
			renew planner
			ask planner mail num => accept epoch:1 left:2.0
			` + push + ` => accept epoch:1
			wait 1m
			ask planner mail yes => budget_exhausted`,
	})
	newWorld(t, slotted(func(c *bcp.Channel) { c.BudgetRenew = 90 * time.Second })).play(push + ` => accept epoch:1
		wait 1m
		` + push + ` => accept epoch:1      # it began with the slot
		wait 89.999999999s
		ask planner mail yes => accept epoch:1
		wait 1ns
		ask planner mail yes => accept epoch:2
		` + push + ` => accept epoch:1
		wait 30s
		` + push + ` => accept epoch:2`)
}

// What is delivered reaches its Controller's session when it is released.
//
// covers P9.2, P6.4, P8.2, P7.1
func TestDeliveriesReachTheSessionWithTheirSlot(t *testing.T) {
	t.Parallel()
	mesh := slotted(func(c *bcp.Channel) { c.Budget, c.PushBudget = 500*bcp.Bit, 500*bcp.Bit })
	w := newWorld(t, mesh).play(`
		push mail planner note {"q":"one_two_three_four_five_six"} => accept
		open planner          => begins renews
		ask planner mail three why=he_said_one_two_three_four_five_six => hold`)
	expect(t, w.state.Sessions(w.now)[1].Exposure, bcp.TaintLow, "before the slot")
	view, code := w.state.View("mia", w.items[0])
	failIf(t, code != "" || len(view.Earlier) != 1, "the approver is shown %+v", view)
	w.play(`
		wait 1m
		ask planner mail three why=he_said_one_two_three_four_five_six => escalation_required
		ask planner mail yes  => accept !begins`)
	if own := w.state.Sessions(w.now)[1]; own.Exposure != bcp.TaintMedium || own.BegunBy != "controller" {
		t.Errorf("after it: %+v", own)
	}
	// One that is closed meanwhile is not kept, and the next begins with the delivery.
	w = newWorld(t, mesh).play(`
		open planner          => begins renews session:s000001
		push mail planner alarm {"ok":true} => accept !begins session:s000001
		close planner         => ends
		wait 1m
		ask planner mail yes  => accept !begins !renews session:s000002`)
	own := w.state.Sessions(w.now)[1]
	failIf(t, own.BegunBy != "delivery" || own.Status != "open", "after the slot: %+v", own)
	// Cancelled by its close, a query begins none.
	newWorld(t, mesh).play(`
		ask planner mail yes  => accept
		close planner         => ends
		due                   => out:cancelled !begins
		wait 1m
		open planner          => begins renews`)
}
