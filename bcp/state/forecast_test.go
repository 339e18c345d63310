package state

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What the window gives back, it gives back then and not before; each budget is that of the next charge.
//
// covers P4.4
func TestForecastOfTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.WindowBudget = 10 * bcp.Bit }))
	w.play("push mail planner alarm {\"ok\":true} => accept\nwait 1h\nask planner mail yes => accept\nanswer mail 1 {\"ok\":true} => accept")
	left := func() bcp.Bits {
		for _, b := range w.state.forecast(bcp.Moment{Now: w.now}, w.state.channels[plannerMail]).Pushes.Budgets {
			if b.Key == "window_budget_bits" {
				return b.Left
			}
		}
		t.Fatal("no window")
		return 0
	}
	for _, at := range []struct {
		wait time.Duration
		left bcp.Bits
	}{{0, 8 * bcp.Bit}, {22 * time.Hour, 8 * bcp.Bit}, {3 * time.Hour, 10 * bcp.Bit}} {
		w.now = w.now.Add(at.wait)
		expect(t, left(), at.left, "after %s", at.wait)
	}
}
