package kernel

import (
	"slices"
	"strings"
)

// StepKind is the kind of a step.
type StepKind string

// The kinds. A planner writes all but ItemStep and EndStep, which [Kernel.Check] adds.
const (
	ConstStep StepKind = "const"
	ToolStep  StepKind = "tool"
	ParseStep StepKind = "q_parse"
	SubStep   StepKind = "subkernel"
	MergeStep StepKind = "merge"
	WhenStep  StepKind = "when"
	EachStep  StepKind = "each"
	AskStep   StepKind = "ask_requester"
	ItemStep  StepKind = "item" // an element of an each, before the steps that it is for
	EndStep   StepKind = "end"  // behind the steps of a when or an each: what they give
)

func (k StepKind) known() bool { return planKeys[k] != nil || k == ItemStep || k == EndStep }

// Plan is a plan that was read, and not checked yet: see [Kernel.Check].
type Plan struct {
	Steps []Step
	Final string

	fault  Fault // of the step after the last of Steps, if that is wrong in itself
	size   int   // the number of steps, including those after a wrong one and in others
	forked bool  // it has a when or an each
}

// Step is one step of a plan. Of the fields below ID those of its kind are set.
type Step struct {
	Kind StepKind
	ID   string

	Value       Value        // const
	Tool        string       // tool
	Args        []NamedArg   // tool, by name
	Source      Ref          // q_parse, subkernel, when (on), each (over)
	Schema      string       // q_parse, and subkernel where it has one
	Instruction string       // q_parse, subkernel
	Grant       []Capability // subkernel
	Inputs      []NamedRef   // merge, by name
	Flow        *Flow        // when, each
	Asks        *Schema      // ask_requester: what is asked, whose Reader is the requester

	placed
}

// Ref points to the value of an earlier step, or into it.
type Ref struct {
	Step    string
	Path    string
	hasPath bool
	index   int // of the step, once it was checked
}

// NamedRef is one input of a merge.
type NamedRef struct {
	Name string
	Ref  Ref
}

// NamedArg is one argument of a call.
type NamedArg struct {
	Name string
	Arg  Arg
}

// Arg is an argument: a reference, a scalar, or a list of arguments.
type Arg struct {
	Ref    *Ref
	Scalar *Value
	List   []Arg
}

// planKeys are the keys of each kind of step besides kind and id; those with a question
// mark may be absent. What they hold, plan.schema.json says, too.
var planKeys = map[StepKind][]string{
	ConstStep: {"value"},
	ToolStep:  {"tool", "args?"},
	ParseStep: {"source", "schema_ref", "instruction"},
	SubStep:   {"source", "instruction", "grant", "schema_ref?"},
	MergeStep: {"inputs"},
	WhenStep:  {"on", "cases", "else?", "yields?"},
	EachStep:  {"over", "as", "max", "do", "collect?", "on_more?"},
	AskStep:   {"questions"},
}

// ParsePlan reads a plan: strict JSON, exact keys, kinds and forms. What is wrong
// with the whole is a fault; what is wrong with one step is found by
// [Kernel.Check], when all steps before it were found right.
func ParsePlan(b []byte) (*Plan, Fault) {
	if len(b) > MaxPlanBytes {
		return nil, Fault{Code: TooLarge}
	}
	v, err := ParseValue(b)
	if err == nil {
		return parsePlanValue(&v)
	}
	// Steps in steps nest deeper than messages do.
	if v, err = readValue(b, maxFlowDepth); err == nil {
		if p, fault := parsePlanValue(&v); p != nil && p.forked {
			return p, fault
		}
	}
	return nil, Fault{Code: Malformed}
}

func parsePlanValue(v *Value) (*Plan, Fault) {
	steps, final := v.member("steps"), v.member("final")
	_, named := v.optionalText("run_id")
	switch {
	case steps == nil, final == nil, !v.onlyHas("steps", "final", "run_id"), steps.kind != ListValue, final.kind != TextValue, !named:
		return nil, Fault{Code: Malformed}
	case len(steps.list) > MaxPlanSteps:
		return nil, Fault{Code: TooLarge}
	}
	p := &Plan{Final: final.text, Steps: make([]Step, len(steps.list)), size: len(steps.list)}
	r := &flowReader{plan: p}
	for i := range steps.list {
		if fault := p.Steps[i].read(&steps.list[i], r); fault.Code != "" {
			p.Steps, p.fault = p.Steps[:i], fault
			break
		}
	}
	if p.size > MaxPlanSteps {
		return nil, Fault{Code: TooLarge}
	}
	return p, Fault{}
}

