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

// What mixes roles is refused, with its place; planner and processor that are one program
// are warned of.
//
// covers DUAL-1, DUAL-3, DUAL-35, DUAL-77
func TestRolesAreRefused(t *testing.T) {
	t.Parallel()
	const command = "command: [python3, think.py]\nsandbox: own\n"
	for name, c := range map[string]struct {
		change func(map[string][]byte)
		want   string // file:line:column: key: part of the message
		code   string
	}{
		"a planner that says it reads": {edit("agents/ann.md", "role: planner, model_family: claude-sonnet, contract: planner-v1", "role: processor"),
			"agents/ann.md:3:12: execution: ann has two roles, processor, planner", definition.CodeRole},
		"a Reader that says it plans": {edit("agents/reader.md", "processor", "planner"), "agents/reader.md:3:12: execution: reader has two roles, processor, planner", definition.CodeRole},
		"a planner of no kernel with a channel": {func(f map[string][]byte) {
			edit("agents/desk.md", "  planner: ann\n", "  planner: elsewhere\n")(f)
			edit("agents/desk.md", "budget_bits: 100}]", "budget_bits: 100}, {peer: ann, role: controller, max_category: 1, budget_bits: 10}]")(f)
			edit("agents/ann.md", "---\nname: ann\n", "---\nname: ann\nbcp_channels: [{peer: desk, role: reader}]\n")(f)
		}, "agents/ann.md:4:12: execution: a planner has no channel", definition.CodeRole},
		"a planner with tools": {edit("agents/ann.md", "name: ann\n", "name: ann\ntools: [Search]\n"), "agents/ann.md:4:12: execution: a planner has no tools, and this one has Search", definition.CodeRole},
		"a processor with tools": {edit("agents/reader.md", "name: reader\n", "name: reader\ntools: [BCPRespond, mcp__bcp__BCPQueries, Mailbox]\n"),
			"agents/reader.md:4:12: execution: a processor has no tools but BCPQueries, BCPRespond and the like, and this one has Mailbox", definition.CodeRole},
		"a processor that says nothing, with hosts": {func(f map[string][]byte) {
			edit("agents/reader.md", "execution: {role: processor}", "network: [example.com]")(f)
		}, "agents/reader.md:2:7: name: a processor has no tools", definition.CodeRole},
		"a processor with the protocol's tools": {edit("agents/reader.md", "name: reader\n", "name: reader\ntools: [BCPRespond, mcp__bcp__BCPQueries]\n"), "", ""},
		"an orchestrator without a kernel":      {edit("agents/kim.md", "name: kim\n", "name: kim\nexecution: {role: orchestrator, type: deterministic_interpreter}\n"), "agents/kim.md:3:12: execution: an orchestrator is a kernel", definition.CodeRole},
		"an orchestrator without a type":        {edit("agents/desk.md", ", type: deterministic_interpreter", ""), "agents/desk.md:3:12: execution.type: an orchestrator needs this key", definition.CodeRole},
		"an orchestrator that is a model":       {edit("agents/desk.md", "deterministic_interpreter", "llm"), `agents/desk.md:3:39: execution.type: expected one of`, definition.CodeUnknownWord},
		"a role that is none":                   {edit("agents/kim.md", "name: kim\n", "name: kim\nexecution: {role: tool}\n"), "agents/kim.md:3:19: execution.role: expected one of", definition.CodeUnknownWord},
		"a contract that is not there":          {edit("agents/ann.md", "planner-v1", "planner-v2"), `agents/ann.md:3:67: execution.contract: there is no contract "planner-v2"; did you mean "planner-v1"?: write it to contracts/planner-v2.json`, definition.CodeContract},
		"another role's contract":               {edit("agents/ann.md", "planner-v1", "processor-v1"), `agents/ann.md:3:67: execution.contract: the contract "processor-v1" is of another role`, definition.CodeContract},
		"a file that shadows a built-in one": {func(f map[string][]byte) { f["contracts/planner-v1.json"] = []byte(contractOf(t, "planner-v1")) },
			"contracts/planner-v1.json:1:1: there is a built-in contract of this name", definition.CodeContract},
		"a file that is no contract": {func(f map[string][]byte) {
			f["contracts/x.json"] = []byte(strings.Replace(contractOf(t, "planner-v1"), `"architectural"`, `"best_effort"`, 1))
		}, "contracts/x.json:15:16: contract:invariants[1].enforcement: enforcement is architectural,", definition.CodeContract},
		"a contract with a key that none has": {func(f map[string][]byte) {
			f["contracts/x.json"] = []byte(strings.Replace(contractOf(t, "planner-v1"), `"architectural"`, `"architectural", "x": 1`, 1))
		}, "contracts/x.json:15:38: contract:invariants[1]: a contract has no such key", definition.CodeContract},
		"as much wrong as fits into a file": {func(f map[string][]byte) {
			one := `{"z":1`
			for i := range 250 {
				one += fmt.Sprintf(`,"%x":1`, i)
			}
			f["contracts/x.json"] = []byte(`{"contract:invariants":[` + strings.Repeat(one+"},", 30) + one + "}]}")
		}, "contracts/x.json:1:1: contract:version: the key is missing", definition.CodeContract},
		"a file whose name is no name": {func(f map[string][]byte) { f["contracts/a b.json"] = []byte(contractOf(t, "planner-v1")) },
			"contracts/a b.json:1:1: expected a file name", definition.CodeContract},
		"an organisation in capitals": {edit("mesh.yaml", "org1", "Org1"), "mesh.yaml:1:15: organisation: expected text that is the name of an organisation", definition.CodeBadValue},
		"one program": {func(f map[string][]byte) {
			edit("agents/ann.md", "name: ann\n", "name: ann\n"+command)(f)
			edit("agents/reader.md", "name: reader\n", "name: reader\n"+command)(f)
		}, "agents/ann.md:5:12: execution: reader, a processor, is started by the same command", definition.CodeOneProgram},
		"a type of a planner": {edit("agents/ann.md", "model_family: claude-sonnet", "type: deterministic_interpreter"), "agents/ann.md:3:12: execution: no effect: type is of an orchestrator", definition.CodeNoEffect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := cast()
			c.change(folder)
			m, report := definition.Parse(folder)
			problems := slices.Concat(report.Errors, report.Warnings)
			if c.want == "" {
				failIf(t, m == nil || len(problems) > 0, "%v", problems)
				return
			}
			if warned := c.code == definition.CodeOneProgram || c.code == definition.CodeNoEffect; warned != (m != nil) {
				t.Errorf("loads: %t", m != nil)
			}
			if !slices.ContainsFunc(problems, func(p definition.Problem) bool {
				return p.Code == c.code && strings.HasPrefix(p.String(), c.want)
			}) {
				t.Errorf("expected %s, got %q", c.want, problems)
			}
		})
	}
}
