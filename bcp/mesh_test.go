package bcp

import (
	"testing"
	"time"
)

// covers BCP-154, P4.1
func TestSlotsOfATime(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]uint64{-1: 0, 0: 0, 1: 1, time.Minute: 1, time.Minute + 1: 2, 15 * time.Minute: 15, 1<<63 - 1: 153722868} {
		got := slots(ttl, time.Minute)
		failIf(t, got != want, "%s has %d slots, want %d", ttl, got, want)
	}
}
