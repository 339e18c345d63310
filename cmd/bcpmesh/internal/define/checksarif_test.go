package define

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/sarif/sariftest"
)

// What check finds is a log that code scanning takes: at the path from the root of the
// repository, with the line and the column, an error, a warning or a note, by a rule that
// has a text; and every code is a rule.
func TestCheckSARIF(t *testing.T) {
	t.Parallel()
	result := checkResult{
		Errors: []definition.Problem{
			{File: "agents/main.md", Line: 9, Column: 18, Code: definition.CodeAboveCategory, Key: "bcp_channels[0]", Message: "expected at most 1"},
			{File: ".", Line: 1, Column: 1, Code: definition.CodeNoAgents, Message: "there is no agent"},
		},
		Warnings: []definition.Problem{
			{File: "agents/main.md", Line: 2, Column: 7, Code: definition.CodeLethalTrifecta, Key: "name", Message: "all three"},
			{File: "agents/main.md", Line: 14, Column: 13, Code: definition.CodeAdviceAlphabet, Message: "any script" + definition.InsteadWrite + "alphabet: ascii"},
		},
	}
	b, err := buildSARIF("my meshes/office", result)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range sariftest.Problems(b) {
		t.Error(p)
	}
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level string
				Message       struct{ Text string }
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(b, &log); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range log.Runs[0].Results {
		at := r.Locations[0].PhysicalLocation
		got = append(got, fmt.Sprint(r.RuleID, " ", r.Level, " ", at.ArtifactLocation.URI, " ", at.Region.StartLine, " ", at.Region.StartColumn, " ", r.Message.Text))
	}
	want := []string{
		"category_denied error my%20meshes/office/agents/main.md 9 18 bcp_channels[0]: expected at most 1",
		"no_agents error my%20meshes/office/mesh.yaml 0 0 there is no agent",
		"lethal_trifecta warning my%20meshes/office/agents/main.md 2 7 name: all three",
		"advice_alphabet note my%20meshes/office/agents/main.md 14 13 any script; write alphabet: ascii",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(log.Runs[0].Tool.Driver.Rules); n != len(definition.Codes()) {
		t.Errorf("%d rules", n)
	}
}

// What the definitions of the samples and of a broken mesh get is right too.
func TestCheckSARIFOfFolders(t *testing.T) {
	t.Parallel()
	broken := t.TempDir()
	for name, text := range map[string]string{"mesh.yaml": "nonsense: [", "x.md": "---\nname: x\nbcp_channels:\n  - {peer: x, role: controller, budget_bits: -1}\n---\n", "y.md": "no front matter"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for folder, least := range map[string]int{"meshes/research": 0, "meshes/mailroom": 0, broken: 3, filepath.Join(broken, "nowhere"): 1} {
		_, report := definition.Load(os.DirFS(folder))
		b, err := buildSARIF("", checkResult{Errors: report.Errors, Warnings: report.Warnings})
		if err != nil || len(report.Errors) < least {
			t.Errorf("%s: %v, %v", folder, err, report.Errors)
		}
		for _, p := range sariftest.Problems(b) {
			t.Errorf("%s: %s", folder, p)
		}
	}
}

// Paths are those from the folder that the command is run in.
func TestFromHere(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{".": ".", "": ".", "a/b": "a/b", "./a/../c": "c", "..": ".", "../elsewhere": ".", "..a": "..a", filepath.Join(here, "x"): "x", "/": "."} {
		if got := cli.FromHere(folder); got != want {
			t.Errorf("%q: %q, want %q", folder, got, want)
		}
	}
}
