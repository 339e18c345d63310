package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/mesh/redteam"
	"github.com/bcpmesh/bcpmesh/mesh/redteam/report"
	"github.com/bcpmesh/bcpmesh/mesh/sarif/sariftest"
)

const hostile = "</code><script>alert(1)</script>\x1b[2J\u202e]]>&#0;\xff"

func sample() redteam.Report {
	return redteam.Report{Schema: 1, Seed: 7, Results: []redteam.Result{
		{ID: "A-ONE", Class: "encoding", Text: "says it twice", Property: "once", Verdict: redteam.Held, TookMS: 1500},
		{ID: "A-TWO", Class: "budget", Text: "says " + hostile, Property: "bounded", Verdict: redteam.Broken, Evidence: []string{"heard", hostile}, TookMS: 20},
		{ID: "A-THREE", Class: "encoding", Text: "waits", Property: "in time", Verdict: redteam.NotRun, Evidence: []string{"no server"}},
		{ID: "A-FOUR", Class: "budget", Text: "asks", Property: "not at all", Verdict: redteam.Skipped, Evidence: []string{"nobody asks"}},
	}}
}

func write(t *testing.T, r redteam.Report, form report.Form) []byte {
	t.Helper()
	b, err := report.Write(r, form, "1.2.3", "my mesh")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The extension says the form, and nothing is written in none.
func TestForms(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]report.Form{"a.json": report.JSON, "a/b.XML": report.JUnit, "x.sarif": report.SARIF, "x.html": report.HTML, "x.report.jsonl": report.Garak, "x": 0, "x.txt": 0, "": 0, ".json.d": 0} {
		if form, ok := report.FormOf(file); form != want || ok != (want != 0) {
			t.Errorf("%q: %d, %t", file, form, ok)
		}
	}
	if _, err := report.Write(sample(), 0, "", ""); err == nil {
		t.Error("written in no form")
	}
}

// What JSON says can be read again, and says ok only if everything was tried and held.
func TestJSON(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Results[1].Text, r.Results[1].Evidence = "says it", nil
	got, err := report.Read(write(t, r, report.JSON))
	if err != nil || cmp.Diff(r, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(r, got))
	}
	for verdict, ok := range map[redteam.Verdict]bool{redteam.Held: true, redteam.Skipped: true, redteam.Broken: false, redteam.NotRun: false} {
		b := write(t, redteam.Report{Schema: 1, Results: []redteam.Result{{ID: "A", Verdict: verdict}}}, report.JSON)
		if got := strings.Contains(string(b), `"ok": true`); got != ok {
			t.Errorf("%s: %s", verdict, b)
		}
	}
	if b := write(t, redteam.Report{Schema: 1}, report.JSON); strings.Contains(string(b), `"ok": true`) {
		t.Error("a report of nothing is ok")
	}
	for _, text := range []string{"", "[]", "{}", `{"schema":2}`, `{"schema":1,"results":[{"id":""}]}`, `{"schema":1,"results":[{"id":"A"},{"id":"A"}]}`, `{"schema":1,"results":[{"id":"A","verdict":"fine"}]}`} {
		if _, err := report.Read([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// JUnit: what got through is a failure, what could not be run an error, and the counts are
// those of the cases. Hostile text is text.
func TestJUnit(t *testing.T) {
	t.Parallel()
	type count struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	var all struct {
		count
		Suites []struct {
			count
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	b := write(t, sample(), report.JUnit)
	if err := xml.Unmarshal(b, &all); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if all.count != (count{4, 1, 1, 1}) || len(all.Suites) != 2 || all.Suites[0].Name != "encoding" || all.Suites[0].count != (count{2, 0, 1, 0}) || all.Suites[1].count != (count{2, 1, 0, 1}) {
		t.Errorf("%+v", all)
	}
	if c := all.Suites[1].Cases; c[0].Failure == nil || c[1].Skipped == nil || c[1].Failure != nil || all.Suites[0].Cases[1].Error == nil || all.Suites[0].Cases[0].Failure != nil {
		t.Errorf("%+v", all.Suites)
	}
	if bytes.Contains(b, []byte("\x1b")) || bytes.Contains(b, []byte("<script")) || bytes.Contains(b, []byte("\u202e")) {
		t.Errorf("%s", b)
	}
}

// SARIF: each result names its rule, findings are errors, and a review has no level
// (SARIF 2.1.0, 3.27.9 and 3.27.10).
func TestSARIF(t *testing.T) {
	t.Parallel()
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name, Version string
					Rules         []struct{ ID string }
				}
			}
			Results []struct {
				RuleID, Kind, Level string
				RuleIndex           int
				Message             struct{ Text string }
				Locations           []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				}
			}
		}
	}
	r := sample()
	r.Results[1].Text, r.Results[1].Evidence = "x", []string{"</script>"}
	b := write(t, r, report.SARIF)
	if err := json.Unmarshal(b, &log); err != nil {
		t.Fatal(err)
	}
	for _, problem := range append(sariftest.Problems(b), sariftest.Problems(write(t, sample(), report.SARIF))...) {
		t.Error(problem)
	}
	run := log.Runs[0]
	if log.Version != "2.1.0" || len(log.Runs) != 1 || run.Tool.Driver.Version != "1.2.3" || len(run.Tool.Driver.Rules) != 4 || len(run.Results) != 2 {
		t.Fatalf("%+v", log)
	}
	for i, want := range [][3]string{{"A-TWO", "fail", "error"}, {"A-THREE", "review", "none"}} {
		got := run.Results[i]
		if got.RuleID != want[0] || got.Kind != want[1] || got.Level != want[2] || run.Tool.Driver.Rules[got.RuleIndex].ID != got.RuleID || got.Message.Text == "" || got.Locations[0].PhysicalLocation.ArtifactLocation.URI != "my%20mesh/mesh.yaml" {
			t.Errorf("%+v", got)
		}
	}
}

