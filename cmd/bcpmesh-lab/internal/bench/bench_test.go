package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// A percentile is within a hundredth of the one of the sorted samples.
func TestLatencies(t *testing.T) {
	t.Parallel()
	var l Latencies
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(i*i) * 37
		all = append(all, d)
		l.add(d)
	}
	slices.Sort(all)
	for _, p := range []int{1, 50, 99, 100} {
		want, got := all[len(all)*p/100-1], l.Percentile(p)
		diff := max(got-want, want-got)
		failIf(t, diff > want/100+1, "p%d is %s, want %s", p, got, want)
	}
	if got := (Latencies{}).Percentile(50); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	var both Latencies
	both.merge(l)
	both.merge(l)
	failIf(t, both.Count() != 20_000 || both.Max != l.Max || both.Percentile(50) != l.Percentile(50),
		"merged: %d, %s, %s", both.Count(), both.Max, both.Percentile(50))
}

// A figure at its target meets it, and one past it does not; without a target
// nothing is said.
func TestTargets(t *testing.T) {
	t.Parallel()
	most, least := atMost(1.25, "x B"), atLeast(0.8, "x B")
	for _, c := range []struct {
		f    Figure
		b    *bound
		want string
	}{
		{Figure{Value: 125, Floor: 100, FloorIs: "B"}, &most, "met"},
		{Figure{Value: 126, Floor: 100, FloorIs: "B"}, &most, "MISSED"},
		{Figure{Value: 80, Floor: 100, FloorIs: "B"}, &least, "met"},
		{Figure{Value: 79, Floor: 100, FloorIs: "B"}, &least, "MISSED"},
		{Figure{Value: 1.25}, &most, "met"},
		{Figure{Value: 1.26}, &most, "MISSED"},
		{Figure{Value: 1}, nil, ""},
	} {
		var r Report
		r.add(c.f, c.b)
		got := r.Figures[0].Result()
		failIf(t, got != c.want, "%+v: %q, want %q", c.f, got, c.want)
		if got := len(r.Missed()); (got == 1) != (c.want == "MISSED") {
			t.Errorf("%+v: %d missed", c.f, got)
		}
	}
}

// What could not be measured has a row that says why, and misses nothing.
func TestNotMeasured(t *testing.T) {
	t.Parallel()
	most := atMost(160, " kB")
	r := Report{Figures: []Figure{{Name: "agents", What: "5000", NotMeasured: "too few files", Target: most.String()}}}
	want := [][]string{{"agents: 5000", "", "not measured: too few files", "", "", "at most 160 kB", ""}}
	diff := cmp.Diff(want, r.FigureRows())
	failIf(t, diff != "" || len(r.Missed()) > 0, "%s, %d missed", diff, len(r.Missed()))
}

// The document shows the report that lies beside it, in the format of the tool.
func TestDocument(t *testing.T) {
	t.Parallel()
	const folder = "../../../../docs/performance"
	b := must(os.ReadFile(filepath.Join(folder, figuresFile)))(t)
	var r Report
	noError(t, json.Unmarshal(b, &r, json.RejectUnknownMembers(true)))
	text := must(os.ReadFile(documentPath(folder)))(t)
	want := must(r.replaceSection(text))(t)
	diff := cmp.Diff(string(want), string(text))
	failIf(t, diff != "", "bcpmesh bench --write docs/performance writes the tables (-want +got):\n%s", diff)
	failIf(t, len(r.Loads) == 0 || r.Quick, "the document shows no whole run")
}

func TestAmount(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0 x", 3: "3 x", 0.12345: "0.123 x", 1.2345: "1.23 x", 12.345: "12.3 x", 1234.5: "1234 x", 99.96: "100.0 x"} {
		got := amount(v, "x")
		failIf(t, got != want, "%v is %q, want %q", v, got, want)
	}
}

var noError, failIf = bcptest.NoError, bcptest.FailIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
