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

// Patient retries calls that failed for lack of capacity: four attempts in all, with a
// backoff from a second, doubled each time up to half a minute, with some jitter, or as
// long as the provider asks for, at most a minute. It never waits beyond the deadline of
// the call.
//
// Keys, tokens and passwords that redaction knows are removed from every request.
type Patient struct {
	Provider llm.Provider
}

// Do implements [llm.Provider].
func (p *Patient) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	r = r.Redacted()
	pause := firstPause
	for try := 1; ; try++ {
		reply, err := p.Provider.Do(ctx, r)
		var limited llm.RateLimited
		var overloaded llm.Overloaded
		if !errors.As(err, &limited) && !errors.As(err, &overloaded) || try == tries {
			return reply, err
		}
		wait := max(limited.RetryAfter, overloaded.RetryAfter, pause/2+rand.N(pause/2)) //nolint:gosec // a pause is no secret
		pause = min(2*pause, longPause)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return nil, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Each returns a model with a wrapper around its provider for single calls: around
// each attempt of a [Patient].
func Each(m llm.Endpoint, around func(llm.Provider) llm.Provider) llm.Endpoint {
	if patient, ok := m.Provider.(*Patient); ok {
		m.Provider = &Patient{Provider: around(patient.Provider)}
	} else {
		m.Provider = around(m.Provider)
	}
	return m
}
