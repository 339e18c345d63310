package leakage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/exact"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/stats"
)

// Method is how a test looks for a leak.
type Method string

// The methods.
const (
	Exact    Method = "exact"
	Closed   Method = "closed"
	Measured Method = "measured"
	// Uncounted measures channels that are not counted according to bcp/CAPACITY.md: a
	// rate, without a verdict.
	Uncounted Method = "uncounted"
)

// Methods returns the methods in the order in which they are used.
func Methods() []Method { return []Method{Exact, Closed, Measured, Uncounted} }

// Test is one search for a leak.
type Test struct {
	ID     string // never changes its meaning
	Method Method
	Text   string
	run    func(*trial)
	again  func(*trial) // twice as often, with another seed
}

// Tests returns all tests.
func Tests() []Test {
	var all []Test
	for _, c := range exact.Configurations() {
		all = append(all, Test{ID: c.ID, Method: Exact, Text: c.Text, run: func(t *trial) { t.search(c) }})
	}
	for _, f := range closedForms() {
		all = append(all, Test{ID: f.id, Method: Closed, Text: f.text, run: func(t *trial) { t.compare(f) }})
	}
	for _, mode := range []string{ModeSlots, ModeOpen} {
		for _, e := range encoders() {
			all = append(all, Test{
				ID: "M-" + e.id + "-" + strings.ToUpper(mode), Method: Measured, Text: e.text + ", " + modeText[mode],
				run:   func(t *trial) { t.measure(e, mode, t.config.Trials, t.config.Seed) },
				again: func(t *trial) { t.measure(e, mode, 2*t.config.Trials, t.config.Seed+1) },
			})
		}
	}
	for _, u := range uncountedChannels() {
		all = append(all, Test{ID: "U-" + u.id + "-" + strings.ToUpper(u.mode), Method: Uncounted, Text: u.text, run: func(t *trial) { t.rate(u) }})
	}
	return all
}

// Select returns the tests whose ID or method is among words; all without words. The
// error lists words without a match.
func Select(all []Test, words []string) ([]Test, error) {
	return redteam.Matching(all, words, "neither a test nor a method", func(t Test, word string) bool { return t.ID == word || string(t.Method) == word })
}

// Config configures a run.
type Config struct {
	State string // an empty folder for meshes
	Tests []Test // all if nil
	Seed  uint64 // the same seed makes the same acts
	Pairs int    // of each closed channel; the default is 100
	// Trials are those of each encoder and mode; the default is 320.
	Trials int
	// OnResult, if set, is called with each result.
	OnResult func(Result)
}

// Result is the result of a test.
type Result struct {
	ID       string          `json:"id"`
	Method   Method          `json:"method"`
	Text     string          `json:"text"`
	Verdict  redteam.Verdict `json:"verdict"`
	Evidence []string        `json:"evidence,omitempty"` // what leaks, or why it could not be run
	TookMS   int64           `json:"took_ms"`
	Exact    *Certificate    `json:"exact,omitempty"`
	Closed   *Pairs          `json:"closed,omitempty"`
	Measured *Sample         `json:"measured,omitempty"`
	Rate     *Rate           `json:"rate,omitempty"`
}

// Pairs is the result of comparing a closed channel.
type Pairs struct {
	Pairs int `json:"pairs"` // of plays that differ in the form of the answer alone
}

// Certificate is the result of an exact search. Weights are rounded up.
type Certificate struct {
	Strategies  int     `json:"strategies"`  // of the adversary
	Transcripts int     `json:"transcripts"` // that the Controller can hear
	Weight      float64 `json:"weight"`      // the sum of 2^-charge over all transcripts
	Limit       int64   `json:"limit"`       // of the weight (bcp/CAPACITY.md, 1)
}

// Report is the result of a run.
type Report struct {
	Schema  int      `json:"schema"` // 1
	Seed    uint64   `json:"seed"`
	Results []Result `json:"results"`
}

// Count returns how many tests have a verdict.
func (r Report) Count(v redteam.Verdict) (n int) {
	for _, result := range r.Results {
		if result.Verdict == v {
			n++
		}
	}
	return n
}

// trial is a test under way.
type trial struct {
	ctx    context.Context
	config Config
	result *Result
	err    error // why nothing is known
}

// leaks reports a leak.
func (t *trial) leaks(format string, args ...any) {
	t.result.Evidence = append(t.result.Evidence, fmt.Sprintf(format, args...))
}

// fail says why the result is unknown: of several errors the last counts, and nil is
// none.
func (t *trial) fail(errs ...error) {
	for _, err := range errs {
		if err != nil {
			t.err = err
		}
	}
}

// Run makes the tests one after the other. When ctx ends, the remaining tests are not
// run.
func Run(ctx context.Context, c Config) Report {
	if c.Tests == nil {
		c.Tests = Tests()
	}
	if c.Pairs == 0 {
		c.Pairs = 100
	}
	if c.Trials == 0 {
		c.Trials = 320
	}
	report := Report{Schema: 1, Seed: c.Seed}
	for _, test := range c.Tests {
		result := Result{ID: test.ID, Method: test.Method, Text: test.Text, Verdict: redteam.Held}
		c.make(ctx, &result, test.run)
		report.Results = append(report.Results, result)
		if c.OnResult != nil {
			c.OnResult(result)
		}
	}
	for _, i := range exceeding(report.Results) {
		result := &report.Results[i]
		c.make(ctx, result, c.Tests[i].again)
		if result.Verdict == redteam.Held && len(exceeding([]Result{*result})) > 0 {
			result.Verdict, result.Evidence = redteam.Broken, []string{fmt.Sprintf("at least %.3f bits moved a trial, and %.3f were charged, in two runs", result.Measured.Moved, result.Measured.Charged)}
		}
		if c.OnResult != nil {
			c.OnResult(*result)
		}
	}
	return report
}

// make makes a test, and writes into result.
func (c Config) make(ctx context.Context, result *Result, run func(*trial)) {
	began := time.Now()
	t := &trial{ctx: ctx, config: c, result: result, err: ctx.Err()}
	if t.err == nil {
		run(t)
	}
	switch {
	case len(result.Evidence) > 0:
		result.Verdict = redteam.Broken
	case t.err != nil:
		result.Verdict, result.Evidence = redteam.NotRun, []string{t.err.Error()}
	}
	result.TookMS += time.Since(began).Milliseconds()
}

// exceeding returns the tests that measured more than is charged, for all encoders with
// slots together at a level of 5 % (Holm). Without slots timing is not counted.
func exceeding(results []Result) (list []int) {
	var p []float64
	var places []int
	for i, r := range results {
		if r.Measured != nil && r.Measured.Mode == ModeSlots {
			p, places = append(p, r.Measured.P), append(places, i)
		}
	}
	for i, rejected := range stats.Holm(p, 0.05) {
		if rejected {
			list = append(list, places[i])
		}
	}
	return list
}

// search plays a configuration.
func (t *trial) search(c exact.Configuration) {
	found, err := c.Search(0)
	if err != nil { // it is pure: nothing but the state can be the cause
		t.leaks("%s", err)
		return
	}
	weight, _ := found.Weight.Float64()
	t.result.Exact = &Certificate{found.Strategies, found.Transcripts, weight, found.Limit}
	t.result.Evidence = found.Defects
}
