package kernel

import (
	"slices"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// RuleEffect says what a rule does to a call for which it holds.
type RuleEffect string

// The effects.
const (
	Forbid     RuleEffect = "forbid"
	Declassify RuleEffect = "declassify"
	Ask        RuleEffect = "ask"
)

// AnyTool is the tool of a rule about all tools.
const AnyTool = "*"

// Rule is one rule of the gate, as its operator writes it.
type Rule struct {
	ID     string     `json:"id"`
	Effect RuleEffect `json:"effect"`
	Tool   string     `json:"tool"` // or [AnyTool]
	// When is a condition in CEL over args.NAME.value, .tainted, .third_party and
	// .influence, .sealed where the argument accepts that, requester.name and .address, run.depth and run.grant, task.influence,
	// control.tainted, .third_party and .bits, with the functions task.mentions(args.NAME),
	// args.NAME.from(tools) and args.NAME.readableBy(args.OTHER), and all and exists.
	When string `json:"when"`
	// ReadsData lets the rule read values that content chose. A declassify rule never
	// may (C-23).
	ReadsData bool `json:"-"`
	// ControlBits is how many bits of control a rule takes that declassifies: it does not
	// hold for a call that content steered the plan to by more.
	ControlBits int    `json:"control_bits"`
	Because     string `json:"because"`
	// Yes and No are calls for which it must and must not hold.
	Yes, No []Example `json:"-"`
}

// Example is a call as a rule sees it.
type Example struct {
	Arguments map[string]ExampleArgument
	Asker     Asker
	Control   Label
	Depth     int
	Grant     Grant
}

// ExampleArgument is one argument of an example. Without a value it cannot be
// read.
type ExampleArgument struct {
	Value *Value
	Label Label
	// Literal says that it stands in the plan of the run itself, Sealed that nobody reads it.
	Literal, Sealed bool
}

// factOf says where a fact of a tool's calls comes from.
type factOf struct {
	constraint.FactName
	asks     string // its name, without that of the argument
	argument string
	path     []string // into an argument that is an object
}

// What is asked of an argument itself, or of the task: what functions of rules are about; and of what is in it.
const (
	factPart  = ""
	factValue = ".value"
)

// ofLabel reports whether a fact is of a label alone: not of a value, or who asks.
func (f *factOf) ofLabel() bool {
	return slices.Contains([]string{".tainted", ".third_party", ".influence", ".sealed", "control.tainted", "control.third_party", controlBits, taskInfluence}, f.asks)
}

// The facts that a rule has to look at if it is to see literals that content may have
// chosen, through the task or through errors: it says how many bits of them it takes.
const (
	taskInfluence = "task.influence"
	controlBits   = "control.bits"
)

// prices says which of these facts a rule looks at.
type prices struct{ task, control bool }

// toolFacts lists what rules can ask about calls of a tool.
func toolFacts(t *Tool) []factOf {
	var facts []factOf
	add := func(argument, asks string, kind constraint.FactKind) {
		name := asks
		if argument != "" {
			name = "args." + argument + asks
		}
		facts = append(facts, factOf{FactName: constraint.FactName{Name: name, Kind: kind}, asks: asks, argument: argument})
	}
	add("", "requester.name", constraint.FactText)
	add("", "requester.address", constraint.FactText)
	add("", "run.depth", constraint.FactInt)
	add("", "run.grant", constraint.FactTexts)
	facts = append(facts, factOf{FactName: constraint.FactName{Name: "task", Kind: constraint.FactPart}})
	add("", taskInfluence, constraint.FactInt)
	add("", "control.tainted", constraint.FactBool)
	add("", "control.third_party", constraint.FactBool)
	add("", controlBits, constraint.FactInt)
	for i := range t.Input.Fields {
		f := &t.Input.Fields[i]
		if !isName(f.Name) {
			continue
		}
		add(f.Name, ".tainted", constraint.FactBool)
		add(f.Name, ".third_party", constraint.FactBool)
		add(f.Name, ".influence", constraint.FactInt)
		add(f.Name, factPart, constraint.FactPart)
		if f.Type.takesSealed() {
			add(f.Name, ".sealed", constraint.FactBool)
		}
		value := factOf{FactName: constraint.FactName{Name: "args." + f.Name + factValue}, asks: factValue, argument: f.Name}
		facts = appendValues(facts, value, f.Type)
	}
	return facts
}

// appendValues appends the facts for the value of an argument: one, or one for each
// scalar of an object.
func appendValues(facts []factOf, f factOf, t *Type) []factOf {
	if t.Kind == ObjectType {
		for i := range t.Fields {
			if field := &t.Fields[i]; isName(field.Name) {
				inner := f
				inner.Name += "." + field.Name
				inner.path = append(slices.Clip(f.path), field.Name)
				facts = appendValues(facts, inner, field.Type)
			}
		}
		return facts
	}
	if f.Kind = factKind(t); f.Kind == 0 {
		return facts
	}
	if t.Kind == ArrayType {
		f.Items, t = t.MaxItems, t.Items
	}
	if t.Kind == EnumType {
		for _, word := range t.Values {
			f.Bytes = max(f.Bytes, len(word))
		}
	} else if f.Bytes = t.longest(); t.Format == AnyText {
		f.Bytes *= utf8.UTFMax
	}
	return append(facts, f)
}

// factKind returns how rules see values of a type; 0 is not at all.
func factKind(t *Type) constraint.FactKind {
	switch t.Kind {
	case BooleanType:
		return constraint.FactBool
	case IntegerType:
		return constraint.FactInt
	case NumberType:
		return constraint.FactDecimal
	case StringType, EnumType:
		return constraint.FactText
	case ArrayType:
		switch factKind(t.Items) {
		case constraint.FactText:
			return constraint.FactTexts
		case constraint.FactInt:
			return constraint.FactInts
		}
	}
	return 0
}

type compiledRule struct {
	id        string
	rule      *constraint.Rule
	readsData bool
	prices    prices
	// controlBits is what the rule takes of control.
	controlBits int
	// labels says that it looks at nothing but how much content chose: such a rule that asks
	// may be answered once for many calls.
	labels bool
}

// compileRule compiles a rule for the calls of one tool.
func compileRule(r *Rule, t *Tool) (compiledRule, error) {
	names := make([]constraint.FactName, len(t.facts))
	for i := range t.facts {
		names[i] = t.facts[i].FactName
	}
	rule, err := constraint.CompileRule(r.When, names)
	labels := err == nil && !r.ReadsData && !slices.ContainsFunc(t.facts, func(f factOf) bool { return !f.ofLabel() && rule.Reads(f.Name) })
	return compiledRule{
		labels: labels, id: r.ID, rule: rule, readsData: r.ReadsData, controlBits: r.ControlBits,
		prices: prices{err == nil && rule.Reads(taskInfluence), r.ControlBits > 0 || err == nil && rule.Reads(controlBits)},
	}, err
}

// holds reports whether the rule, in its effect, takes hold of an example.
func (c *compiledRule) holds(effect RuleEffect, t *Tool, e *Example) bool {
	call := Call{Tool: t.Name, Grant: e.Grant, Asker: e.Asker, Control: e.Control, Depth: e.Depth}
	for name, a := range e.Arguments {
		value := a.Value
		if value == nil {
			value = &Value{} // known to be nothing that a rule could read
		}
		call.Arguments = append(call.Arguments, Argument{Name: name, Value: value, Label: a.Label, Literal: a.Literal, Sealed: a.Sealed})
	}
	truth := t.evaluate(c, &call)
	return truth == constraint.True || effect == Forbid && truth == constraint.Failed
}
