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
