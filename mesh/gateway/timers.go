package gateway

import (
	"container/heap"
	"time"
)

// timers run in the gateway's goroutine, after the step in which they are due.
type timers []timer

type timer struct {
	at  time.Time
	run func()
}

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return last
}

func (g *Gateway) runAt(at time.Time, run func()) { heap.Push(&g.timers, timer{at: at, run: run}) }

func (g *Gateway) clock() time.Time { return g.config.Now() }

func (g *Gateway) runTimers() {
	now := g.clock()
	for len(g.timers) > 0 && !g.timers[0].at.After(now) {
		g.guard("a timer", heap.Pop(&g.timers).(timer).run)
	}
}

// overduePause is the pause before an overdue decision is tried again.
const overduePause = time.Second

// untilDue is how long there is nothing to do without a message.
func (g *Gateway) untilDue() time.Duration {
	wait := time.Minute
	if len(g.timers) > 0 {
		wait = min(wait, g.timers[0].at.Sub(g.clock()))
	}
	if at, ok := g.state.NextDue(); ok {
		due := at.Sub(g.clock())
		if g.overdue { // it could not be decided
			due = max(due, overduePause)
		}
		wait = min(wait, due)
	}
	if at, ok := g.runsDue(); ok {
		wait = min(wait, at.Sub(g.clock()))
	}
	if at, ok := g.countingDue(); ok {
		wait = min(wait, at.Sub(g.clock()))
	}
	return max(0, wait)
}
