package jetstream

import (
	"context"
	"errors"

	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Recorded reads a decision of the journal, and opens it and its message. The
// error is [ErrKeyLost] if it has no key.
func (k *SealingKeys) Recorded(ctx context.Context, record []byte) (state.Recorded, error) {
	rec := state.Recorded{Record: record}
	var err error
	if rec.Decision, err = k.Decode(ctx, record); err != nil {
		return state.Recorded{}, err
	}
	rec.Message, err = k.OpenRaw(ctx, &rec.Decision)
	if rec.Gone = errors.Is(err, ErrErased); rec.Gone {
		err = nil
	}
	return rec, err
}
