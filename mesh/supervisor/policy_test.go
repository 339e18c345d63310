package supervisor

import (
	"testing"
	"time"
)

// The back-off grows by a factor of two from backoff to maxBackoff, less a
// quarter at most. An agent is unavailable after maxFailures failures in a row,
// and not after one fewer. A success, or a run as long as healthy, begins anew.
//
// covers P9.2
func TestAfter(t *testing.T) {
	t.Parallel()
	const healthy, cooldown = time.Minute, time.Hour
	pace := pace{backoff: time.Second, maxBackoff: 7 * time.Second, maxFailures: 6, healthy: healthy, cooldown: cooldown}
	type step struct {
		end   ending
		state State
		wait  time.Duration // without the random part
	}
	short, long, success := ending{ran: healthy - 1}, ending{ran: healthy}, ending{success: true}
	steps := []step{
		{short, Waiting, time.Second},
		{short, Waiting, 2 * time.Second},
		{short, Waiting, 4 * time.Second},
		{short, Waiting, 7 * time.Second},
		{ending{}, Waiting, 7 * time.Second},
		{short, Unavailable, cooldown},
		{short, Unavailable, cooldown}, // woken: one is enough
		{long, Waiting, time.Second},
		{short, Waiting, 2 * time.Second},
		{success, Resting, 0},
		{short, Waiting, time.Second},
	}
	var least, most time.Duration = time.Hour, 0
	for range 200 {
		failures := 0
		for i, s := range steps {
			state, wait := pace.decideNext(&failures, s.end)
			stopIf(t, state != s.state || wait > s.wait || wait < s.wait-s.wait/4 || state != Waiting && wait != s.wait,
				"step %d: %s for %v, want %s for %v", i, state, wait, s.state, s.wait)
			if i == 0 {
				least, most = min(least, wait), max(most, wait)
			}
		}
	}
	failIf(t, most-least < 100*time.Millisecond, "the waits are all between %v and %v: nothing keeps agents apart", least, most)
}
