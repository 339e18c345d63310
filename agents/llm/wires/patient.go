package wires

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

const (
	tries      = 4
	firstPause = time.Second
	longPause  = 30 * time.Second
)

// Patient tries calls again that failed for want of room: four times in all, after a second, doubled with each try up to half
// a minute with some jitter, or after as long as the provider asks for, a minute at most. It never waits beyond the
// deadline of the call.
type Patient struct{ Provider llm.Provider }

// Do implements [llm.Provider].
func (p *Patient) Do(ctx context.Context, r *llm.Request, delta func(llm.Delta)) (*llm.Reply, error) {
	pause := firstPause
	for try := 1; ; try++ {
		reply, err := p.Provider.Do(ctx, r, delta)
		var limited llm.RateLimited
		if err == nil || try == tries || !errors.As(err, &limited) && !errors.As(err, new(llm.Overloaded)) {
			return reply, err
		}
		wait := max(limited.RetryAfter, pause/2+rand.N(pause/2)) //nolint:gosec // a pause is no secret
		pause = min(2*pause, longPause)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}
