package jetstream_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bcpmesh/bcpmesh/jetstream"
)

// What is asked ends where no answer will come, and what was asked around it does
// at the next time. Nobody who asks later is told of it.
//
// covers P11.1
func TestAsking(t *testing.T) {
	t.Parallel()
	var asking jetstream.Interrupter
	asking.Interrupt("nobody asks")
	wait := func(ctx context.Context) error {
		asking.Interrupt("closed")
		<-ctx.Done()
		return ctx.Err()
	}
	err := asking.Do(t.Context(), func(outer context.Context) error {
		for range 2 {
			err := asking.Do(outer, wait)
			failIf(t, !errors.Is(err, jetstream.ErrUnanswered) || !jetstream.Unanswered(err), "what was asked ended with %v", err)
		}
		failIf(t, outer.Err() != nil, "what was asked around it ended too")
		return wait(outer)
	})
	failIf(t, !errors.Is(err, jetstream.ErrUnanswered), "what was asked around it ended with %v", err)
	err = asking.Do(t.Context(), context.Context.Err)
	failIf(t, err != nil, "asked again: %v", err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = asking.Do(ended, context.Context.Err)
	failIf(t, !errors.Is(err, context.Canceled) || errors.Is(err, jetstream.ErrUnanswered), "asked by who has ended: %v", err)
}
