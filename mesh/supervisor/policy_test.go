package supervisor

import (
	"testing"
	"time"
)

// The back-off grows by a factor of two from Backoff to MaxBackoff, less a
// quarter at most; MaxFailures failures in a row make an agent unavailable, one
// less do not; a success or a run of Healthy begins anew.
//
// covers P9.2
func TestAfter(t *testing.T) {
	t.Parallel()
	const healthy, cooldown = time.Minute, time.Hour
	config := Config{Backoff: time.Second, MaxBackoff: 7 * time.Second, MaxFailures: 6, Healthy: healthy, Cooldown: cooldown}.filled()
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
			state, wait := config.decideNext(&failures, s.end)
			if state != s.state || wait > s.wait || wait < s.wait-s.wait/4 || state != Waiting && wait != s.wait {
				t.Fatalf("step %d: %s for %v, want %s for %v", i, state, wait, s.state, s.wait)
			}
			if i == 0 {
				least, most = min(least, wait), max(most, wait)
			}
		}
	}
	if most-least < 100*time.Millisecond {
		t.Errorf("the waits are all between %v and %v: nothing keeps agents apart", least, most)
	}
}

// The zero Config has the defaults that its comments state.
//
// covers P9.2
func TestDefaults(t *testing.T) {
	t.Parallel()
	if c := (Config{}).filled(); c.Backoff != time.Second || c.MaxBackoff != time.Minute || c.MaxFailures != 5 || c.Healthy != time.Minute || c.Cooldown != time.Minute || c.Grace != 10*time.Second {
		t.Errorf("defaults: %+v", c)
	}
	if c := (Config{Backoff: time.Hour}).filled(); c.MaxBackoff != time.Hour {
		t.Errorf("the longest back-off is %v, shorter than the first", c.MaxBackoff)
	}
}
