package redteam_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

// A report can be read again, and is ok only if everything was tried and held.
func TestReadReport(t *testing.T) {
	t.Parallel()
	write := func(r redteam.Report) []byte {
		b, err := json.Marshal(redteam.Document{OK: r.OK(), Report: r})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	r := redteam.Report{Schema: 1, Seed: 7, Results: []redteam.Result{
		{ID: "A-ONE", Class: "encoding", Text: "says it twice", Property: "once", Verdict: redteam.Held, TookMS: 1500},
		{ID: "A-TWO", Class: "budget", Text: "says </code>\x1b[2J\u202e", Property: "bounded", Verdict: redteam.Broken, Evidence: []string{"heard"}, TookMS: 20},
	}}
	got, err := redteam.ReadReport(write(r))
	if err != nil || cmp.Diff(r, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(r, got))
	}
	for verdict, ok := range map[redteam.Verdict]bool{redteam.Held: true, redteam.Skipped: true, redteam.Broken: false, redteam.NotRun: false} {
		b := write(redteam.Report{Schema: 1, Results: []redteam.Result{{ID: "A", Verdict: verdict}}})
		if got := strings.Contains(string(b), `"ok":true`); got != ok {
			t.Errorf("%s: %s", verdict, b)
		}
	}
	if (redteam.Report{Schema: 1}).OK() {
		t.Error("a report of nothing is ok")
	}
	for _, text := range []string{"", "[]", "{}", `{"schema":2}`, `{"schema":1,"results":[{"id":""}]}`, `{"schema":1,"results":[{"id":"A"},{"id":"A"}]}`, `{"schema":1,"results":[{"id":"A","verdict":"fine"}]}`} {
		if _, err := redteam.ReadReport([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// Worse is what no longer holds, and nothing else; a report does not differ from itself.
func TestDiff(t *testing.T) {
	t.Parallel()
	one := func(id string, v redteam.Verdict) redteam.Report {
		return redteam.Report{Schema: 1, Results: []redteam.Result{{ID: id, Verdict: v}}}
	}
	all := []redteam.Verdict{redteam.NotRun, redteam.Held, redteam.Broken, redteam.Skipped}
	bad := map[redteam.Verdict]int{redteam.Broken: 2, redteam.NotRun: 1}
	for _, before := range all {
		for _, after := range all {
			changes := redteam.Diff(one("A", before), one("A", after))
			switch {
			case before == after && len(changes) != 0:
				t.Errorf("%s: %+v", before, changes)
			case before != after && (len(changes) != 1 || changes[0].Worse != (bad[after] > bad[before])):
				t.Errorf("%s, %s: %+v", before, after, changes)
			}
		}
		if changes := redteam.Diff(one("A", before), redteam.Report{}); len(changes) != 1 || !changes[0].Gone || changes[0].Worse != (before == redteam.Held) {
			t.Errorf("%s and gone: %+v", before, changes)
		}
		if changes := redteam.Diff(redteam.Report{}, one("A", before)); len(changes) != 1 || !changes[0].New || changes[0].Worse != (bad[before] > 0) {
			t.Errorf("new and %s: %+v", before, changes)
		}
	}
}
