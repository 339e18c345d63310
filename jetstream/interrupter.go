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
// A server that closes its streams answers no request until they are open
// again, and a request would wait until its context ends: Interrupt ends it.
// The zero value is ready.
type Interrupter struct {
	end atomic.Pointer[context.CancelCauseFunc]
}

// Do calls f with a context that Interrupt ends too; the error then wraps
// [ErrUnanswered], and the request may be repeated. f may call Do itself.
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

// Interrupt ends the request in flight, with the reason why no answer will
// come. It may be called concurrently with Do.
func (a *Interrupter) Interrupt(reason string) {
	if end := a.end.Load(); end != nil {
		(*end)(fmt.Errorf("%w: %s", ErrUnanswered, reason))
	}
}
