package state

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The first load opens a full epoch; what a session of the Controller renews,
// and what does not.
//
// covers SUB-94, SUB-95, P4.4, P9.2
func TestEpochs(t *testing.T) {
	t.Parallel()
	push := `push mail planner alarm {"ok":true}`
	plays(t, testMesh, "", map[string]string{
		"the first session takes the first epoch": `
			open planner          => begins renews
			ask planner mail num  => accept epoch:1 reserved:10.0`,
		"pushes before it share its epoch": push + ` => accept epoch:1 begins by-delivery
			open planner          => !begins !renews
			ask planner mail num  => accept epoch:1 settled:1.0 reserved:10.0`,
		"a session while one is open": `
			ask planner mail num  => accept epoch:1
			wait 29m59.999999999s
			open planner          => !begins
			ask planner mail num  => accept epoch:1 reserved:20.0`,
		"a session after an idle one": `
			ask planner mail num  => accept epoch:1
			answer mail 1 nei     => accept
			wait 30m
			ask planner mail num  => accept begins renews epoch:2 reserved:10.0 settled:0.0`,
		"a session after close": `
			ask planner mail num  => accept epoch:1
			close planner         => ends
			ask planner mail num  => accept begins renews epoch:2`,
		"a deliveries' session": push + ` => begins by-delivery !renews epoch:1
			ask planner mail num  => accept epoch:1 !begins !renews settled:1.0`,
		"a session within idle_timeout of its end": push + ` => begins by-delivery
			wait 59m59.999999999s
			open planner          => begins !renews
			ask planner mail num  => accept epoch:1 settled:1.0`,
		"a session after that": push + ` => begins by-delivery
			wait 60m
			open planner          => begins renews
			ask planner mail num  => accept epoch:2 settled:0.0`,
		"close of a deliveries' session": push + ` => begins by-delivery
			close planner         => ends
			wait 29m59.999999999s
			ask planner mail num  => accept begins !renews epoch:1 settled:1.0`,
		"long after its close": push + ` => begins by-delivery
			close planner         => ends
			wait 30m
			ask planner mail num  => accept begins renews epoch:2`,
		"no way around by two closes": push + ` => begins by-delivery
			close planner         => ends
			wait 1s
			open planner          => begins !renews
			close planner         => ends
			wait 1s
			open planner          => begins !renews
			close planner         => ends
			ask planner mail num  => accept begins !renews epoch:1 settled:1.0`,
		"nor by two sessions that ran out of time": push + ` => begins by-delivery
			close planner         => ends
			wait 10m
			open planner          => begins !renews
			close planner         => ends
			wait 20m
			ask planner mail num  => accept begins renews epoch:2`,
		"a late close does not move the end": push + ` => begins by-delivery
			wait 59m
			close planner         => ends
			wait 1m
			ask planner mail num  => accept begins renews epoch:2`,
		"close of what is closed": push + ` => begins by-delivery
			close planner         => ends
			wait 29m
			close planner         => accept !ends
			wait 1m
			ask planner mail num  => accept begins renews epoch:2`,
		"close of nothing": `
			close planner         => accept !ends
			ask planner mail num  => accept begins renews epoch:1`,
		"a push after a new session": push + ` => epoch:1
			ask planner web yes   => accept
			close planner         => ends
			wait 1h
			open planner          => renews
			` + push + ` => accept epoch:2 settled:1.0 pushed:1.0`,
		"another Controller's session": `
			ask planner mail num  => accept epoch:1
			open clerk            => renews
			ask planner mail num  => accept epoch:1 reserved:20.0
			ask clerk mail num    => accept epoch:1 reserved:10.0`,
		"channels that are not used keep their epoch": `
			ask planner mail num  => epoch:1
			close planner         => ends
			ask planner web num   => epoch:1 renews
			close planner         => ends
			ask planner mail num  => epoch:2`,
		"a refused ask renews nothing": `
			ask planner mail num  => epoch:1
			close planner         => ends
			ask planner mail name why=x => accept epoch:2
			close planner         => ends
			ask planner clerk yes => no_channel !renews
			` + push + ` => accept epoch:2 begins by-delivery`,
	})
}

