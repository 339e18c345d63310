package agents

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// pauseBefore returns the backoff before attempt n, counted from 1: half of a
// span that doubles from first to most, plus jitter up to the other half, so
// that many agents do not come at once.
func pauseBefore(n int, first, most time.Duration) time.Duration {
	span := most
	if n < 16 {
		span = min(most, first<<max(n-1, 0))
	}
	return span/2 + rand.N(span/2+1)
}

// sleep waits for d and reports whether it did: not if ctx or stop ended first.
func sleep(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	}
}

// reconnectPause is the backoff before a lost connection is dialled again.
type reconnectPause struct {
	most    time.Duration
	refused func() bool // whether the server refused the credentials last; nil: it did not

	mu    sync.Mutex // guards what follows
	since time.Time  // when the connection was made, zero before the first
	flaps int        // how often in a row it did not last
}

func (p *reconnectPause) connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

// next returns the pause before each round of dialling; round is 1 for the
// first since the connection was lost. That one is immediate, with a jitter of
// 10 ms, unless the last connections were too short. A server that refuses the
// credentials does not take them a moment later: it is asked less often.
func (p *reconnectPause) next(round int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if round == 1 {
		if !p.since.IsZero() && time.Since(p.since) < settled {
			p.flaps++
		} else {
			p.flaps = 0
		}
	}
	n := round - 1 + p.flaps
	if round > 1 && p.refused != nil && p.refused() {
		return pauseBefore(n, refusedWait, max(p.most, refusedWait))
	}
	if n == 0 {
		return rand.N(firstWait)
	}
	return pauseBefore(n, firstWait, p.most)
}
