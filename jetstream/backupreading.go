package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Reading writes a journal that is still being written to, as its operator reads it: up
// to the newest record when it begins, with its sealing keys. It checks the chain and
// returns where the journal begins. progress, if set, is called with the number of
// records done and the total.
func (w *BackupWriter) Reading(ctx context.Context, records Records, given KeyGiver, progress func(done, all uint64)) (Beginning, error) {
	parts := journalParts{out: w}
	sealed := map[sealingKey]bool{}
	var done, all uint64
	err := records(ctx, func(decisions [][]byte, left uint64) error {
		if all == 0 {
			all = left + 1
		}
		if err := parts.add(decisions); err != nil {
			return err
		}
		for _, record := range decisions {
			d, err := bcp.DecodeDecision(record)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrRecord, err)
			}
			if len(d.Sealed) > 0 {
				sealed[newSealingKey(&d, subjects.SealedPayload)] = true
			}
			if len(d.SealedRaw) > 0 {
				sealed[newSealingKey(&d, subjects.SealedRaw)] = true
			}
		}
		done++
		if progress != nil {
			progress(done, all)
		}
		if done == all {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return Beginning{}, err
	}
	if err := parts.end(); err != nil {
		return Beginning{}, err
	}
	// A key destroyed meanwhile is a tombstone in the backup too.
	keys := make([]StoredKey, 0, len(sealed))
	for of := range sealed {
		key, err := storedKey(ctx, of, given)
		if err != nil {
			return Beginning{}, err
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b StoredKey) int { return cmp.Compare(a.Subject, b.Subject) })
	return parts.chain.Begin, w.PutKeys(keys)
}

// storedKey returns a key as the stream keeps it.
func storedKey(ctx context.Context, of sealingKey, given KeyGiver) (StoredKey, error) {
	key, err := given(ctx, of.subject())
	stored := StoredKey{Subject: of.subject(), Key: key.Key}
	switch {
	case err != nil:
		return stored, err
	case key.Destroyed:
		stored.Key = []byte(tombstone)
		return stored, nil
	}
	_, err = givenKey(key, nil)
	return stored, err
}
