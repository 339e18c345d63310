package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/stats"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within || math.IsNaN(got) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The figures of textbooks.
func TestKnownFigures(t *testing.T) {
	t.Parallel()
	near(t, "no error in 100, at 95 %", stats.ErrorsAtMost(0, 100, 0.05), 1-math.Pow(0.05, 0.01), 1e-9)
	near(t, "5 errors in 50", stats.ErrorsAtMost(5, 50, 0.025), 0.2181, 1e-4)
	near(t, "all errors", stats.ErrorsAtMost(7, 7, 0.05), 1, 0)
	near(t, "16 secrets without error", stats.Fano(16, 0), 4, 1e-12)
	near(t, "two secrets by chance", stats.Fano(2, 0.5), 0, 0)
	near(t, "worse than chance", stats.Fano(4, 0.9), 0, 0)
	low, high := stats.Wilson(0, 60)
	near(t, "none of 60, low", low, 0, 1e-12)
	near(t, "none of 60, high", high, 0.0602, 1e-3)
}

// The table of the noncentral chi-square that the design was measured with.
func TestWouldHaveSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, bins int
		bits    float64
	}{{2000, 2, 0.0114}, {2000, 8, 0.0164}, {2000, 16, 0.0199}, {10000, 2, 0.0023}, {10000, 8, 0.0033}, {10000, 16, 0.0040}, {50000, 2, 0.0005}, {50000, 8, 0.0007}, {50000, 16, 0.0008}} {
		near(t, "the bits that would have been seen", stats.WouldHaveSeen(c.n, 2, c.bins), c.bits, 0.00006)
	}
	if !math.IsInf(stats.WouldHaveSeen(0, 2, 8), 1) {
		t.Error("no trials see something")
	}
}

// The lower bound of a channel whose information is known is above it in 5 % of runs at
// most, and the test of a channel that carries nothing alarms as seldom.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const runs, n, k, e = 400, 300, 4, 0.1
	truth := math.Log2(k) + e*math.Log2(e/3) + (1-e)*math.Log2(1-e)
	above, rejected := 0, 0
	for range runs {
		errors := 0
		for range n {
			if random.Float64() < e {
				errors++
			}
		}
		if stats.MovedAtLeast(k, errors, n, 0.05) > truth {
			above++
		}
		if stats.Exceeds(k, errors, n, truth) < 0.05 {
			rejected++
		}
	}
	if above > 32 || rejected != above { // 20 are expected; 32 come once in 200 runs
		t.Errorf("the bound is above the truth in %d of %d runs, and rejected in %d", above, runs, rejected)
	}
}

func TestHolm(t *testing.T) {
	t.Parallel()
	got := stats.Holm([]float64{0.03, 0.001, 0.02, 0.9}, 0.05)
	if want := [4]bool{false, true, false, false}; [4]bool(got) != want {
		t.Errorf("Holm rejects %v", got)
	}
	if got := stats.Holm([]float64{0.012, 0.001}, 0.05); !got[0] || !got[1] {
		t.Errorf("Holm rejects %v", got)
	}
}

func TestInformation(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	secrets, same, noise := make([]int, 2000), make([]int, 2000), make([]int, 2000)
	for i := range secrets {
		secrets[i] = random.IntN(4)
		same[i], noise[i] = secrets[i], random.IntN(8)
	}
	all := stats.NewTable(secrets, same, 4, 4)
	near(t, "a copy", all.Information()-all.Bias(), 2, 0.02)
	near(t, "the capacity of a copy", all.Capacity(), 2, 1e-5)
	nothing := stats.NewTable(secrets, noise, 4, 8)
	near(t, "noise", nothing.Information()-nothing.Bias(), 0, 0.01)
	if p := stats.Permutation(secrets, same, 4, 4, 1000, random); p > 0.001 {
		t.Errorf("a copy has p %v", p)
	}
	if p := stats.Permutation(secrets, noise, 4, 8, 1000, random); p < 0.001 {
		t.Errorf("noise has p %v", p)
	}
	// A Z-channel's capacity is known, and not reached by equal inputs.
	near(t, "a Z-channel", stats.Table{{1000, 0}, {500, 500}}.Capacity(), math.Log2(1.25), 1e-5)
	borders := stats.Quantiles([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 4)
	if len(borders) != 3 || stats.Bin(0, borders) != 0 || stats.Bin(3, borders) != 1 || stats.Bin(9, borders) != 3 {
		t.Errorf("borders %v", borders)
	}
}
