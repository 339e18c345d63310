package redteam

import (
	"errors"

	"github.com/go-json-experiment/json"
)

// OK reports whether every attack was stopped, or did not apply.
func (r Report) OK() bool {
	return len(r.Results) > 0 && r.Count(Held)+r.Count(Skipped) == len(r.Results)
}

// Document is a report in JSON.
type Document struct {
	OK bool `json:"ok"`
	Report
}

// ErrRead says that a text is not a report in JSON, or has another schema.
var ErrRead = errors.New("redteam: no report of a red team in JSON, schema 1")

// ReadReport reads a [Document].
func ReadReport(b []byte) (Report, error) {
	var d Document
	if json.Unmarshal(b, &d) != nil || d.Schema != 1 {
		return Report{}, ErrRead
	}
	seen := map[string]bool{}
	for _, r := range d.Results {
		if r.ID == "" || seen[r.ID] {
			return Report{}, ErrRead
		}
		seen[r.ID] = true
	}
	return d.Report, nil
}

// Change is an attack with another verdict, or in only one report.
type Change struct {
	ID     string  `json:"id"`
	Before Verdict `json:"before"`
	After  Verdict `json:"after"`
	// New and Gone say that it is only in the later, or only in the earlier report.
	New  bool `json:"new,omitzero"`
	Gone bool `json:"gone,omitzero"`
	// Worse says that less holds than before.
	Worse bool `json:"worse"`
}

// Diff returns the differences, in the order of the reports. Worse are the properties
// that no longer hold: an attack that held and does not, one that could be run and no
// longer can, and a new one that gets through or could not be run.
func Diff(before, after Report) (changes []Change) {
	later := map[string]Result{}
	for _, r := range after.Results {
		later[r.ID] = r
	}
	earlier := map[string]bool{}
	for _, r := range before.Results {
		earlier[r.ID] = true
		now, there := later[r.ID]
		switch {
		case !there:
			changes = append(changes, Change{ID: r.ID, Before: r.Verdict, Gone: true, Worse: r.Verdict == Held})
		case now.Verdict != r.Verdict:
			changes = append(changes, Change{ID: r.ID, Before: r.Verdict, After: now.Verdict, Worse: isWorse(r.Verdict, now.Verdict)})
		}
	}
	for _, r := range after.Results {
		if !earlier[r.ID] {
			changes = append(changes, Change{ID: r.ID, After: r.Verdict, New: true, Worse: r.Verdict == Broken || r.Verdict == NotRun})
		}
	}
	return changes
}

// isWorse: broken is worst, then unknown. Skipped is no worse than held: the definitions
// leave nothing to attack.
func isWorse(before, after Verdict) bool {
	rank := map[Verdict]int{Broken: 2, NotRun: 1}
	return rank[after] > rank[before]
}
