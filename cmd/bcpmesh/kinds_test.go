package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	sentences "github.com/bcpmesh/bcpmesh/bcp/tell"
)

// maxKindFiles is how many files besides tests one more kind of decision touches.
const maxKindFiles = 10

// A kind of decision is in few places: the youngest two show what another one would touch.
func TestKindIsInFewFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"KindHand", "KindEndorse"} {
		names, touched := regexp.MustCompile(`\b`+name+`\b`), []string{"docs/audit-format.md"}
		root := filepath.Join("..", "..")
		noError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if names.Match(content) {
				touched = append(touched, strings.TrimPrefix(filepath.ToSlash(path), "../../"))
			}
			return err
		}))
		if len(touched) < 4 || len(touched) > maxKindFiles {
			t.Errorf("%s is in %d files, and may be in %d: give what they know of it a row in bcp/kind.go, package state, or mesh/gateway/kinds.go\n%s",
				name, len(touched), maxKindFiles, strings.Join(touched, "\n"))
		}
	}
}

// Every kind of decision has its word, a sentence, an explanation, and its place in the
// documented list. What releases it is looked at in mesh/gateway, and its metric in
// mesh/telemetry.
//
// covers P11.1
func TestKindIsToldEverywhere(t *testing.T) {
	t.Parallel()
	page := must(os.ReadFile(filepath.Join("..", "..", "docs", "audit-format.md")))(t)
	list := regexp.MustCompile(`(?m)^Kinds: (.*?)\.`).FindSubmatch(page)
	var words []string
	for _, kind := range bcp.DecisionKinds() {
		d := bcp.Decision{Seq: 1, Time: 1, Kind: kind, Agent: "main", Verdict: bcp.Accept}
		words = append(words, kind.String())
		failIf(t, sentences.Sentence(&d) == "" || sentences.Explain(&d, nil).Decided == "",
			"%s is told as %q, and explained as %q", kind, sentences.Sentence(&d), sentences.Explain(&d, nil).Decided)
	}
	failIf(t, list == nil || string(list[1]) != strings.Join(words, ", "),
		"docs/audit-format.md lists %q, and the kinds are %q", list, words)
}
