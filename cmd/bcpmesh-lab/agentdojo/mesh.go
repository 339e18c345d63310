package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// The seats of a mesh.
const (
	kernelName  bcp.AgentName = "desk"
	requester   bcp.AgentName = "user"
	plannerName bcp.AgentName = "planner"
	readerName  bcp.AgentName = "processor"
	serviceName bcp.AgentName = "dojo"
)

const (
	// use is the capability of all tools, and the one grant that has it.
	use = "use"
	// amountTool makes a number of its whole part and its hundredths, listTool a list of a text of JSON, which nobody reads.
	amountTool, listTool = "amount_of", "list_of"
)

// plainName is the Controller that has a channel of a category, and the tools in its own hands.
func plainName(category int) bcp.AgentName { return bcp.AgentName(fmt.Sprintf("plain%d", category)) }

// controlBits is how many bits content may steer plans by.
const controlBits = 16

// maxPlans is how often a planner is asked, which is the default.
const maxPlans = 10

// define makes the mesh of a suite: its tools, a kernel with one grant for all of them, and plain Controllers, all with the
// same Reader.
func (s *suite) define() (_ *bcp.Mesh, text string, err error) {
	files := fstest.MapFS{"mesh.yaml": {Data: []byte("name: dojo\nmax_refusals: 6000/m\n")}, "agents/user.md": {Data: []byte("---\nname: user\n---\n")}}
	var failed error
	add := func(name string, front any) {
		content, err := json.Marshal(front, json.Deterministic(true))
		failed = errors.Join(failed, err)
		if strings.HasSuffix(name, ".md") {
			content = slices.Concat([]byte("---\n"), content, []byte("\n---\n"))
		}
		files[name] = &fstest.MapFile{Data: content}
	}
	integer := map[string]any{"type": "integer"}
	tools, rules := []any{map[string]any{
		"name": amountTool, "effect_level": "pure", "required_caps": []string{use},
		"input_schema":  map[string]any{"type": "object", "properties": map[string]any{"whole": integer, "hundredths": integer}},
		"output_schema": map[string]any{"type": "object", "properties": map[string]any{"value": map[string]any{"type": "number"}}},
	}, map[string]any{
		"name": listTool, "effect_level": "pure", "required_caps": []string{use},
		"input_schema":  map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string", "accepts": "sealed"}}},
		"output_schema": map[string]any{"type": "object", "properties": map[string]any{"items": map[string]any{"type": "array", "maxItems": maxElements, "items": map[string]any{"type": "sealed"}}}},
	}}, []any{}
	for i := range s.Tools {
		tool, of, err := s.toolDefinition(&s.Tools[i])
		if err != nil {
			return nil, "", err
		}
		tools = append(tools, tool)
		rules = append(rules, of...)
	}
	schemas := map[string]any{}
	for _, f := range s.formats {
		if f.fits("") {
			schema := map[string]any{"reader": readerName, "category": f.Spec.Category, "allow_not_enough_information": true}
			if f.Spec.Category == 1 {
				schema["fields"] = f.Spec.Fields
			} else {
				schema["questions"] = f.Spec.Questions
			}
			schemas[f.Name] = schema
		}
	}
	channel := func(category int) map[string]any {
		return map[string]any{"peer": readerName, "role": "controller", "max_category": category, "budget_bits": 100_000_000, "window_budget_bits": 0,
			"max_cat2_queries": 1_000_000, "max_escalations": 1000, "on_anomaly": "reject", "preserve_case": true}
	}
	peers := []any{map[string]any{"peer": kernelName, "role": "reader"}}
	for category := 1; category <= 3; category++ {
		peers = append(peers, map[string]any{"peer": plainName(category), "role": "reader"})
		add(fmt.Sprintf("agents/%s.md", plainName(category)), map[string]any{"name": plainName(category), "bcp_channels": []any{channel(category)}})
	}
	add("tools/dojo.yaml", map[string]any{"service": serviceName, "tools": tools})
	add("agents/processor.md", map[string]any{"name": readerName, "bcp_channels": peers})
	add("agents/desk.md", map[string]any{
		"name": kernelName, "bcp_channels": []any{channel(2)},
		"kernel": map[string]any{
			"planner": plannerName, "requesters": map[string]any{"user": []string{use}}, "grants": map[string]any{use: []string{use}}, "schemas": schemas, "rules": rules,
			"control_budget_bits": controlBits,
			"limits":              map[string]any{"max_effects": 64, "max_q_parses": 64, "max_plans": maxPlans},
		},
	})
	if failed != nil {
		return nil, "", failed
	}
	def, report := definition.Load(files)
	if def == nil || len(report.Errors) > 0 {
		return nil, "", fmt.Errorf("the definitions of %s: %v", s.Name, report.Errors)
	}
	for _, name := range sortedKeys(files) {
		text += "== " + name + "\n" + string(files[name].Data) + "\n"
	}
	return def, text, nil
}
