package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync/atomic"
)

// A cell reads what strangers wrote, and one of their inputs may end it: by a fault of a library,
// or by the limit of its memory. Who keeps the cell is told of each input before it is read, and
// sets aside those that a cell was reading when it ended: the next cell does not read them again,
// and says so.

// Tell tells the keeper which input a call reads now, none at its end, and returns whether it is
// set aside. Inputs are told by digests.
type Tell func(ctx context.Context, call, input string) (aside bool)

type tellKey struct{}

// WithTell returns a context whose tools tell what they read.
func WithTell(ctx context.Context, tell Tell) context.Context {
	return context.WithValue(ctx, tellKey{}, tell)
}

// reading is one call.
type reading struct {
	call  string
	tell  Tell
	begun bool
}

type readingKey struct{}

var calls atomic.Uint64

// Watched runs a call of a tool. If it panics, that is [Unreadable]: of what it read, nothing else.
func Watched[R any](ctx context.Context, run func(context.Context) (R, error)) (result R, err error) {
	r := &reading{call: strconv.FormatUint(calls.Add(1), 10)}
	r.tell, _ = ctx.Value(tellKey{}).(Tell)
	defer func() {
		if recover() != nil {
			err = Unreadable
		}
		if r.begun {
			r.tell(ctx, r.call, "")
		}
	}()
	return run(context.WithValue(ctx, readingKey{}, r))
}

// Reading says that a call reads an input from now on, in place of the one before. It returns
// [SetAside] for one that is not to be read.
func Reading(ctx context.Context, input []byte) error {
	r, _ := ctx.Value(readingKey{}).(*reading)
	if r == nil || r.tell == nil {
		return nil
	}
	r.begun = true
	digest := sha256.Sum256(input)
	if r.tell(ctx, r.call, hex.EncodeToString(digest[:16])) {
		return SetAside
	}
	return nil
}
