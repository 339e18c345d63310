package simulate

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// caseExamples are the examples of a rule, both ways.
type caseExamples struct {
	Yes []jsontext.Value `json:"yes"`
	No  []jsontext.Value `json:"no"`
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
		var err error
		if examples[i], err = kernel.ParseExample(raw[i]); err != nil {
			return nil, fmt.Errorf("examples: %w", err)
		}
	}
	return examples, nil
}
