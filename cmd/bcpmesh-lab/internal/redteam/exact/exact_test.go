package exact_test

import (
	"flag"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/exact"
)

var moreSlots = flag.Int("exact-slots", 0, "how many release slots are played beyond those of each configuration")

// Everything that a Controller can hear, whatever the Readers and people do and
// however often it asks within a slot, weighs at most 1, and at most 2 where the
// Readers can push; so does what comes of each query and subscription by itself; the
// charge is a function of what it heard; nothing but silence is free.
//
// covers P4.1, P4.2, P5, P9.6, A-TIME, A-NEI, A-SUBSEL, A-FREE, A-EXHAUST, A-RACE
func TestEverythingThatAControllerHearsIsCharged(t *testing.T) {
	t.Parallel()
	for _, c := range bcptest.Sample(exact.Configurations(), 4) {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			found, err := c.Search(*moreSlots)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d strategies, %d transcripts, weight %.6f, %d of them free, in %s", c.Text, found.Strategies, found.Transcripts, found.Weight, found.Free, time.Since(began).Round(time.Millisecond))
			for _, p := range found.Parts {
				t.Logf("%s: %.6f of %.6f", p.Name, p.Weight, p.Limit)
			}
			for _, defect := range found.Defects {
				t.Error(defect)
			}
		})
	}
}
