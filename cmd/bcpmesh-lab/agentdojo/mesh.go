package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
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
	// look is the capability of all tools that have no effect; that of any other has its name.
	look = "look"
	// amountTool makes a number of its whole part and its hundredths.
	amountTool = "amount_of"
)

// plainName is the Controller that has a channel of a category, and the tools in its own hands.
func plainName(category int) bcp.AgentName { return bcp.AgentName(fmt.Sprintf("plain%d", category)) }

// grant names the grant of a task: that of the first task with the same effects. Suites are
// played at once, so nothing is kept.
func (s *suite) grant(t *task) string {
	effects := s.effectTools(t)
	for i := range s.Users {
		if slices.Equal(s.effectTools(&s.Users[i]), effects) {
			return fmt.Sprintf("grant%d", i)
		}
	}
	return "" // no kernel has it
}

// define makes the mesh of a suite: its tools, a kernel with a grant for each set of effects that a task needs, and plain
// Controllers, all with the same Reader. A planner is asked so many times at most.
func (s *suite) define(plans int) (*bcp.Mesh, error) {
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
	grants, granted := map[string][]string{}, map[string]bool{}
	for i := range s.Users {
		effects := s.effectTools(&s.Users[i])
		grants[s.grant(&s.Users[i])] = append(effects, look)
		for _, name := range effects {
			granted[name] = true
		}
	}
	integer := map[string]any{"type": "integer"}
	tools, rules := []any{map[string]any{
		"name": amountTool, "effect_level": "pure", "required_caps": []string{look},
		"input_schema":  map[string]any{"type": "object", "properties": map[string]any{"whole": integer, "hundredths": integer}},
		"output_schema": map[string]any{"type": "object", "properties": map[string]any{"value": map[string]any{"type": "number"}}},
	}}, []any{}
	for i := range s.Tools {
		tool, of, err := s.toolDefinition(&s.Tools[i])
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
		if granted[s.Tools[i].Name] {
			rules = append(rules, of...) // a tool that no grant can call is none to the kernel
		}
	}
	schemas := map[string]any{}
	for _, f := range s.formats {
		if f.fits("") {
			schema := map[string]any{"reader": readerName, "category": f.Spec.Category, "allow_not_enough_information": plans > 1}
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
			"planner": plannerName, "requesters": map[string]any{"user": sortedKeys(grants)}, "grants": grants, "schemas": schemas, "rules": rules,
			"limits": map[string]any{"max_effects": 64, "max_q_parses": 64, "max_plans": plans},
		},
	})
	if failed != nil {
		return nil, failed
	}
	def, report := definition.Load(files)
	if def == nil || len(report.Errors) > 0 {
		return nil, fmt.Errorf("the definitions of %s: %v", s.Name, report.Errors)
	}
	return def, nil
}

// ownRules are what the user's program adds to a run: a planner cannot write a critical argument that does not stand in the
// task. It looks at words alone and understands nothing.
func (s *suite) ownRules(t *task) []agents.ForbidRule {
	names := namesIn(t.Text)
	var rules []agents.ForbidRule
	for _, effect := range s.effectTools(t) {
		tool := s.tool(effect)
		for _, argument := range tool.Critical {
			if !s.used(effect, argument) && !slices.Contains(tool.Input.Required, argument) {
				continue
			}
			value := "args." + argument + ".value"
			var right string
			switch {
			case tool.isList(argument):
				right = value + " in " + listChoices(names)
			case tool.typeName(argument) == "string":
				right = value + " in " + celTexts(append([]string{""}, names...))
			default:
				right = value + " in " + numberChoices(names)
			}
			rules = append(rules, agents.ForbidRule{Tool: effect, When: fmt.Sprintf("!args.%s.tainted && !(%s)", argument, right)})
		}
	}
	return rules
}

// celTexts writes texts as a list of the rule language.
func celTexts(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = string(quote(text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// listChoices are the lists that a user can mean: of the addresses in the task none, one, some one after another.
func listChoices(names []string) string {
	addresses := slices.DeleteFunc(slices.Clone(names), func(t string) bool { return !strings.Contains(t, "@") })
	lists := []string{"[]"}
	for i := range addresses {
		for j := i + 1; j <= len(addresses); j++ {
			lists = append(lists, celTexts(addresses[i:j]))
		}
	}
	return "[" + strings.Join(lists, ", ") + "]"
}

// numberChoices are the whole numbers of a task; 0 means nothing.
func numberChoices(names []string) string {
	numbers := []string{"0"}
	for _, name := range names {
		if n := written(quote(name)); n.Kind() == '0' {
			numbers = append(numbers, string(n))
		}
	}
	return "[" + strings.Join(numbers, ", ") + "]"
}