// read reads one step.
func (s *Step) read(v *Value, r *flowReader) Fault {
	fault := func(c Code) Fault {
		if id := v.member("id"); id != nil && IsStepID(id.text) {
			return Fault{Code: c, Step: id.text}
		}
		return Fault{Code: c}
	}
	if v.kind != ObjectValue {
		return fault(Malformed)
	}
	kind := v.member("kind")
	if kind == nil || kind.kind != TextValue {
		return fault(UnknownKind)
	}
	s.Kind = StepKind(kind.text)
	switch keys := planKeys[s.Kind]; {
	case keys == nil:
		return fault(UnknownKind)
	case s.forks():
		return s.readFork(v, keys, r, fault)
	case !s.readKeys(v, keys, r):
		return fault(Malformed)
	}
	return Fault{}
}

// readKeys reads the keys of a step, which are those of its kind and no other.
func (s *Step) readKeys(v *Value, keys []string, r *flowReader) bool {
	id := v.member("id")
	if id == nil || id.kind != TextValue {
		return false
	}
	s.ID = id.text
	known := 2 // kind and id
	for _, key := range keys {
		name, optional := strings.CutSuffix(key, "?")
		switch value := v.member(name); {
		case value != nil:
			known++
			if !s.readKey(name, optional, value, r) {
				return false
			}
		case !optional:
			return false
		}
	}
	return known == len(v.keys)
}

func (s *Step) readKey(name string, optional bool, v *Value, r *flowReader) (ok bool) {
	isText := v.kind == TextValue && isText(v.text)
	switch name {
	case "value":
		s.Value = *v
		return literal(v) || v.kind == ListValue && !slices.ContainsFunc(v.list, func(e Value) bool { return !literal(&e) })
	case "args":
		s.Args, ok = readArgs(v)
	case "source", "on", "over":
		s.Source, ok = readRef(v)
	case "grant":
		s.Grant, ok = v.capabilities(Capability.Valid)
		ok = ok && len(s.Grant) <= MaxTools
	case "inputs":
		s.Inputs, ok = readInputs(v)
	case "questions":
		s.Asks, ok = readQuestions(v)
	case "tool":
		s.Tool, ok = v.text, isText
	case "schema_ref":
		s.Schema, ok = v.text, optional && v.kind == NullValue || isText && (v.text != "" || !optional)
	case "instruction":
		s.Instruction, ok = v.text, isText && says(v.text)
	default:
		return s.Flow.readKey(name, v, r)
	}
	return ok
}

// literal reports whether v may stand in a plan as a scalar.
func literal(v *Value) bool { return v.scalar() && isText(v.text) }

// readNamed reads an object of things by name.
func readNamed[T, Named any](v *Value, read func(*Value) (T, bool), named func(string, T) Named) ([]Named, bool) {
	if v.kind != ObjectValue {
		return nil, false
	}
	all := make([]Named, len(v.keys))
	for i, name := range v.keys {
		one, ok := read(&v.list[i])
		if !ok || !isName(name) {
			return nil, false
		}
		all[i] = named(name, one)
	}
	return all, true
}

func readArgs(v *Value) ([]NamedArg, bool) {
	read := func(v *Value) (Arg, bool) { return readArg(v, maxListDepth) }
	return readNamed(v, read, func(name string, a Arg) NamedArg { return NamedArg{name, a} })
}

func readInputs(v *Value) ([]NamedRef, bool) {
	return readNamed(v, readRef, func(name string, r Ref) NamedRef { return NamedRef{name, r} })
}

func readArg(v *Value, depth int) (Arg, bool) {
	switch v.kind {
	case ObjectValue:
		ref, ok := readRef(v)
		return Arg{Ref: &ref}, ok
	case ListValue:
		list := make([]Arg, len(v.list))
		for i := range v.list {
			element, ok := readArg(&v.list[i], depth-1)
			if !ok || depth == 0 {
				return Arg{}, false
			}
			list[i] = element
		}
		return Arg{List: list}, depth > 0
	default:
		return Arg{Scalar: v}, literal(v)
	}
}

func readRef(v *Value) (Ref, bool) {
	var r Ref
	if v.kind != ObjectValue || v.member("ref") == nil {
		return r, false
	}
	for i, key := range v.keys {
		value := &v.list[i]
		switch {
		case key == "ref" && value.kind == TextValue:
			r.Step = value.text
		case key == "path" && value.kind == TextValue:
			r.Path, r.hasPath = value.text, true
		case key == "path" && value.kind == NullValue, key == "kind" && value.kind == TextValue && value.text == "ref":
		default:
			return r, false
		}
	}
	return r, true
}

// capabilities returns the elements of a list, if each of them is one that may be there.
func (v *Value) capabilities(may func(Capability) bool) ([]Capability, bool) {
	names := make([]Capability, len(v.list))
	for i := range v.list {
		if names[i] = Capability(v.list[i].text); !may(names[i]) {
			return nil, false
		}
	}
	return names, v.kind == ListValue
}
