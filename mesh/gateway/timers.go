package gateway

import (
	"slices"
	"time"
)

// timer is what runs in the gateway's goroutine, after the step in which it is due.
type timer struct {
	at  time.Time
	run func()
}

// runAt adds to the timers, which are in the order of time.
func (g *Gateway) runAt(at time.Time, run func()) {
	i, _ := slices.BinarySearchFunc(g.timers, at, func(t timer, at time.Time) int { return t.at.Compare(at) })
	g.timers = slices.Insert(g.timers, i, timer{at, run})
}

func (g *Gateway) clock() time.Time { return g.config.Now() }

func (g *Gateway) runTimers() {
	now := g.clock()
	for len(g.timers) > 0 && !g.timers[0].at.After(now) {
		run := g.timers[0].run
		g.timers[0], g.timers = timer{}, g.timers[1:]
		g.guard("a timer", run)
	}
}

// overduePause is the pause before an overdue decision is tried again.
const overduePause = time.Second
