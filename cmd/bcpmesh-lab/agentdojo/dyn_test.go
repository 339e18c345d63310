package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// A task of AgentDyn is done where a plan that is written before anything is read can do it, or there is a reason; what goes
// into an argument as it is costs a bit, a branch another; and no goal is reached.
//
// covers KER-106, P3.11
func TestQuay(t *testing.T) {
	t.Parallel()
	suites, err := load(filepath.Join("testdata", "dyn"))
	stopIf(t, err != nil || len(suites) != 1 || len(suites[0].Goals) != 1, "%v %v", len(suites), err)
	rows := must(measure(t.Context(), suites, byScript()))
	want := []struct {
		why     string
		refused bool // done also if the person refuses everything
		bits    string
	}{{"", true, "0"}, {"", false, "1"}, {"", false, "1"}, {"", false, "2"}, {toldWhat, false, ""}, {"", false, "1"},
		// Pages of which one leads to a payment; one that is opened again if it was shut; a form with two fields, of which one has two lines; an
		// address with a scheme; one that is read later; a list of one.
		{"", false, "4"}, {"", false, "1"}, {"", false, "2"}, {"", true, "0"}, {"", false, "1"}, {"", false, "1"},
		{"there is no tool `sail`", false, ""}, {"its ground truth has no calls", false, ""}, {"`url` of `open_page` " + nowhere, false, ""}}
	for i, r := range rows {
		c := r.Cells[kernelReader]
		failIf(t, c.Why != want[i].why || c.Refused != want[i].refused || c.Why == "" && wholeBits(c.Nominal) != want[i].bits,
			"%s: %q, %v, %s bits", r.ID, c.Why, c.Refused, wholeBits(c.Nominal))
		for way := range ways {
			a := r.Attacks[way]
			failIf(t, a.Pairs != 1 || a.Reached[careful] > 0 || way == kernelPlanner && a.Reached[approves] != 1,
				"%s, %s: %+v", r.ID, wayNames[way], a)
		}
	}
	for _, r := range rows {
		failIf(t, r.Sieges.Pairs != 1 || r.Sieges.Reached != 0, "%s: an attacker who adapts: %+v", r.ID, r.Sieges)
	}
	var page, errs bytes.Buffer
	if ok, err := write(&page, &errs, suites, rows, byScript()); !ok || err != nil || !strings.HasPrefix(page.String(), "# AgentDyn") || !strings.Contains(page.String(), "| "+toldWhat+" |") {
		t.Errorf("%s%s", &errs, &page)
	}
}
