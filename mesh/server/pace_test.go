package server

import (
	"testing"
	"time"
)

var monday = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// covers A-FLOODRESP
func TestPaceAtTheLimit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		slow bool
		rate int
	}{"full": {false, fullRate}, "slow": {true, slowRate}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, now := &pace{}, monday
			if tt.slow {
				p.slowUntil(now.Add(slowTime))
			}
			burst := tt.rate / int(time.Second/paceBurst)
			if d := p.charge(burst, now); d > 0 {
				t.Errorf("waits %s at the limit", d)
			}
			if d := p.charge(1, now); d != leastWait {
				t.Errorf("waits %s past the limit", d)
			}
			// However much comes at once, a second's worth is read in a second.
			read, begin := 0, now
			for now.Sub(begin) < 10*time.Second && read < 20*tt.rate {
				now = now.Add(p.charge(maxChunk, now))
				read += maxChunk
			}
			if most := 10*tt.rate + burst; read < most*9/10 || read > most+maxChunk {
				t.Errorf("%d bytes in ten seconds at %d a second", read, tt.rate)
			}
		})
	}
}

// What connections owe, others of the same agent do not wait for longer than
// that.
//
// covers A-FLOODRESP
func TestDebtIsBounded(t *testing.T) {
	t.Parallel()
	p := &pace{}
	debt := slowRate + slowRate/int(time.Second/paceBurst)
	p.slowUntil(monday.Add(slowTime))
	if d := p.charge(debt, monday); d != maxDebt {
		t.Errorf("waits %s at the limit", d)
	}
	for range 100 {
		if d := p.charge(debt, monday); d != maxDebt {
			t.Fatalf("waits %s past the limit", d)
		}
	}
	if d := p.charge(0, monday.Add(maxDebt)); d != 0 {
		t.Errorf("waits %s when the debt is paid", d)
	}
}

// covers A-FLOODRESP
func TestPaceIsSlowForAWhile(t *testing.T) {
	t.Parallel()
	p := &pace{}
	p.slowUntil(monday.Add(slowTime))
	for at, rate := range map[time.Duration]int{0: slowRate, slowTime - time.Nanosecond: slowRate, slowTime: fullRate} {
		p.paid = time.Time{}
		if got, want := p.charge(rate, monday.Add(at)), time.Second-paceBurst; got != want {
			t.Errorf("after %s, a second's worth of %d bytes takes %s", at, rate, got)
		}
	}
}

func TestChunkIsAsLargeAsWhatComes(t *testing.T) {
	t.Parallel()
	c := newChunk()
	expect(t, len(c.bytes), minChunk, "begins with")
	for range 20 {
		c.read(len(c.bytes))
		c.fit()
	}
	expect(t, len(c.bytes), maxChunk, "grows to")
	for range shortReads - 1 {
		c.read(1)
		c.fit()
	}
	failIf(t, len(c.bytes) != maxChunk, "shrinks to %d before its time", len(c.bytes))
	for range 20 * shortReads {
		c.read(1)
		c.fit()
	}
	expect(t, len(c.bytes), minChunk, "shrinks to")
}
