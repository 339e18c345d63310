package leakage_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/leakage"
)

// Whatever form a Reader gives the same answer, its Controller gets the same bytes.
//
// covers A-ORD, A-WSJ, A-SPC, A-NFC, A-RETRY
func TestClosedChannels(t *testing.T) {
	t.Parallel()
	tests := must(leakage.Select(leakage.Tests(), []string{"closed"}))(t)
	report := leakage.Run(t.Context(), leakage.Config{State: t.TempDir(), Tests: tests, Seed: 1, Pairs: 4})
	for _, r := range report.Results {
		failIf(t, r.Verdict != redteam.Held, "%s is %s: %v", r.ID, r.Verdict, r.Evidence)
		t.Log(r.ID, r.TookMS)
	}
}
