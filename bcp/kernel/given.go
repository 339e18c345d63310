package kernel

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// given is a call or a parse whose inputs are known.
type given struct {
	step   *Step
	record StepRecord
	// Of a call:
	tool  *Tool
	bytes []byte
	call  Call
	// Of a call of a loop that is looked at before its turn:
	element, elements int
	// Of a parse:
	schema  *Schema
	source  node
	content *Value
}

// wait is what it waits for once it is begun.
func (g *given) wait(d *draft) Wait {
	w := Wait{Step: g.record.Path, Key: g.record.Key, Attempt: 1}
	if g.tool == nil {
		w.Kind, w.Agent = WaitReader, g.schema.Reader
		return w
	}
	w.Tool, w.Tainted = g.step.Tool, slices.ContainsFunc(g.call.Arguments, func(a Argument) bool { return a.Label.Tainted() })
	w.Kind, w.Agent, w.Deadline = WaitTool, bcp.AgentName(g.tool.Service), d.change.Time+int64(g.tool.timeout())
	return w
}

// node is its value.
func (g *given) node(v *view, value *Value) node {
	at := Origin(g.record.Path)
	if g.tool == nil {
		return node{typ: g.schema.typ, value: value, label: v.steered(g.step, g.schema.parseLabel(g.source.label, at)), at: at}
	}
	joined, _ := v.joined(g.call.Arguments, g.step)
	return node{typ: g.tool.Output, value: value, label: v.steered(g.step, g.tool.ResultLabel(joined, at)), at: at}
}

// prepare reads what a call or a parse is given. had are the keys of the steps before it.
func (d *draft) prepare(f *frame, v *view, s *Step, at Origin, had []bcp.Digest) (given, Code) {
	g := given{step: s, record: StepRecord{Path: string(at), Kind: s.Kind}}
	if s.Kind == ToolStep {
		args, code := v.arguments(s)
		if code != "" {
			return g, code
		}
		g.tool, g.call = d.kernel.tools[s.Tool], f.checked.buildCall(v, s, args, d.ownRules())
		g.record.Tool, g.record.Arguments, g.record.Control = s.Tool, namedLabels(args), g.call.Steer
		for i := range s.Args {
			g.record.Inputs = f.collectInputs(g.record.Inputs, &s.Args[i].Arg)
		}
		if !known(args) {
			return g, ""
		}
		g.bytes = argumentsJSON(args)
		g.record.Key = nth(had, func(nth int) bcp.Digest { return d.run.callKey(g.tool, g.bytes, nth, f.Path) })
		return g, ""
	}
	source, code := v.ref(&s.Source)
	if code != "" {
		return g, code
	}
	g.source, g.schema, g.record.Inputs = source, d.kernel.schemas[s.Schema], []string{f.origin(&s.Source)}
	content, ok := source.whole()
	if !ok || content.depth() > wire.MaxDepth {
		return g, ""
	}
	bytes := content.JSON()
	if len(bytes) > d.run.Start.Limits.MaxValueBytes {
		return g, ""
	}
	g.content = content
	g.record.Key = nth(had, func(nth int) bcp.Digest { return d.run.parseKey(g.schema, bytes, s.Instruction, nth, f.Path) })
	return g, ""
}

// isGiven reports whether all that it is given is known, and may be given to its Reader.
func (g *given) isGiven() bool {
	if g.tool == nil {
		return g.content != nil && g.source.label.Parsers.Admit([]Capability{Capability(g.schema.Reader)})
	}
	return g.bytes != nil
}

// reuse gives a step the result that an earlier plan had for the same, if there is one.
func (d *draft) reuse(f *frame, g *given) bool {
	value, made := d.run.value(g.record.Key)
	if !made || value == nil {
		return false
	}
	g.record.Reused = true
	d.finish(g.record, g.node(&f.view, value))
	return true
}