// A delivery that waits for its slot keeps its session until it leaves, however
// long that is: what its Controller then asks renews nothing.
//
// covers SUB-133, P4.1, P4.4, A-RDRRESET
func TestReleaseIntervalRenewsNothing(t *testing.T) {
	t.Parallel()
	mesh := func() *bcp.Mesh {
		return edited(func(c *bcp.Channel) { c.ReleaseInterval, c.ApprovalTTL = 2*time.Hour, 9*time.Hour })
	}
	for _, history := range []string{`
		push mail planner alarm {"ok":true}  => delivers begins by-delivery
		wait 2h29m59s                        # at most as long until its slot, and idle_timeout
		ask planner mail num                 => accept epoch:1 !renews`, `
		ask planner mail num                 => accept begins renews
		answer mail 1 nei                    => accept
		wait 2h
		ask planner mail num                 => accept epoch:1 !begins`, `
		push mail planner alarm {"ok":true}  => delivers begins
		close planner                        => !ends  # nothing of it yet
		ask planner mail num                 => accept epoch:1 begins renews
		close planner                        => ends
		due                                  => out:cancelled
		wait 2h
		ask planner mail num                 => accept epoch:1 !begins !renews`, `
		push mail planner alarm {"ok":true}  => delivers
		wait 2h
		close planner                        => ends
		ask planner mail num                 => accept epoch:1 begins !renews`} {
		w := newWorld(t, mesh())
		w.now = w.now.Truncate(2 * time.Hour).Add(time.Second)
		w.play(history)
	}
}

// A query stays in the epoch that accepted it.
//
// covers P4.4
func TestOldEpochSettlesItself(t *testing.T) {
	t.Parallel()
	mesh := edited(func(c *bcp.Channel) { c.Budget, c.WindowBudget, c.QueryTTL = 22*bcp.Bit, 42*bcp.Bit, 3*time.Hour })
	w := newWorld(t, mesh).play(`
		ask planner mail num  => accept epoch:1 reserved:10.0
		ask planner mail num  => accept epoch:1 reserved:20.0
		wait 30m
		ask planner mail num  => accept epoch:2 reserved:10.0
		ask planner mail num  => accept epoch:2 reserved:20.0
		ask planner mail yes  => accept
		ask planner mail yes  => accept epoch:2 reserved:22.0   # 42 in the window: both epochs' reservations
		ask planner mail yes  => budget_exhausted
		answer mail 1 {"n":1} => delivers epoch:1 settled:10.0 reserved:10.0
		answer mail 3 {"n":1} => delivers epoch:2 settled:10.0 reserved:12.0
		answer mail 2 nei     => epoch:1 settled:11.0 reserved:0.0`)
	if epoch, b, _ := w.state.Balance(plannerMail); epoch != 2 || b.Settled != 10*bcp.Bit || len(w.state.channels[plannerMail].pools) != 1 {
		t.Errorf("epoch %d holds %+v, of %d", epoch, b, len(w.state.channels[plannerMail].pools))
	}
}

// What was held is settled in its epoch, and its deadline costs nothing in any.
//
// covers P4.3, P4.4
func TestHeldItemOfAnOldEpoch(t *testing.T) {
	t.Parallel()
	newWorld(t, testMesh()).play(`
		ask planner mail text        => accept epoch:1
		answer mail 1 ` + answerWord(heldAnswer) + ` => hold settled:88.0
		push mail planner alarm {"ok":true} => accept epoch:1
		wait 2h
		ask planner mail num         => accept epoch:2
		wait 22h
		due                          => out:expired epoch:2 settled:1.0
		due                          => out:approval_expired epoch:1 prepaid
		due                          => nothing
		ask planner mail num         => accept`)
}

// covers P4.4
func TestBudgetRenew(t *testing.T) {
	t.Parallel()
	newWorld(t, edited(func(c *bcp.Channel) { c.BudgetRenew = time.Hour })).play(`
		push mail planner alarm {"ok":true} => accept epoch:1
		wait 59m59.999999999s
		push mail planner alarm {"ok":true} => accept epoch:1 settled:2.0
		wait 1ns
		push mail planner alarm {"ok":true} => accept epoch:2 settled:1.0
		ask planner mail num                => accept epoch:2
		wait 59m59.999999999s
		push mail planner alarm {"ok":true} => accept epoch:2
		wait 5h
		ask planner mail num                => accept epoch:3`)
}

