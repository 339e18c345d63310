package define

import (
	"path"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/sarif"
)

// buildSARIF is what check found, for code scanning: a code is a rule, an error an error, a
// warning a warning, and advice a note. Folder is the path of the mesh from the root of
// the repository, with slashes.
func buildSARIF(folder string, result checkResult) ([]byte, error) {
	var rules []sarif.Rule
	for _, code := range definition.Codes() {
		level := sarif.Warning
		switch {
		case code.Error:
			level = sarif.Error
		case definition.Problem{Code: code.Code}.Advice():
			level = sarif.Note
		}
		rules = append(rules, sarif.Rule{ID: code.Code, Short: code.Doc, Help: code.Doc + " docs/definitions.md of bcpmesh has every key with its values.", Level: level})
	}
	var findings []sarif.Finding
	add := func(level sarif.Level, problems []definition.Problem) {
		for _, p := range problems {
			f := sarif.Finding{Rule: p.Code, Level: level, Text: p.Message, File: path.Join(folder, p.File), Line: p.Line, Column: p.Column}
			if level == sarif.Warning && p.Advice() {
				f.Level = sarif.Note
			}
			if p.Key != "" {
				f.Text = p.Key + ": " + p.Message
			}
			if p.File == "." { // the folder as a whole
				f.File, f.Line, f.Column = path.Join(folder, "mesh.yaml"), 0, 0
			}
			findings = append(findings, f)
		}
	}
	add(sarif.Error, result.Errors)
	add(sarif.Warning, result.Warnings)
	return sarif.Write("bcpmesh check", cli.ProgramVersion(), rules, findings)
}
