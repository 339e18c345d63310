package definition_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

var update = flag.Bool("update", false, "write the generated files in docs")

// generated are the files in docs that are made of the table.
func generated() map[string]string {
	return map[string]string{
		"definitions.md":    definition.Markdown(),
		"mesh.schema.json":  jsonSchema(definition.LevelMesh),
		"agent.schema.json": jsonSchema(definition.LevelAgent),
		"tools.schema.json": jsonSchema(definition.LevelService),
	}
}

func jsonSchema(level *definition.Level) string { return string(must(definition.JSONSchema(level))) }

// What docs says is what is loaded: `go test ./bcp/definition -update` writes
// the files anew.
//
// covers P1.3
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	for name, want := range generated() {
		file := filepath.Join("..", "..", "docs", name)
		if *update {
			noError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		diff := cmp.Diff(want, readFile(file))
		failIf(t, diff != "", "%s is stale; -update writes it (-want +got):\n%s", name, diff)
	}
}

var (
	links    = regexp.MustCompile(`\]\(([^)]*)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// Every link of the reference leads somewhere.
func TestMarkdownLinks(t *testing.T) {
	t.Parallel()
	text := definition.Markdown()
	anchors := map[string]bool{}
	for _, m := range headings.FindAllStringSubmatch(text, -1) {
		anchors["#"+strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	for _, m := range links.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "#") {
			failIf(t, !anchors[m[1]], "no heading for %s", m[1])
		} else if _, err := os.Stat(filepath.Join("..", "..", "docs", m[1])); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}

var exampleFile = regexp.MustCompile("(?m)^`([a-z]+(?:/[a-z]+)?\\.(?:yaml|md))`:\n\n```[a-z]+\n(?s:(.*?))\n```$")

// examplesIn returns the folder that the reference shows, and the one with every key that it names.
func examplesIn(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	small := map[string][]byte{}
	for _, m := range exampleFile.FindAllStringSubmatch(definition.Markdown(), -1) {
		small[m[1]] = []byte(m[2] + "\n")
	}
	return map[string]map[string][]byte{"The smallest mesh": small, "Everything in one mesh": folderIn(t, "testdata/everything")}
}

// The examples of the reference load: the smallest without a warning, the full
// one with every key.
//
// covers P1.2, P1.3
func TestReferenceExamplesLoad(t *testing.T) {
	t.Parallel()
	examples := examplesIn(t)
	small, full := examples["The smallest mesh"], examples["Everything in one mesh"]
	mesh, report := definition.Parse(small)
	failIf(t, mesh == nil || len(mesh.Channels) != 1 || len(report.Warnings) != 0,
		"the smallest: errors %v, warnings %v", report.Errors, report.Warnings)
	mesh, report = definition.Parse(full)
	stopIf(t, mesh == nil || len(mesh.Channels) != 4 || len(mesh.Channels[0].Subscriptions)+len(mesh.Channels[1].Subscriptions)+len(mesh.Channels[2].Subscriptions) != 4,
		"the full one: errors %v", report.Errors)
	for _, w := range report.Warnings {
		failIf(t, !slices.Contains([]string{definition.CodeCategory3, definition.CodeCapacity, definition.CodeCommandUser, bcp.FindingTrifecta}, w.Code),
			"the full one: %s (%s)", w, w.Code)
	}
	var text strings.Builder
	for _, content := range full {
		text.Write(content)
	}
	for _, k := range definition.Schema() {
		failIf(t, !regexp.MustCompile(`(?m)^[ -]*(# or )?`+k.Name+`:`).MatchString(text.String()),
			"%s of %s: not in the full example", k.Name, k.Level)
	}
}
