package report

import (
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/mesh/redteam"
)

// ErrRead says that a text is not a report in the form JSON, or has another schema.
var ErrRead = errors.New("report: no report of a red team in JSON, schema 1")

// Read reads a report in the form JSON.
func Read(b []byte) (redteam.Report, error) {
	var d Document
	if json.Unmarshal(b, &d) != nil || d.Schema != 1 {
		return redteam.Report{}, ErrRead
	}
	seen := map[string]bool{}
	for _, r := range d.Results {
		if r.ID == "" || seen[r.ID] {
			return redteam.Report{}, ErrRead
		}
		seen[r.ID] = true
	}
	return d.Report, nil
}

// Change is an attack with another verdict, or in only one report.
type Change struct {
	ID     string          `json:"id"`
	Before redteam.Verdict `json:"before"`
	After  redteam.Verdict `json:"after"`
	// New and Gone say that it is only in the later, or only in the earlier report.
	New  bool `json:"new,omitzero"`
	Gone bool `json:"gone,omitzero"`
	// Worse says that less holds than before.
	Worse bool `json:"worse"`
}

// Diff returns the differences, in the order of the reports. Worse are the properties
// that no longer hold: an attack that held and does not, one that could be run and no
// longer can, and a new one that gets through or could not be run.
func Diff(before, after redteam.Report) (changes []Change) {
	later := map[string]redteam.Result{}
	for _, r := range after.Results {
		later[r.ID] = r
	}
	earlier := map[string]bool{}
	for _, r := range before.Results {
		earlier[r.ID] = true
		now, there := later[r.ID]
		switch {
		case !there:
			changes = append(changes, Change{ID: r.ID, Before: r.Verdict, Gone: true, Worse: r.Verdict == redteam.Held})
		case now.Verdict != r.Verdict:
			changes = append(changes, Change{ID: r.ID, Before: r.Verdict, After: now.Verdict, Worse: isWorse(r.Verdict, now.Verdict)})
		}
	}
	for _, r := range after.Results {
		if !earlier[r.ID] {
			changes = append(changes, Change{ID: r.ID, After: r.Verdict, New: true, Worse: r.Verdict == redteam.Broken || r.Verdict == redteam.NotRun})
		}
	}
	return changes
}

// isWorse: broken is worst, then unknown. Skipped is no worse than held: the definitions
// leave nothing to attack.
func isWorse(before, after redteam.Verdict) bool {
	rank := map[redteam.Verdict]int{redteam.Broken: 2, redteam.NotRun: 1}
	return rank[after] > rank[before]
}