// Journal time never goes back, whatever the clock does.
//
// covers P4.4
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.WindowBudget = 2 * bcp.Bit })).play(`
		ask planner mail yes id=r1          => accept
		answer mail 1 {"ok":true}           => delivers
		wait 10m
		push mail planner alarm {"ok":true} => accept`)
	before := w.last.Time
	w.play(`
		wait -48h
		push mail planner alarm {"ok":true} => budget_exhausted
		ask planner mail yes                => budget_exhausted
		ask planner mail yes id=r1          => repeat
		open planner                        => !begins`)
	expect(t, w.last.Time, before, "journal time")
}

// covers P4.4
func TestSlidingWindow(t *testing.T) {
	t.Parallel()
	w := slidingWindow{span: 6400}
	w.add(0, 0, 0)
	w.add(50, 50, 1)
	w.add(99, 99, 2)
	w.add(150, 150, 4)
	expect(t, len(w.parts), 2, "parts are %v", w.parts)
	for now, want := range map[int64]bcp.Bits{150: 7, 6450: 7, 6499: 7, 6500: 4, 6599: 4, 6600: 0} {
		expect(t, w.sum(now), want, "the sum at %d", now)
	}
	for now := int64(200); now < 1_000_000; now += 70 {
		w.add(now, now, 1)
		stopIf(t, len(w.parts) > windowParts+2, "%d parts", len(w.parts))
	}
	var off slidingWindow
	off.add(5, 5, 7)
	expect(t, off.sum(5), 0, "a window without a span sums")
}

// One alert an epoch, at its level.
//
// covers BCP-152, P4.6
func TestAlerts(t *testing.T) {
	t.Parallel()
	newWorld(t, edited(func(c *bcp.Channel) { c.AlertBits = 11 * bcp.Bit })).play(`
		ask planner mail num                => accept
		due                                 => nothing
		ask planner mail yes                => accept reserved:11.0
		due                                 => alert epoch:1 reserved:11.0
		due                                 => nothing
		answer mail 1 nei                   => accept settled:1.0
		ask planner mail name why=need      => accept
		due                                 => nothing
		close planner                       => ends
		due                                 => out:cancelled
		due                                 => out:cancelled
		due                                 => nothing
		ask planner mail name               => accept epoch:2
		due                                 => alert epoch:2
		due                                 => nothing`)
	newWorld(t, edited(func(c *bcp.Channel) { c.AlertBits = 11*bcp.Bit + 1 })).play(`
		ask planner mail num                => accept
		ask planner mail yes                => accept
		due                                 => nothing`)
	// A level that is reached and left again before it is recorded is no alert.
	newWorld(t, edited(func(c *bcp.Channel) { c.AlertBits = 20 * bcp.Bit })).play(`
		ask planner mail name               => accept reserved:22.0
		answer mail 1 nei                   => settled:1.0
		due                                 => nothing
		ask planner mail name               => accept
		due                                 => alert event:budget_threshold epoch:1
		answer mail 2 nei
		ask planner mail name               => accept
		due                                 => nothing`)
}

// covers P4.3, P4.4
func TestChangedBudgetAppliesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail num                => accept
		answer mail 1 {"n":1}               => delivers
		ask planner mail name               => accept`)
	w.config.Mesh, w.config.Definitions = edited(func(c *bcp.Channel) { c.Budget, c.MaxCategory = 20*bcp.Bit, 1 }), bcp.Digest{1}
	s := w.replay()
	_, b, _ := s.Balance(plannerMail)
	expect(t, b.Spent(), 32*bcp.Bit, "%+v is spent", b)
	w.state = s
	w.play(`
		ask planner mail yes                => budget_exhausted
		answer mail 2 {"q":"ada"}           => delivers settled:32.0`)
}

// A shorter window never counts less than what was charged in it.
//
// covers P4.4, P4.5
func TestAnotherWindow(t *testing.T) {
	t.Parallel()
	const long, short = 64 * time.Hour, 64 * time.Minute
	was := slidingWindow{span: int64(long)}
	charged := int64(long) + int64(time.Hour) - 1 // at the end of a part
	was.add(charged, charged, bcp.Bit)
	is := was.over(int64(short))
	expect(t, is.sum(charged+int64(short)), bcp.Bit, "at the end of the window it counts")
	expect(t, is.sum(charged+int64(short)+2*is.width()), 0, "behind it")
	expect(t, was.over(2*int64(long)).sum(charged+2*int64(long)), bcp.Bit, "a longer window forgets what the shorter one knew")
}
