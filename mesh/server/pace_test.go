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
			d := p.charge(burst, now)
			failIf(t, d > 0, "waits %s at the limit", d)
			d = p.charge(1, now)
			failIf(t, d != leastWait, "waits %s past the limit", d)
			// However much comes at once, a second's worth is read in a second.
			read, begin := 0, now
			for now.Sub(begin) < 10*time.Second && read < 20*tt.rate {
				now = now.Add(p.charge(maxChunk, now))
				read += maxChunk
			}
			most := 10*tt.rate + burst
			failIf(t, read < most*9/10 || read > most+maxChunk, "%d bytes in ten seconds at %d a second", read, tt.rate)
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
	d := p.charge(debt, monday)
	failIf(t, d != maxDebt, "waits %s at the limit", d)
	for range 100 {
		d := p.charge(debt, monday)
		stopIf(t, d != maxDebt, "waits %s past the limit", d)
	}
	d = p.charge(0, monday.Add(maxDebt))
	failIf(t, d != 0, "waits %s when the debt is paid", d)
}

// covers A-FLOODRESP
func TestPaceIsSlowForAWhile(t *testing.T) {
	t.Parallel()
	p := &pace{}
	p.slowUntil(monday.Add(slowTime))
	for at, rate := range map[time.Duration]int{0: slowRate, slowTime - time.Nanosecond: slowRate, slowTime: fullRate} {
		p.paid = time.Time{}
		got, want := p.charge(rate, monday.Add(at)), time.Second-paceBurst
		failIf(t, got != want, "after %s, a second's worth of %d bytes takes %s", at, rate, got)
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
