package ledger

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A plot has each settlement in its step, the highest of several epochs in one,
// and what an epoch had before the span.
//
// covers P4.4
func TestSpendingPlot(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	at := func(step int) time.Time { return begin.Add(time.Duration(step)*time.Minute + time.Second) }
	lines := []spending{
		{begin.Add(-time.Hour), 1, 1, 2 * bcp.Bit}, {at(1), 1, 2, 5 * bcp.Bit}, {at(3), 1, 3, bcp.Bit},
		{at(5), 2, 1, 3 * bcp.Bit}, {at(5), 3, 1, bcp.Bit}, {at(70), 3, 2, bcp.Bit}, {at(71), 3, 2, bcp.Bit}, {at(90), 3, 1, bcp.Bit},
	}
	p := newSpendingPlot(bcp.ChannelKey{Controller: "main", Reader: "mailer"}, 10*bcp.Bit, lines, begin, begin.Add(plotSteps*time.Minute))
	for step, want := range map[int][4]bcp.Bits{0: {2, 0, 0, 1}, 1: {2, 5, 0, 1}, 2: {2, 5, 0, 1}, 3: {2, 5, 1, 1}, 5: {2, 5, 1, 1}, 6: {1, 0, 0, 3}, 70: {1, 1, 0, 3}} {
		got := p.Points[step]
		if got.Settled != [3]bcp.Bits{want[0] * bcp.Bit, want[1] * bcp.Bit, want[2] * bcp.Bit} || got.Epoch != uint64(want[3]) {
			t.Errorf("step %d has %v of epoch %d, want %v", step, got.Settled, got.Epoch, want)
		}
	}
	if len(p.Points) != plotSteps || p.Points[plotSteps-1].sum() != 4*bcp.Bit {
		t.Errorf("%d points, the last %+v", len(p.Points), p.Points[plotSteps-1])
	}
}
