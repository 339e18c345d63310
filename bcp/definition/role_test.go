package definition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// cast is a folder in which each role is played.
func cast() map[string][]byte {
	return files(
		"mesh.yaml", "organisation: org1.example\n",
		"agents/desk.md", `---
name: desk
execution: {role: orchestrator, type: deterministic_interpreter}
bcp_channels: [{peer: reader, role: controller, max_category: 1, budget_bits: 100}]
kernel:
  planner: ann
  requesters: {kim: [look]}
  grants: {look: [mail.read]}
  schemas: {Mood: {reader: reader, category: 1, fields: [{name: angry, type: boolean}]}}
---
`,
		"agents/ann.md", "---\nname: ann\nexecution: {role: planner, model_family: claude-sonnet, contract: planner-v1}\n---\n",
		"agents/kim.md", "---\nname: kim\n---\n",
		"agents/reader.md", "---\nname: reader\nexecution: {role: processor}\nbcp_channels: [{peer: desk, role: reader}]\n---\n",
		"tools/mail.yaml", `service: mail
tools:
  - {name: read_inbox, effect_level: read, required_caps: [mail.read], input_schema: {type: object}, output_schema: {type: object, properties: {body: {type: string}}}}
`)
}

// edit changes a file of a folder.
func edit(file, old, by string) func(map[string][]byte) {
	return func(f map[string][]byte) {
		before := string(f[file])
		if !strings.Contains(before, old) {
			panic(file + " has no " + old)
		}
		f[file] = []byte(strings.Replace(before, old, by, 1))
	}
}

// A mesh says which agents play which roles, whose it is, and which contracts they keep.
//
// covers DUAL-3, DUAL-5, DUAL-76, DUAL-85
func TestRolesInDefinitions(t *testing.T) {
	t.Parallel()
	folder := cast()
	own := strings.Replace(contractOf(t, "planner-v1"), "inv-1", "inv-one", 1)
	folder["contracts/planner-strict.json"] = []byte(own)
	edit("agents/ann.md", "planner-v1", "planner-strict")(folder)
	// Each role has a model of its own, which may be a cheaper or a local one.
	for file, model := range map[string]string{"agents/ann.md": "openai/large", "agents/reader.md": "ollama/small"} {
		edit(file, "execution:", "model: "+model+"\nexecution:")(folder)
	}
	m, report := definition.Parse(folder)
	stopIf(t, m == nil || len(report.Warnings) > 0, "%v %v", report.Errors, report.Warnings)
	failIf(t, m.Organisation != "org1.example" || len(m.Contracts) != 1 || string(m.Contracts[0].Bytes) != own,
		"%s, contracts %v", m.Organisation, m.Contracts)
	for name, want := range map[bcp.AgentName]bcp.Execution{
		"ann":    {Role: "planner", ModelFamily: "claude-sonnet", Contract: "planner-strict"},
		"desk":   {Role: "orchestrator", Type: "deterministic_interpreter", Contract: "orchestrator-v1"},
		"kim":    {},
		"reader": {Role: "processor", Contract: "processor-v1"},
	} {
		a, _ := m.Agent(name)
		failIf(t, a.Execution != want, "%s: %+v", name, a.Execution)
	}
	ann, _ := m.Agent("ann")
	reader, _ := m.Agent("reader")
	failIf(t, ann.Model != "openai/large" || reader.Model != "ollama/small", "models %s and %s", ann.Model, reader.Model)
	contracts := definition.Contracts(m)
	failIf(t, len(contracts) != 4 || contracts["planner-strict"].Invariants[0].ID != "inv-one", "%v", contracts)
	failIf(t, !slices.ContainsFunc(m.Files, func(f bcp.File) bool { return f.Path == "contracts/planner-strict.json" }),
		"the digest is of %v", m.Files)
}

func contractOf(t *testing.T, name string) string {
	t.Helper()
	for _, c := range contract.Builtins() {
		if c.Name == name {
			return c.Bytes
		}
	}
	t.Fatalf("no contract %s", name)
	return ""
}

// Of a contract that is as wrong as fits into a file, something is said.
func TestContractFullOfMistakes(t *testing.T) {
	t.Parallel()
	one := `{"z":1`
	for i := range 250 {
		one += fmt.Sprintf(`,"%x":1`, i)
	}
	folder := cast()
	folder["contracts/x.json"] = []byte(`{"contract:invariants":[` + strings.Repeat(one+"},", 30) + one + "}]}")
	const want = "error contracts/x.json:1:1: contract:version: the key is missing"
	got, _ := said(t, folder)
	failIf(t, !strings.Contains(got, want), "%.1000s", got)
}
