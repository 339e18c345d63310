package kernel

import (
	"errors"
	"slices"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// OwnRules are forbid rules of a requester, compiled before its message is decided about.
// The zero value is of nothing.
type OwnRules struct {
	kernel *Kernel
	rules  []RunRule
	grant  Grant
	own    map[string][]compiledRule
	wrong  *RulePlace
}

// Prepare compiles the rules of a requester's message, if the message gets so far: that
// takes long. Any goroutine may call it; nil is nothing.
func (k *Kernel) Prepare(from bcp.AgentName, grant string, body []byte) *OwnRules {
	held, ok := k.GrantOf(from, grant)
	message, code := parseRun(body)
	if !ok || code != "" || len(message.rules) == 0 {
		return nil
	}
	if code, _ := k.countOwn(message.rules, held); code != "" {
		return nil
	}
	p := &OwnRules{kernel: k, rules: message.rules, grant: held}
	p.own, p.wrong = k.compileOwn(p.rules, held)
	return p
}

// Adopt has the state use what was prepared for the message that it decides about next.
func (s *State) Adopt(p *OwnRules) { s.prepared = p }

// checkOwn refuses forbid rules of a requester that are about no tool, that take too
// long to compile, or that cannot be compiled, and says at which place. It returns the
// others compiled.
func (s *State) checkOwn(k *Kernel, rules []RunRule, g Grant) (own map[string][]compiledRule, code Code, wrong *RulePlace) {
	if code, wrong = k.countOwn(rules, g); code != "" {
		return nil, code, wrong
	}
	if p := s.prepared; p != nil && p.kernel == k && slices.Equal(p.rules, rules) && slices.Equal(p.grant.held, g.held) {
		own, wrong = p.own, p.wrong
	} else {
		own, wrong = k.compileOwn(rules, g)
	}
	if wrong != nil {
		return nil, BadRule, wrong
	}
	return own, "", nil
}

// countOwn is what checkOwn does before it compiles.
func (k *Kernel) countOwn(rules []RunRule, g Grant) (Code, *RulePlace) {
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
func (k *Kernel) compileOwn(rules []RunRule, g Grant) (map[string][]compiledRule, *RulePlace) {
	own := map[string][]compiledRule{}
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
			own[name] = append(own[name], c)
		}
	}
	return own, nil
}

// compiledOwn are the rules of one run, compiled for the calls of a kernel.
type compiledOwn struct {
	kernel *Kernel
	own    map[string][]compiledRule
}

// keepOwn keeps the compiled rules of a run until it ends. They follow from the run and the
// definitions, and are compiled again where they are not kept: after a start or a reload.
func (s *State) keepOwn(run RunID, k *Kernel, own map[string][]compiledRule) {
	if len(s.own) >= maxOwn {
		clear(s.own)
	}
	if len(own) > 0 {
		s.own[run] = compiledOwn{k, own}
	}
}

// ownRules are the requester's own forbid rules, by tool.
func (d *draft) ownRules() map[string][]compiledRule {
	if len(d.run.Rules) == 0 {
		return nil
	}
	kept := d.state.own[d.run.ID]
	if kept.kernel != d.kernel {
		own, wrong := d.kernel.compileOwn(d.run.Rules, d.run.Start.Grant)
		if wrong != nil {
			own = map[string][]compiledRule{} // that forbid everything
			for _, name := range d.kernel.names {
				own[name] = []compiledRule{{id: "requester"}}
			}
		}
		d.state.keepOwn(d.run.ID, d.kernel, own)
		return own
	}
	return kept.own
}
