package kernel

import (
	"errors"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// checkOwn refuses forbid rules of a requester that are about no tool, that take too
// long to compile, or that cannot be compiled, and says at which place.
func (k *Kernel) checkOwn(rules []RunRule, g Grant) (Code, *RulePlace) {
	pairs := 0
	for i := range rules {
		if rules[i].Tool != AnyTool && k.tools[rules[i].Tool] == nil {
			return BadRule, &RulePlace{Rule: i + 1}
		}
		pairs += len(k.ruleTools(rules[i].Tool, g))
	}
	if pairs > maxRunRuleTools {
		return TooLarge, nil
	}
	if _, wrong := k.compileOwn(rules, g); wrong != nil {
		return BadRule, wrong
	}
	return "", nil
}

// ruleTools returns the names of the tools that a rule is about, of those that the grant
// allows to call.
func (k *Kernel) ruleTools(tool string, g Grant) []string {
	var names []string
	for _, name := range k.names {
		if (tool == AnyTool || tool == name) && k.tool(name, g) != nil {
			names = append(names, name)
		}
	}
	return names
}

// compileOwn compiles the forbid rules of a requester for the tools that they are
// about. It returns the place of one that cannot be compiled: a rule that does not say
// what it means must not look as if it did.
func (k *Kernel) compileOwn(rules []RunRule, g Grant) (map[string]*toolRules, *RulePlace) {
	own := map[string]*toolRules{}
	for i := range rules {
		r := Rule{ID: "requester-" + strconv.Itoa(i+1), Effect: Forbid, Tool: rules[i].Tool, When: rules[i].When}
		wrong := &RulePlace{Rule: i + 1}
		if r.Tool != AnyTool && k.tools[r.Tool] == nil {
			return nil, wrong
		}
		for _, name := range k.ruleTools(r.Tool, g) {
			c, err := compileRule(&r, k.tools[name])
			if err != nil {
				if at, ok := errors.AsType[*constraint.PlacedError](err); ok {
					wrong.Line, wrong.Column = at.Line, at.Column
				}
				return nil, wrong
			}
			if own[name] == nil {
				own[name] = &toolRules{}
			}
			own[name].add(Forbid, c)
		}
	}
	return own, nil
}

// forbidAll is what holds for a run whose own rules cannot be compiled any more.
func (k *Kernel) forbidAll() map[string]*toolRules {
	own := map[string]*toolRules{}
	for _, name := range k.names {
		own[name] = &toolRules{forbid: []compiledRule{{id: "requester"}}}
	}
	return own
}
