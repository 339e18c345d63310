package definition_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// A mistake in YAML is told in words that say what to do, and in none of the library's.
func TestSyntaxErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"approvers: [kim":           "a list that begins with [ is not closed: expected ]",
		"approvers: [kim\nname: x":  "comma or ]",
		"approvers: [kim]\nname: ]": "without its [",
		"a: {b: 1":                  "expected }",
		"name: \"x":                 "text in quotes is not closed",
		"name: 'x":                  "text in quotes is not closed",
		"name: \"\\q\"":             "no such escape",
		"name: a: b":                "a second colon in one line",
		"name: x\nfoo":              "with a colon",
		"name: @x":                  "put it in quotes",
		"name: x\n  - y":            "",
		"approvers:\n  - a\n - b":   "",
	} {
		_, report := definition.Load(fstest.MapFS{"mesh.yaml": {Data: []byte(text)}})
		if len(report.Errors) == 0 {
			t.Errorf("%q loads", text)
			continue
		}
		said := report.Errors[0].Message
		if !strings.Contains(said, want) {
			t.Errorf("%q: %q, expected %q", text, said, want)
		}
		for _, word := range []string{"token", "sequence", "map ", "mapping value", "scalar", "flow", "specified", "context", "node"} {
			if strings.Contains(said, word) {
				t.Errorf("%q: %q has a word of the library", text, said)
			}
		}
	}
}
