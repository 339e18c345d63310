package gateway_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// poisoned gives agents of a bench two schedules that are due one after the other, of
// which the first panics when next says so.
func (b *bench) poisoned(due time.Time, next func(t time.Time)) func(*gateway.Config) {
	for i := range b.definition.Agents {
		if b.definition.Agents[i].Name == "mailer" {
			b.definition.Agents[i].CronSchedules = []bcp.CronSchedule{{Schedule: "poison", Message: "canary"}, {Schedule: "fine", Message: "fine"}}
		}
	}
	return func(c *gateway.Config) {
		c.State.Schedules = func(schedule string, _ *time.Location) (bcp.Schedule, error) {
			at := due
			if schedule == "fine" {
				at = due.Add(time.Millisecond)
			}
			return func(t time.Time) time.Time {
				if schedule == "poison" {
					next(t)
				}
				if t.Before(at) {
					return at
				}
				return at.AddDate(1, 0, 0)
			}, nil
		}
	}
}

func prompted(schedule string) func(*bcp.Decision) bool {
	return func(d *bcp.Decision) bool { return d.Kind == bcp.KindPrompt && d.Event == schedule }
}

func alerted(kind bcp.AlertKind) func(*bcp.Decision) bool {
	return func(d *bcp.Decision) bool { return d.Kind == bcp.KindAlert && d.Event == string(kind) }
}

// What is due and finds a mistake, when it is decided or when the state changes by it,
// waits: what is due behind it is decided, messages are, people hear of it, and it is not
// tried at once again. Once the mistake is gone it is decided.
//
// covers A-CRASH, P2.5, P4.5, P4.6, P9.4
func TestMistakeOverWhatIsDue(t *testing.T) {
	t.Parallel()
	for name, nth := range map[string]int64{"when it is decided": 1, "when the state changes": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			begin := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
			due := begin.Add(time.Hour)
			clock, calls := newClock(begin), atomic.Int64{}
			var mended atomic.Bool
			poison := b.poisoned(due, func(at time.Time) {
				if at.Equal(due) && !mended.Load() && calls.Add(1)%nth == 0 {
					panic("canary")
				}
			})
			g := b.start(t, poison, clock.set)
			mailer := b.agent(t, "mailer")
			operator := b.operator(t)
			alerts := operator.Listen(t, subjects.Alerts())
			g.wait(t, 2, of(bcp.KindConnect))

			clock.Store(due.Add(time.Second).UnixNano())
			push := func() {
				t.Helper()
				noError(t, pushUntilAccepted(mailer.Conn, "p"))
			}
			push() // wakes it
			g.wait(t, 1, prompted("fine"))
			alerts.NextOf(t, meshtest.With("alert", bcp.AlertPanic))
			push()
			expect(t, calls.Load(), nth, "it was tried")
			mended.Store(true)
			clock.pass(time.Second)
			g.wait(t, 1, prompted("poison"))
			expect(t, len(g.wait(t, 1, alerted(bcp.AlertPanic))), 1, "alerts")
			noError(t, g.Stop())
			b.journal(t)
			if log := b.log.String(); !strings.Contains(log, "made a mistake") || !strings.Contains(log, "panic_test.go:") || strings.Contains(log, "canary") {
				t.Error("the log has no stack, or what was said")
			}
		})
	}
}

// A journal that this version panics over is not served: the error names the decision,
// nothing is written, and a version without the mistake goes on.
//
// covers A-CRASH, P11.1
func TestMistakeOverTheJournal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var broken atomic.Bool
	poison := b.poisoned(time.Now().Add(time.Hour), func(time.Time) {
		if broken.Load() {
			panic("canary")
		}
	})
	g := b.start(t, poison)
	noError(t, g.Stop())
	before := b.stored(t)
	broken.Store(true)
	_, err := b.tryStart(t, poison)
	failIf(t, !errors.Is(err, gateway.ErrPanic) || !strings.Contains(err.Error(), "decision 1 of the journal") || strings.Contains(err.Error(), "canary"),
		"it starts: %v", err)
	expect(t, b.stored(t), before, "records")
	broken.Store(false)
	b.start(t, poison)
}

// A mistake of who watches the gateway, or of a reload, ends nothing: what holds is what
// was recorded.
//
// covers A-CRASH, P1.5
func TestMistakeBesideDeciding(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t, func(c *gateway.Config) {
		before := c.OnDecision
		c.OnDecision = func(d *bcp.Decision) {
			before(d)
			panic("canary")
		}
	})
	mailer := b.agent(t, "mailer")
	g.wait(t, 1, of(bcp.KindConnect))
	push := func(id string) {
		t.Helper()
		noError(t, pushUntilAccepted(mailer.Conn, id))
	}
	push("p1")
	noError(t, g.Inspect(t.Context(), func(*state.State) { panic("canary") }))
	g.wait(t, 1, alerted(bcp.AlertPanic))
	next := state.Config{Mesh: b.definition, Constraints: constraint.Compile, Version: "test", Definitions: bcp.Digest{1}}
	ctx := within(t, meshtest.Patience)
	fails(t, g.Reload(ctx, next, nil, func() error { panic("canary") }), gateway.ErrPanic, "reloaded")
	push("p2")
	noError(t, g.Reload(ctx, next, nil, func() error { return nil }))
	push("p3")
	noError(t, g.Stop())
	j := b.journal(t)
	for _, id := range []string{"p1", "p2", "p3"} {
		expect(t, j.Pushes["main mailer "+id], 1, "%s was accepted", id)
	}
	failIf(t, strings.Contains(b.log.String(), "canary"), "the log has what was said")
}
