package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrUnanswered says that the streams were closed, or their connection was lost,
// while somebody asked them.
var ErrUnanswered = errors.New("JetStream is not responding")

// Asking is somebody who asks the streams, one thing at a time. A server that
// closes its streams answers nobody who asks before they are open again, and whoever
// has asked waits until its context ends: this ends it. The zero value is ready.
type Asking struct {
	end atomic.Pointer[context.CancelCauseFunc]
}

// Do calls f with a context that Unanswered ends too; the error then wraps
// [ErrUnanswered], and it may be asked again. f may call Do in its turn.
func (a *Asking) Do(ctx context.Context, f func(context.Context) error) error {
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

// Unanswered ends what is asked now, and says why no answer will come. It may be
// called concurrently with Do.
func (a *Asking) Unanswered(reason string) {
	if end := a.end.Load(); end != nil {
		(*end)(fmt.Errorf("%w: %s", ErrUnanswered, reason))
	}
}
