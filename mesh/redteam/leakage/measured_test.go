package leakage_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/redteam"
	"github.com/bcpmesh/bcpmesh/mesh/redteam/leakage"
)

// On a running mesh no encoder moves more than it is charged with release slots, and a
// value is moved and charged.
//
// covers P4.2, A-SUBSEL, A-NEI
func TestMeasuredEncoders(t *testing.T) {
	t.Parallel()
	tests, err := leakage.Select(leakage.Tests(), []string{"M-BLOCK-SLOTS", "M-ORDER-OPEN"})
	if err != nil {
		t.Fatal(err)
	}
	report := leakage.Run(t.Context(), leakage.Config{State: t.TempDir(), Tests: tests, Seed: 1, Trials: 192})
	for _, r := range report.Results {
		t.Logf("%s took %d ms: %+v", r.ID, r.TookMS, r.Measured)
		if r.Verdict != redteam.Held || r.Measured == nil {
			t.Fatalf("%s is %s: %v", r.ID, r.Verdict, r.Evidence)
		}
		if moves := r.ID != "M-ORDER-OPEN"; moves && r.Measured.Moved < 1 || !moves && r.Measured.Moved > 0.5 {
			t.Errorf("%s: %+v", r.ID, r.Measured)
		}
	}
}
