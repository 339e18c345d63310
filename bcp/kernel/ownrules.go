package kernel

import "strconv"

// compileOwn compiles the forbid rules of a requester for the tools that they are
// about. It returns false if one cannot be compiled: a rule that does not say what
// it means must not look as if it did.
func (k *Kernel) compileOwn(rules []RunRule) (map[string]*toolRules, bool) {
	own := map[string]*toolRules{}
	for i := range rules {
		r := Rule{ID: "requester-" + strconv.Itoa(i+1), Effect: Forbid, Tool: rules[i].Tool, When: rules[i].When}
		found := false
		for _, name := range k.names {
			if r.Tool != AnyTool && r.Tool != name {
				continue
			}
			c, err := compileRule(&r, k.tools[name])
			if err != nil {
				return nil, false
			}
			if own[name] == nil {
				own[name] = &toolRules{}
			}
			own[name].add(Forbid, c)
			found = true
		}
		if !found {
			return nil, false
		}
	}
	return own, true
}

// forbidAll is what holds for a run whose own rules cannot be compiled any more.
func (k *Kernel) forbidAll() map[string]*toolRules {
	own := map[string]*toolRules{}
	for _, name := range k.names {
		own[name] = &toolRules{forbid: []compiledRule{{id: "requester"}}}
	}
	return own
}
