package jetstream

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The day up to which keys have expired is one, in a backup too.
func TestStoredExpiryIsADate(t *testing.T) {
	t.Parallel()
	for day, good := range map[string]bool{"2026-03-20": true, "": false, "destroyed": false, "2026-3-20": false, "2026-02-29": false} {
		content := must(json.Marshal([]StoredKey{{Subject: subjects.Expiry(subjects.SealedRaw), Key: []byte(day)}}))(t)
		_, err := parseKeys(content)
		failIf(t, good != (err == nil) || !good && !errors.Is(err, ErrBackup), "%q: %v", day, err)
	}
}

// Keys that are kept in memory are bounded, and one more leaves most of them.
//
// covers A-FLOODRESP
func TestKeysInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	key := must(bcp.NewSealingKey([32]byte{1}))(t)
	k := NewSealingKeys(nil)
	for day := range int64(maxKeys) {
		k.keepKey(sealingKey{day: day}, key)
	}
	stopIf(t, len(k.known) != maxKeys, "%d of %d keys are known", len(k.known), maxKeys)
	one := sealingKey{day: maxKeys}
	k.keepKey(one, key)
	if _, known := k.known[one]; !known || len(k.known) > maxKeys || len(k.known) < maxKeys/8*7 {
		t.Errorf("with one more, %d of %d are known; that one: %v", len(k.known), maxKeys, known)
	}
	k.keepKey(one, bcp.SealingKey{})
	got := k.keepKey(one, key)
	failIf(t, !got.IsZero(), "a key that was destroyed while it was read is known again")
}
