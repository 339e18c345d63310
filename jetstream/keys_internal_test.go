package jetstream

import (
	"strconv"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Keys that are kept in memory are bounded, and one more leaves most of them.
//
// covers A-FLOODRESP
func TestKeysInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	key, err := bcp.NewSealingKey([32]byte{1})
	noError(t, err)
	k := NewSealingKeys(nil)
	for day := range int64(maxKeys) {
		k.keepKey(sealingKey{day: day}, key)
	}
	if len(k.known) != maxKeys {
		t.Fatalf("%d of %d keys are known", len(k.known), maxKeys)
	}
	one := sealingKey{day: maxKeys}
	k.keepKey(one, key)
	if _, known := k.known[one]; !known || len(k.known) > maxKeys || len(k.known) < maxKeys/8*7 {
		t.Errorf("with one more, %d of %d are known; that one: %v", len(k.known), maxKeys, known)
	}
	k.keepKey(one, bcp.SealingKey{})
	if got := k.keepKey(one, key); !got.IsZero() {
		t.Error("a key that was destroyed while it was read is known again")
	}
}

// Keys that are made ahead do not put those of today out of memory.
//
// covers A-FLOODRESP
func TestKeysAheadAreBounded(t *testing.T) {
	t.Parallel()
	key, err := bcp.NewSealingKey([32]byte{1})
	noError(t, err)
	const today = 20_000
	for _, c := range []struct{ yesterday, today, ahead int }{
		{maxKeys / 2, maxKeys / 4, maxKeys / 2}, {maxKeys / 2, maxKeys / 2, maxKeys / 2}, {0, maxKeys - 2, 1}, {0, maxKeys, 0},
	} {
		k := NewSealingKeys(nil)
		for i := range c.yesterday {
			k.keepKey(sealingKey{controller: bcp.AgentName(strconv.Itoa(i)), day: today - 1}, key)
		}
		for i := range c.today {
			k.keepKey(sealingKey{controller: bcp.AgentName(strconv.Itoa(i)), sealed: subjects.SealedPayload, day: today}, key)
		}
		gone := sealingKey{reader: "gone", day: today - 1}
		k.known[gone] = bcp.SealingKey{}
		c.ahead = min(c.ahead, maxKeys-c.today-1) // beside gone
		if n := len(k.wantedAhead(today)); n != max(0, c.ahead) || !k.destroyed(gone) {
			t.Errorf("%+v: %d are wanted", c, n)
		}
	}
}
