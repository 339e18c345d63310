package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
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

// SealingKeysOf returns the keys of a backup. They open, and can seal only if
// the key exists.
func SealingKeysOf(stored []StoredKey) (*SealingKeys, error) {
	k := NewSealingKeys(nil)
	for _, one := range stored {
		of, err := parseSealingKey(one.Subject)
		if errors.Is(err, errExpiry) {
			if k.expired, err = parseDate(string(one.Key)); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: its sealing keys", ErrBackup)
		}
		var key bcp.SealingKey
		if string(one.Key) != tombstone {
			if key, err = parseKey(one.Key); err != nil {
				return nil, err
			}
		}
		k.known[of] = key
	}
	return k, nil
}
