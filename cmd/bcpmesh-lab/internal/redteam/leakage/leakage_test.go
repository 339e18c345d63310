package leakage_test

import (
	"context"
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/leakage"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	all := leakage.Tests()
	got, err := leakage.Select(all, []string{"X-GAP", "exact"})
	failIf(t, err != nil || len(got) < 30, "exact chooses %d tests, %v", len(got), err)
	got, err = leakage.Select(all, []string{"X-GAP"})
	failIf(t, err != nil || len(got) != 1, "an id chooses %d tests, %v", len(got), err)
	_, err = leakage.Select(all, []string{"X-GAP", "nothing"})
	failIf(t, err == nil, "an unknown word is taken")
}

// A test that could not be made is not said to hold.
func TestRunThatEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := leakage.Run(ctx, leakage.Config{})
	n := report.Count(redteam.NotRun)
	failIf(t, n == 0 || n != len(report.Results), "%d of %d tests are not run", n, len(report.Results))
}
