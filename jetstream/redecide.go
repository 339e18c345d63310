package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Recorded reads a decision of the journal, opens it, and opens the message that
// it is about. The error is [ErrKeyLost] where there is no key for it.
func (k *SealingKeys) Recorded(ctx context.Context, record []byte) (bcp.Recorded, error) {
	rec := bcp.Recorded{Record: record}
	var err error
	if rec.Decision, err = k.Decode(ctx, record); err != nil {
		return bcp.Recorded{}, err
	}
	rec.Message, err = k.OpenRaw(ctx, &rec.Decision)
	if rec.Gone = errors.Is(err, ErrErased); rec.Gone {
		err = nil
	}
	rec.Prepare()
	return rec, err
}

// SealingKeysOf returns the keys of a backup. They open, and seal only what they
// are there for.
func SealingKeysOf(stored []StoredKey) (*SealingKeys, error) {
	k := NewSealingKeys(nil)
	for _, one := range stored {
		s, err := subjects.Parse(one.Subject)
		if err != nil {
			return nil, fmt.Errorf("%w: its sealing keys", ErrBackup)
		}
		begin, err := time.Parse(time.DateOnly, s.Day)
		if err != nil {
			return nil, fmt.Errorf("%w: its sealing keys", ErrBackup)
		}
		var key bcp.SealingKey
		if string(one.Key) != tombstone {
			if key, err = parseKey(one.Key); err != nil {
				return nil, err
			}
		}
		k.known[sealingKey{s.Controller, s.Reader, s.Sealed, begin.Unix() / int64(day/time.Second)}] = key
	}
	return k, nil
}
