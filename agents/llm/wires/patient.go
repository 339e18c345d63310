package wires

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	tries      = 4
	firstPause = time.Second
	longPause  = 30 * time.Second

	restAfter = 5 // failures, without a reply between them
	rest      = time.Minute
)

// Patient retries calls that failed for lack of capacity: four attempts in all, with a
// backoff from a second, doubled each time up to half a minute, with some jitter, or as
// long as the provider asks for, at most a minute. It never waits beyond the deadline of
// the call.
//
// Keys, tokens and passwords that redaction knows are removed from every request.
//
// After five consecutive failures it pauses: for a minute calls fail at once with
// [llm.Overloaded]. A failure after the pause begins the next one. It may be used by
// several goroutines, whose failures count together.
type Patient struct {
	Provider llm.Provider

	mu       sync.Mutex
	failures int
	until    time.Time // of the rest
}

// Do implements [llm.Provider].
func (p *Patient) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	r = r.Redacted(guard.Keys)
	pause := firstPause
	for try := 1; ; try++ {
		if p.resting() {
			return nil, llm.Overloaded{}
		}
		reply, err := p.Provider.Do(ctx, r)
		var limited llm.RateLimited
		var overloaded llm.Overloaded
		again := errors.As(err, &limited) || errors.As(err, &overloaded)
		p.count(err == nil, again)
		if !again || try == tries || p.resting() {
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

func (p *Patient) resting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.until)
}

// count counts a call. A failure for another reason than lack of capacity is ignored.
func (p *Patient) count(replied, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case replied:
		p.failures = 0
	case failed:
		if p.failures++; p.failures >= restAfter {
			p.until = time.Now().Add(rest)
		}
	}
}
