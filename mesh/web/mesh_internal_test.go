package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A mesh is connected to anew when its connection is old, or lost for long; what fails is tried again, and without a way to
// do so the connection stays.
func TestReconnect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		connected bool
		after     time.Duration // 0: never
	}{"old": {true, time.Hour}, "lost": {false, silence}, "for ever": {}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			begun, tries := time.Now(), 0
			again := func(context.Context) (Mesh, error) {
				if tries++; tries == 1 {
					return Mesh{}, errors.New("the mesh is away")
				}
				return Mesh{}, nil
			}
			if c.after == 0 {
				again = nil
			}
			next := reconnect(ctx, &Mesh{Connected: func() bool { return c.connected }}, again, time.Hour)
			if (next != nil) != (c.after > 0) || next != nil && time.Since(begun) != c.after+lookPause {
				t.Errorf("%s: %v after %s", name, next, time.Since(begun))
			}
		})
	}
}
