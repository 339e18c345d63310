package mesh

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A command that ends well and leaves what waits for it undone is started again
// later and later: hostile text that nobody can answer is no reason for a loop.
//
// covers P9.2
func TestRestGrows(t *testing.T) {
	t.Parallel()
	want := []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}
	for ends, pause := range want {
		if got := restPause(ends); got != pause {
			t.Errorf("after %d ends the pause is %s, want %s", ends, got, pause)
		}
	}
	if got := restPause(1 << 40); got != time.Minute {
		t.Errorf("it grows to %s", got)
	}

	c := &commands{resting: map[bcp.AgentName]*restingCommand{}, stopped: true} // stopped: no timer begins
	ends := func(waits ...string) int {
		c.restartRested("reader", waits)
		return c.resting["reader"].ends
	}
	for i, step := range []struct {
		waits []string
		ends  int
	}{{[]string{"q1", "q2"}, 0}, {[]string{"q1", "q2"}, 1}, {[]string{"q1", "q2"}, 2}, {[]string{"q2"}, 0}, {[]string{"q2"}, 1}, {nil, 0}, {[]string{"q3"}, 0}} {
		if got := ends(step.waits...); got != step.ends {
			t.Errorf("step %d, %q waits: %d ends in a row, want %d", i, step.waits, got, step.ends)
		}
	}
}