// The page has no element beyond ours, whatever an attack left behind, and shows the
// worst first.
func TestHTML(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := sample()
		text := rapid.OneOf(rapid.Just(hostile), rapid.String(), rapid.StringMatching(`[<>"'&=/a-z ]{0,40}`))
		for i := range r.Results {
			r.Results[i].ID, r.Results[i].Text, r.Results[i].Evidence = text.Draw(t, "id"), text.Draw(t, "text"), []string{text.Draw(t, "evidence")}
		}
		b, err := report.Write(r, report.HTML, "", "")
		if err != nil {
			t.Fatal(err)
		}
		root, err := html.Parse(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				count[n.Data]++
			}
			if n.Type == html.CommentNode {
				t.Errorf("a comment: %q", n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "href" || a.Key == "src" {
					t.Errorf("%s has %s", n.Data, a.Key)
				}
			}
		}
		want := map[string]int{"html": 1, "head": 1, "meta": 3, "title": 1, "style": 1, "body": 1, "main": 1, "h1": 1, "p": 2, "table": 1, "thead": 1, "tbody": 1, "tr": 5, "th": 8, "td": 12, "code": 8, "br": 4}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Errorf("%s\n%s", diff, b)
		}
	})
	page := string(write(t, sample(), report.HTML))
	if strings.Index(page, "A-TWO") > strings.Index(page, "A-THREE") || strings.Index(page, "A-THREE") > strings.Index(page, "A-ONE") {
		t.Errorf("%s", page)
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
			changes := report.Diff(one("A", before), one("A", after))
			switch {
			case before == after && len(changes) != 0:
				t.Errorf("%s: %+v", before, changes)
			case before != after && (len(changes) != 1 || changes[0].Worse != (bad[after] > bad[before])):
				t.Errorf("%s, %s: %+v", before, after, changes)
			}
		}
		if changes := report.Diff(one("A", before), redteam.Report{}); len(changes) != 1 || !changes[0].Gone || changes[0].Worse != (before == redteam.Held) {
			t.Errorf("%s and gone: %+v", before, changes)
		}
		if changes := report.Diff(redteam.Report{}, one("A", before)); len(changes) != 1 || !changes[0].New || changes[0].Worse != (bad[before] > 0) {
			t.Errorf("new and %s: %+v", before, changes)
		}
	}
}
