package tool

import (
	"context"
	"slices"
	"testing"
)

// A call tells of each input before it reads it, and at its end that it reads none; one that is set aside is not read. A
// panic is a failure of the call.
// covers A-CRASH
func TestWatched(t *testing.T) {
	t.Parallel()
	var told []string
	ctx := WithTell(t.Context(), func(_ context.Context, call, input string) bool {
		told = append(told, input[:min(4, len(input))])
		return input != "" && len(told) == 2
	})
	_, err := Watched(ctx, func(ctx context.Context) (string, error) {
		err := Reading(ctx, []byte("one"))
		failIf(t, err != nil, "%v", err)
		return "", Reading(ctx, []byte("two"))
	})
	want := []string{"7692", "3fc4", ""}
	failIf(t, err != SetAside || !slices.Equal(told, want), "%v, %q, want %q", err, told, want)
	if _, err := Watched(t.Context(), func(ctx context.Context) (int, error) { return 0, Reading(ctx, nil) }); err != nil {
		t.Errorf("nobody listens: %v", err)
	}
	told = nil
	_, err = Watched(ctx, func(ctx context.Context) (int, error) {
		_ = Reading(ctx, []byte("one"))
		panic("hostile")
	})
	failIf(t, err != Unreadable || len(told) != 2 || told[1] != "", "%v, %q", err, told)
}
