package jetstream

import (
	"context"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// MakeAhead makes tomorrow's two keys for each channel with something sealed or opened
// today, as far as keys in memory have room, so that its first message of the day does
// not wait for them. It returns the number of new keys. They are on disk before Seal
// finds them in memory. It drops keys of earlier days from memory. After an error call it
// again.
func (k *SealingKeys) MakeAhead(ctx context.Context, now time.Time) (int, error) {
	made := make(map[sealingKey]bcp.SealingKey)
	for _, of := range k.wantedAhead(dayNumber(now)) {
		key, err := k.makeOne(ctx, of)
		if err != nil {
			return 0, err
		}
		made[of] = key
	}
	if len(made) == 0 {
		return 0, nil
	}
	k.unsynced()
	if err := k.Sync(); err != nil {
		return 0, err
	}
	for of, key := range made {
		k.keepKey(of, key)
	}
	return len(made), nil
}

func (k *SealingKeys) makeOne(ctx context.Context, of sealingKey) (bcp.SealingKey, error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	return k.create(ctx, of)
}

// wantedAhead returns the keys to make for the day after today.
func (k *SealingKeys) wantedAhead(today int64) (wanted []sealingKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for of, key := range k.known {
		if of.day < today && !key.IsZero() {
			delete(k.known, of)
		}
	}
	for of := range k.known {
		if of.day != today || of.sealed != subjects.SealedPayload {
			continue
		}
		of.day++
		for _, of.sealed = range []subjects.Sealed{subjects.SealedPayload, subjects.SealedRaw} {
			if _, known := k.known[of]; !known && len(k.known)+len(wanted) < maxKeys {
				wanted = append(wanted, of)
			}
		}
	}
	return wanted
}
