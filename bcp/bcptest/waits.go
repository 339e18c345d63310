package bcptest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Patience is how long a test waits for what comes by itself, on a machine that does much else.
const Patience = 45 * time.Second

// Within is the time that something may take in a test.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Eventually waits for what nobody announces. It looks less often with time, since a look may cost something.
func Eventually(t TB, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(max(time.Millisecond, min(time.Since(begun)/20, 20*time.Millisecond))) {
		StopIf(t, time.Since(begun) > Patience, "not in time: %s", what)
	}
}

// Next waits for what comes on a channel.
func Next[T any](t TB, from <-chan T, what string, args ...any) (came T) {
	t.Helper()
	select {
	case came = <-from:
	case <-time.After(Patience):
		t.Fatalf("not in time: %s", fmt.Sprintf(what, args...))
	}
	return came
}
