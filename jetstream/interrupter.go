package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrUnanswered says that the streams were closed, or their connection was
// lost, during a request.
var ErrUnanswered = errors.New("JetStream is not responding")

// Interrupter makes one JetStream request at a time, which can be interrupted.
// A server that has closed its streams answers no requests until they are open
// again, so a request would wait until its context ends: Interrupt ends it. The
// zero value is ready.
type Interrupter struct {
	end atomic.Pointer[context.CancelCauseFunc]
}

// Do calls f with a context that Interrupt also ends; the error then wraps
// [ErrUnanswered], and the request may be retried. f may call Do itself.
func (a *Interrupter) Do(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outer := a.end.Swap(&cancel)
	defer a.end.Store(outer)
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return err
}

// Interrupt ends the current request, with the reason why no reply will come.
// It may be called concurrently with Do.
func (a *Interrupter) Interrupt(reason string) {
	if end := a.end.Load(); end != nil {
		(*end)(fmt.Errorf("%w: %s", ErrUnanswered, reason))
	}
}
