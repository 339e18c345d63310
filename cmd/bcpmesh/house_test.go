package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// room is one figure of the tree, and the most that it may be. Whoever deletes lowers the figure here; a feature that needs
// more is paid for elsewhere. A figure may be passed by a two-hundredth, so that changes that are made side by side, each
// of which ends where it began, do not fail together.
type room struct {
	what string
	most int
	is   func(t *tree) int
}

// outgrown reports whether a figure is too large.
func (r room) outgrown(is int) bool { return is > r.most+r.most/200 }

var house = []room{
	{"lines: bcp", 44280, lines("bcp")},
	{"lines: mesh", 24014, lines("mesh")},
	{"lines: cmd", 19652, lines("cmd/bcpmesh", "cmd/internal")},
	{"lines: agents", 23022, lines("agents")},
	{"lines: jetstream, accounts, subjects", 13495, lines("jetstream", "accounts", "subjects")},
	{"lines: examples", 448, lines("examples")},
	{"lines: all of the root module", 124911, lines("bcp", "mesh", "cmd/bcpmesh", "cmd/internal", "agents", "jetstream", "accounts", "subjects", "examples")},
	{"lines: lab, bridge, .ci", 23869, lines("cmd/bcpmesh-lab", "cmd/bcpmesh-bridge", ".ci")},
	{"lines: all", 148780, lines(".")},
	{"lines of tests", 102941, func(t *tree) int { return t.tests }},
	{"packages", 82, func(t *tree) int { return len(t.packages) }},
	{"commands", 81, func(t *tree) int { return t.commands }},
	{"flags declared", 183, func(t *tree) int { return t.flags }},
	{"words of documents", 59888, func(t *tree) int { return t.words }},
	{"words of help", 12410, func(t *tree) int { return t.help }},
	{"decision records", 25, func(t *tree) int { return t.records }},
}

// tree is what is counted of the whole tree.
type tree struct {
	lines                 map[string]int // without tests, by folder
	packages              map[string]bool
	tests, words, records int
	commands, flags, help int
}

// lines counts those of Go files without tests in folders, with all below them.
func lines(folders ...string) func(*tree) int {
	return func(t *tree) int {
		n := 0
		for folder, count := range t.lines {
			for _, in := range folders {
				if in == "." || folder == in || strings.HasPrefix(folder, in+"/") {
					n += count
				}
			}
		}
		return n
	}
}

// The tree does not grow. `go test ./cmd/bcpmesh -run House -v` prints where it stands.
func TestHouse(t *testing.T) {
	t.Parallel()
	counted := countTree(t, os.DirFS("../.."))
	eachCommand(t, func(cmd *cobra.Command, words []string) {
		counted.commands++
		help, err := os.ReadFile(path.Join("testdata", "help", strings.Join(append([]string{"bcpmesh"}, words...), "-")+".txt"))
		if counted.help += len(bytes.Fields(help)); err != nil && !cmd.DisableFlagParsing {
			t.Error(err)
		}
		cmd.NonInheritedFlags().VisitAll(func(*pflag.Flag) { counted.flags++ })
	})
	table := fmt.Sprintf("%-40s %8s %8s\n", "the house", "is", "at most")
	for _, r := range house {
		is := r.is(counted)
		table += fmt.Sprintf("%-40s %8d %8d\n", r.what, is, r.most)
		failIf(t, r.outgrown(is), "%s: %d, at most %d: delete something, or move it to where it belongs", r.what, is, r.most)
	}
	t.Log("\n" + table)
}

// countTree counts files, without what others wrote and what git does not have.
func countTree(t *testing.T, root fs.FS) *tree {
	t.Helper()
	counted := &tree{lines: map[string]int{}, packages: map[string]bool{}}
	noError(t, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); base == ".git" || base == "testdata" || base == "node_modules" || base == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		isGo, isText := path.Ext(name) == ".go", path.Ext(name) == ".md"
		if !isGo && !isText {
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		switch {
		case isText:
			counted.words += len(bytes.Fields(content))
			if path.Dir(name) == "docs/adr" && path.Base(name) != "README.md" {
				counted.records++
			}
		case strings.HasSuffix(name, "_test.go"):
			counted.tests += bytes.Count(content, []byte("\n"))
		default:
			counted.lines[path.Dir(name)] += bytes.Count(content, []byte("\n"))
			counted.packages[path.Dir(name)] = true
		}
		return nil
	}))
	return counted
}

func TestHouseIsOutgrown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		most, is int
		want     bool
	}{{200, 0, false}, {200, 200, false}, {200, 201, false}, {200, 202, true}, {199, 199, false}, {199, 200, true}, {0, 1, true}} {
		expect(t, (room{most: test.most}).outgrown(test.is), test.want, "%d of at most %d: outgrown", test.is, test.most)
	}
}
