package leakage_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/leakage"
)

// On a running mesh no encoder moves more than it is charged with release slots, and a
// value is moved and charged.
//
// covers P4.2, A-SUBSEL, A-NEI
func TestMeasuredEncoders(t *testing.T) {
	t.Parallel()
	tests := must(leakage.Select(leakage.Tests(), []string{"M-BLOCK-SLOTS", "M-ORDER-OPEN"}))(t)
	report := leakage.Run(t.Context(), leakage.Config{State: t.TempDir(), Tests: tests, Seed: 1, Trials: 192})
	for _, r := range report.Results {
		t.Logf("%s took %d ms: %+v", r.ID, r.TookMS, r.Measured)
		stopIf(t, r.Verdict != redteam.Held || r.Measured == nil, "%s is %s: %v", r.ID, r.Verdict, r.Evidence)
		moves := r.ID != "M-ORDER-OPEN"
		failIf(t, moves && r.Measured.Moved < 1 || !moves && r.Measured.Moved > 0.5, "%s: %+v", r.ID, r.Measured)
	}
}

// What is not counted is measured on a running mesh: a report of taint is heard, and when
// in its slot a push begins a session is not. With so few trials no rate is told.
//
// covers P8.2, P9.2
func TestUncountedChannels(t *testing.T) {
	t.Parallel()
	var tests []leakage.Test
	for _, test := range leakage.Tests() {
		if test.Method == leakage.Uncounted {
			tests = append(tests, test)
		}
	}
	failIf(t, len(tests) != 8, "%d channels", len(tests))
	report := leakage.Run(t.Context(), leakage.Config{State: t.TempDir(), Tests: bcptest.Sample(tests, 4), Seed: 1, Trials: 32})
	for _, r := range report.Results {
		t.Logf("%s took %d ms: %+v", r.ID, r.TookMS, r.Rate)
		stopIf(t, r.Verdict != redteam.Held || r.Rate == nil || r.Rate.Trials < 16 || r.Rate.P <= 0 || r.Rate.P > 1 || r.Rate.Seen <= 0,
			"%s is %s: %v", r.ID, r.Verdict, r.Evidence)
		failIf(t, r.ID == "U-TAINT-OPEN" && r.Rate.P > 0.01 || r.ID == "U-SESSION-SLOTS" && r.Rate.P < 1,
			"%s: %+v", r.ID, r.Rate)
	}
	text := report.Markdown()
	failIf(t, !strings.Contains(text, "### Uncounted") || !bcptest.Fast() && !strings.Contains(text, "| a person acts |"),
		"%v", text)
	for table := range strings.SplitSeq(text, "\n\n") {
		if lines := strings.Split(table, "\n"); len(lines) > 2 && strings.Count(lines[0], "|") != strings.Count(lines[1], "|") {
			t.Errorf("%s has %s below it, and is no table", lines[0], lines[1])
		}
	}
}

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
