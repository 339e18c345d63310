package definition_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// No input panics, every error has a place, and a mesh comes without errors
// only. The same bytes always give the same answer.
//
// covers P1.2
func FuzzParse(f *testing.F) {
	for _, name := range []string{"main", "researcher"} {
		content := readFile("testdata/seed/agents/" + name + ".md")
		f.Add("approvers: [ann]\nvocabularies: {x: [a]}\n", content)
	}
	for _, seed := range []string{
		"a: [", "a: {b: c", "? a", "- - -", "&a *a", "!!t", "\"\\x", "|\n x", ">-\n\n", "a:\n\tb", "%Y", "...", "{{{", "]]]", ": :", "<<: a", "'", "#", "a: b: c", "\r", "[[]]: x", "- a: - b",
	} {
		f.Add(seed, "---\n"+seed+"\n---\n"+seed)
	}
	f.Fuzz(func(t *testing.T, mesh, agent string) {
		contents := files("mesh.yaml", mesh, "agents/a.md", agent, "agents/r.md", "---\nname: r\nbcp_channels: [{peer: main, role: reader}]\n---\n")
		parsed, report := definition.Parse(contents)
		stopIf(t, (parsed == nil) == (len(report.Errors) == 0), "mesh %v with errors %v", parsed != nil, report.Errors)
		for _, p := range append(report.Errors, report.Warnings...) {
			failIf(t, p.File == "" || p.Line < 1 || p.Column < 1 || p.Code == "" || p.Message == "", "%+v", p)
		}
		again, second := definition.Parse(contents)
		diff := cmp.Diff(report, second)
		failIf(t, diff != "", "%v", diff)
		failIf(t, parsed != nil && definition.Digest(parsed) != definition.Digest(again), "two digests of the same files")
	})
}
