package sarif_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/sarif"
	"github.com/bcpmesh/bcpmesh/mesh/sarif/sariftest"
)

var rules = []sarif.Rule{{ID: "one", Short: "First."}, {ID: "two", Short: "Second.", Full: "All of it.", Help: "Write it.", Level: sarif.Error}}

// What is written is a log that code scanning takes, whatever texts and paths say.
func TestWrite(t *testing.T) {
	t.Parallel()
	hostile := "</script>\x1b[2J\u202e\xff"
	b, err := sarif.Write("tool", "1", rules, []sarif.Finding{
		{Rule: "two", Level: sarif.Error, Text: hostile, File: "a b/c#d?é.md", Line: 1, Column: 1},
		{Rule: "one", Level: sarif.Warning, Text: "x", File: "x:y.md", Line: 7},
		{Rule: "one", Level: sarif.Note, Text: "x", File: "mesh.yaml"},
		{Rule: "one", Level: sarif.Review, Text: "x", File: "mesh.yaml"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range sariftest.Problems(b) {
		t.Error(p)
	}
	for _, want := range []string{`"uri": "a%20b/c%23d%3F%C3%A9.md"`, `"uri": "./x:y.md"`, `"level": "note"`, `"kind": "review"`} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	if b, err := sarif.Write("tool", "", nil, nil); err != nil || len(sariftest.Problems(b)) > 0 {
		t.Errorf("nothing found: %v %s", err, b)
	}
}

// What is no finding is not written.
func TestRefused(t *testing.T) {
	t.Parallel()
	good := sarif.Finding{Rule: "one", Level: sarif.Note, Text: "x", File: "x"}
	for name, edit := range map[string]func(*sarif.Finding){
		"no rule": func(f *sarif.Finding) { f.Rule = "three" }, "no level": func(f *sarif.Finding) { f.Level = 0 }, "another level": func(f *sarif.Finding) { f.Level = 5 },
		"no text": func(f *sarif.Finding) { f.Text = "" }, "no file": func(f *sarif.Finding) { f.File = "" }, "absolute": func(f *sarif.Finding) { f.File = "/x" },
		"line": func(f *sarif.Finding) { f.Line = -1 }, "column": func(f *sarif.Finding) { f.Column = -1 },
	} {
		f := good
		edit(&f)
		if _, err := sarif.Write("tool", "", rules, []sarif.Finding{f}); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	for _, bad := range [][]sarif.Rule{{{ID: "", Short: "x"}}, {{ID: "x"}}, {{ID: "x", Short: "x"}, {ID: "x", Short: "y"}}} {
		if _, err := sarif.Write("tool", "", bad, nil); err == nil {
			t.Errorf("%v: written", bad)
		}
	}
}

// The check of logs finds what is missing or wrong in one.
func TestCheckIsSeenRed(t *testing.T) {
	t.Parallel()
	b, err := sarif.Write("tool", "1", rules, []sarif.Finding{{Rule: "two", Level: sarif.Error, Text: "found", File: "mesh.yaml", Line: 3, Column: 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"version": "2.1.0"`, `"version": "2.0.0"`}, {`sarif-2.1.0.json`, `other.json`}, {`"runs"`, `"run"`}, {`"name": "tool"`, `"name": ""`}, {`"id": "one"`, `"id": "two"`},
		{`"text": "First."`, `"text": ""`}, {`"Write it."`, `""`}, {`"ruleIndex": 1`, `"ruleIndex": 0`}, {`"ruleIndex": 1`, `"ruleIndex": 2`}, {`"ruleId": "two"`, `"ruleId": "three"`},
		{`"kind": "fail"`, `"kind": "bad"`}, {`"kind": "fail"`, `"kind": "pass"`}, {`"level": "error",`, `"level": "fatal",`}, {`"found"`, `""`}, {`"uri": "mesh.yaml"`, `"uri": "/mesh.yaml"`},
		{`"uri": "mesh.yaml"`, `"uri": "file:///mesh.yaml"`}, {`"uri": "mesh.yaml"`, `"uri": "../mesh.yaml"`}, {`"uri": "mesh.yaml"`, `"uri": "a b"`}, {`"startLine": 3`, `"startLine": 0`},
		{`"startColumn": 2`, `"startColumn": 0`}, {`"results"`, `"result"`}, {`"locations"`, `"location"`}, {`unicodeCodePoints`, `bytes`}, {"{", "["},
	} {
		changed := strings.Replace(string(b), change[0], change[1], 1)
		if changed == string(b) || len(sariftest.Problems([]byte(changed))) == 0 {
			t.Errorf("%s for %s is not seen", change[1], change[0])
		}
	}
}
