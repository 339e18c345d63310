package definition_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// A declaration says what the definitions say of a kernel, and there is none where they
// leave something open.
//
// covers DUAL-85, DUAL-86, DUAL-87, DUAL-88, DUAL-89
func TestDeclaration(t *testing.T) {
	t.Parallel()
	const family = "role: processor, model_family: claude-haiku"
	another := func(folder map[string][]byte) {
		edit("agents/desk.md", "schemas: {", "schemas: {Tone: {reader: other, category: 1, fields: [{name: calm, type: boolean}]}, ")(folder)
		edit("agents/desk.md", "bcp_channels: [", "bcp_channels: [{peer: other, role: controller, max_category: 1, budget_bits: 100}, ")(folder)
		folder["agents/other.md"] = []byte("---\nname: other\nexecution: {" + family + "}\nbcp_channels: [{peer: desk, role: reader}]\n---\n")
	}
	sub := func(family string) func(map[string][]byte) {
		return func(folder map[string][]byte) {
			edit("agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: paul")(folder)
			folder["agents/paul.md"] = []byte("---\nname: paul\nexecution: {role: processor" + family + "}\n---\n")
		}
	}
	for name, c := range map[string]struct {
		of     bcp.AgentName
		change func(map[string][]byte)
		want   string // in the error; empty: there is a declaration
	}{
		"a kernel":                     {"desk", nil, ""},
		"a kernel that names no role":  {"desk", edit("agents/desk.md", "execution: {role: orchestrator, type: deterministic_interpreter}\n", ""), ""},
		"two processors that are one":  {"desk", another, ""},
		"a planner without a model":    {"desk", edit("agents/ann.md", ", model_family: claude-sonnet", ""), "the definition of ann does not say execution.model_family"},
		"a processor without a model":  {"desk", edit("agents/reader.md", ", model_family: claude-haiku", ""), "the definition of reader does not say execution.model_family"},
		"two processors that are none": {"desk", func(f map[string][]byte) { another(f); edit("agents/other.md", "haiku", "opus")(f) }, "a declaration has one processor"},
		"a sub-planner":                {"desk", sub(", model_family: claude-haiku"), ""},
		"a sub-planner of another":     {"desk", sub(", model_family: claude-opus"), "a declaration has one processor"},
		"a sub-planner without":        {"desk", sub(""), "the definition of paul does not say execution.model_family"},
		"a planner":                    {"ann", nil, "ann is no kernel"},
		"nobody":                       {"eve", nil, "eve is no kernel"},
	} {
		folder := cast()
		edit("agents/reader.md", "role: processor", family)(folder)
		if c.change != nil {
			c.change(folder)
		}
		m, report := definition.Parse(folder)
		stopIf(t, m == nil, "%s: %v", name, report.Errors)
		d, err := definition.Declaration(m, c.of)
		if c.want != "" {
			failIf(t, err == nil || !strings.Contains(err.Error(), c.want), "%s: %v, want %q", name, err, c.want)
			continue
		}
		failIf(t, err != nil || d.Agent.String() != "desk@org1.example" || d.Planner.Is != "claude-sonnet" || d.Processor.Is != "claude-haiku",
			"%s: %+v, %v", name, d, err)
		if _, err := contract.WriteDeclaration(&d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := range m.Agents { // whoever made these definitions, nobody checked them
			m.Agents[i].Execution.Contract = "lost"
		}
		d = must(definition.Declaration(m, c.of))
		_, err = contract.WriteDeclaration(&d)
		failIf(t, err == nil, "%s: contracts that are not there are declared", name)
	}
}
