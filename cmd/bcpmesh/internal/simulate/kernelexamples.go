package simulate

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// caseExamples are the examples of a rule, both ways.
type caseExamples struct {
	Yes []jsontext.Value `json:"yes"`
	No  []jsontext.Value `json:"no"`
}

// caseExample is a call as a rule sees it. The arguments may stand alone.
type caseExample struct {
	Args      map[string]jsontext.Value `json:"args"`
	Requester caseRequester             `json:"requester"`
	Run       caseRun                   `json:"run"`
	Grant     []kernel.Capability       `json:"grant"`
}

var errExamples = errors.New("examples: expected {yes: […], no: […]}, by the id of the rule or in the rule itself")

// setExamples gives the rules of a definition their examples. Where a case has any,
// every rule needs some.
func (in *kernelInput) setExamples(d *kernel.Definition) error {
	byRule, err := in.examplesByRule()
	if err != nil {
		return err
	}
	for i := range d.Rules {
		r := &d.Rules[i]
		examples, given := byRule[r.ID]
		if !given && in.Rules[i].Examples == nil {
			continue
		}
		d.UntestedRules = false
		if in.Rules[i].Examples != nil {
			if examples, err = parseExamples(in.Rules[i].Examples); err != nil {
				return err
			}
		}
		if r.Yes, err = parseCalls(examples.Yes); err != nil {
			return err
		}
		if r.No, err = parseCalls(examples.No); err != nil {
			return err
		}
	}
	return nil
}

// examplesByRule reads the examples of the case, by rule. Examples without a rule are
// about all of them.
func (in *kernelInput) examplesByRule() (map[string]caseExamples, error) {
	byRule := map[string]caseExamples{}
	if in.Examples == nil {
		return byRule, nil
	}
	var named map[string]jsontext.Value
	if json.Unmarshal(in.Examples, &named) != nil {
		return nil, errExamples
	}
	if named["yes"] != nil || named["no"] != nil {
		examples, err := parseExamples(in.Examples)
		for i := range in.Rules {
			byRule[in.Rules[i].ID] = examples
		}
		return byRule, err
	}
	for id, raw := range named {
		examples, err := parseExamples(raw)
		if err != nil {
			return nil, err
		}
		byRule[id] = examples
	}
	return byRule, nil
}

func parseExamples(raw jsontext.Value) (caseExamples, error) {
	var e caseExamples
	if json.Unmarshal(raw, &e, json.RejectUnknownMembers(true)) != nil {
		return e, errExamples
	}
	return e, nil
}

func parseCalls(raw []jsontext.Value) ([]kernel.Example, error) {
	examples := make([]kernel.Example, len(raw))
	for i := range raw {
		var e caseExample
		if json.Unmarshal(raw[i], &e, json.RejectUnknownMembers(true)) != nil {
			e = caseExample{}
			if json.Unmarshal(raw[i], &e.Args) != nil {
				return nil, errExamples
			}
		}
		example := kernel.Example{
			Requester: kernel.Requester(e.Requester), Depth: e.Run.Depth, Grant: kernel.NewGrant(append(e.Grant, e.Run.Grant...)...),
			Arguments: map[string]kernel.ExampleArgument{},
		}
		for name, arg := range e.Args {
			a, err := parseExampleArgument(arg)
			if err != nil {
				return nil, fmt.Errorf("examples: %s: %w", cli.Plain(name), err)
			}
			example.Arguments[name] = a
		}
		examples[i] = example
	}
	return examples, nil
}

// parseExampleArgument reads {value, label}, {value, tainted, third_party,
// influence}, or a value alone, which is the requester's.
func parseExampleArgument(raw jsontext.Value) (kernel.ExampleArgument, error) {
	var a struct {
		Value      jsontext.Value `json:"value"`
		Label      jsontext.Value `json:"label"`
		Tainted    bool           `json:"tainted"`
		ThirdParty bool           `json:"third_party"`
		Influence  jsontext.Value `json:"influence"`
	}
	out := kernel.ExampleArgument{Label: kernel.Trusted()}
	if raw.Kind() != '{' || json.Unmarshal(raw, &a, json.RejectUnknownMembers(true)) != nil {
		a.Value = raw
	}
	if a.Tainted {
		out.Label.Sources |= kernel.ToolRead
		out.Label.Readers = kernel.Only()
	}
	if a.ThirdParty {
		out.Label.Subjects |= kernel.ThirdParty
	}
	if a.Influence != nil {
		label, err := kernel.ParseLabel([]byte(`{"influence":{"example":` + string(a.Influence) + `}}`))
		if err != nil {
			return out, err
		}
		out.Label.Influence = label.Influence
	}
	if a.Label != nil {
		label, err := kernel.ParseLabel(a.Label)
		if err != nil {
			return out, err
		}
		out.Label = label
	}
	if a.Value != nil {
		value, err := kernel.ParseValue(a.Value)
		if err != nil {
			return out, err
		}
		out.Value = &value
	}
	return out, nil
}
