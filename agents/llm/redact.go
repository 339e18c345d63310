package llm

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Redacted returns the request without the secrets that the rules of a set find in its texts: the system text and what tools
// are for, which a program may have written, and the turns. Arguments of calls may be no JSON afterwards. A request without
// secrets is returned as it is.
func (r *Request) Redacted(set guard.Set) *Request {
	c := &redacting{set: set}
	system, tools := c.parts(r.System), slices.Clone(r.Tools)
	for i := range tools {
		tools[i].Description.text = c.text(tools[i].Description.text)
	}
	turns := make([]Turn, 0, len(r.Turns))
	for _, t := range r.Turns {
		turn := Turn{Role: t.Role, Parts: c.parts(t.Parts)}
		for _, call := range t.Calls {
			if clean := c.text(string(call.Arguments)); clean != string(call.Arguments) {
				call.Arguments = []byte(clean)
			}
			turn.Calls = append(turn.Calls, call)
		}
		for _, result := range t.Results {
			result.Parts = c.parts(result.Parts)
			turn.Results = append(turn.Results, result)
		}
		turns = append(turns, turn)
	}
	if !c.found {
		return r
	}
	clean := *r
	clean.System, clean.Tools, clean.Turns = system, tools, turns
	return &clean
}

// redacting redacts, and notes whether there was something.
type redacting struct {
	set   guard.Set
	found bool
}

func (c *redacting) text(s string) string {
	clean := guard.Redact(s, c.set)
	c.found = c.found || clean != s
	return clean
}

func (c *redacting) parts(parts []Part) (list []Part) {
	for _, p := range parts {
		switch part := p.(type) {
		case Data:
			if body := part.Body(); c.text(body) != body {
				fenced, err := guard.Fence(c.text(body), part.Source())
				if err != nil { // a fence has a source
					continue
				}
				p = Data{fenced}
			}
		case Said:
			p = Said{c.text(part.text)}
		case Instruction:
			p = Instruction{c.text(part.text)}
		}
		list = append(list, p)
	}
	return list
}
