package kernel

import "slices"

// StepKind is the kind of a step. The zero value is none.
type StepKind uint8

// The kinds. A planner writes all but ItemStep and EndStep, which [Kernel.Check] adds.
const (
	NoStep StepKind = iota
	ConstStep
	ToolStep
	ParseStep
	SubStep
	MergeStep
	WhenStep
	EachStep
	AskStep
	ItemStep // an element of an each, before the steps that it is for
	EndStep  // behind the steps of a when or an each: what they give
	ResultStep
)

// Word returns the word of the kind.
func (k StepKind) Word() string { return stepWords[min(int(k), len(stepWords)-1)] }

// stepWords are the words of all kinds, by number.
var stepWords = []string{"", "const", "tool", "q_parse", "subkernel", "merge", "when", "each", "ask_requester", "item", "end", "result"}

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
	Source      Ref          // q_parse, subkernel, result, when (on), each (over)
	Schema      string       // q_parse, result, and subkernel where it has one
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

// planTable is the form of a plan: what is read, and the JSON Schema that planners
// are given, come from it.
var planTable = []struct {
	kind StepKind
	keys []planKey // besides kind and id
}{
	{ConstStep, []planKey{{name: "value", form: constForm}}},
	{ToolStep, []planKey{{name: "tool", form: textForm}, {name: "args", form: argsForm, optional: true}}},
	{ParseStep, []planKey{{name: "source", form: refForm}, {name: "schema_ref", form: textForm}, {name: "instruction", form: textForm}}},
	{SubStep, []planKey{
		{name: "source", form: refForm}, {name: "instruction", form: textForm}, {name: "grant", form: grantForm},
		{name: "schema_ref", form: textForm, optional: true},
	}},
	{MergeStep, []planKey{{name: "inputs", form: inputsForm}}},
	{WhenStep, []planKey{
		{name: "on", form: refForm}, {name: "cases", form: casesForm}, {name: "else", form: stepsForm, optional: true},
		{name: "yields", form: inputsForm, optional: true},
	}},
	{EachStep, []planKey{
		{name: "over", form: refForm}, {name: "as", form: idForm}, {name: "max", form: countForm}, {name: "do", form: stepsForm},
		{name: "collect", form: inputsForm, optional: true}, {name: "on_more", form: moreForm, optional: true},
	}},
	{AskStep, []planKey{{name: "questions", form: questionsForm}}},
	{ResultStep, []planKey{{name: "source", form: refForm}, {name: "schema_ref", form: textForm}}},
}

// planKey is one key of a step.
type planKey struct {
	name     string
	form     keyForm
	optional bool
}

// keyForm is what a key of a step holds.
type keyForm uint8

const (
	textForm keyForm = iota
	constForm
	argsForm
	refForm
	grantForm
	inputsForm
	stepsForm
	casesForm
	idForm
	countForm
	moreForm
	questionsForm
)

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
	steps, final, runID := v.member("steps"), v.member("final"), v.member("run_id")
	known := 2
	if runID != nil {
		known++
	}
	switch {
	case steps == nil, final == nil, len(v.keys) != known, steps.kind != ListValue, final.kind != TextValue, runID != nil && runID.kind != TextValue:
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
		if id := v.member("id"); id != nil && isStepID(id.text) {
			return Fault{Code: c, Step: id.text}
		}
		return Fault{Code: c}
	}
	if v.kind != ObjectValue {
		return fault(Malformed)
	}
	kind := v.member("kind")
	for i := range planTable {
		if kind != nil && kind.kind == TextValue && kind.text == planTable[i].kind.Word() {
			if s.Kind = planTable[i].kind; s.forks() {
				return s.readFork(v, planTable[i].keys, r, fault)
			}
			if !s.readKeys(v, planTable[i].keys, r) {
				return fault(Malformed)
			}
			return Fault{}
		}
	}
	return fault(UnknownKind)
}

// readKeys reads the keys of a step, which are those of its kind and no other.
func (s *Step) readKeys(v *Value, keys []planKey, r *flowReader) bool {
	id := v.member("id")
	if id == nil || id.kind != TextValue {
		return false
	}
	s.ID = id.text
	known := 2 // kind and id
	for i := range keys {
		switch value := v.member(keys[i].name); {
		case value != nil:
			known++
			if !s.readKey(&keys[i], value, r) {
				return false
			}
		case !keys[i].optional:
			return false
		}
	}
	return known == len(v.keys)
}

func (s *Step) readKey(key *planKey, v *Value, r *flowReader) (ok bool) {
	switch key.form {
	case constForm:
		s.Value = *v
		return literal(v) || v.kind == ListValue && !slices.ContainsFunc(v.list, func(e Value) bool { return !literal(&e) })
	case argsForm:
		s.Args, ok = readArgs(v)
		return ok
	case refForm:
		s.Source, ok = readRef(v)
		return ok
	case grantForm:
		s.Grant, ok = readGrant(v)
		return ok
	case inputsForm:
		if s.Inputs, ok = readInputs(v); s.Flow != nil {
			s.Flow.Out, s.Inputs = s.Inputs, nil
		}
		return ok
	case questionsForm:
		s.Asks, ok = readQuestions(v)
		return ok
	case textForm:
	default:
		return s.Flow.readKey(key, v, r)
	}
	if key.optional && v.kind == NullValue {
		return true
	}
	switch key.name {
	case "tool":
		s.Tool = v.text
	case "schema_ref":
		s.Schema = v.text
	case "instruction":
		if s.Instruction = v.text; !says(v.text) {
			return false
		}
	}
	return v.kind == TextValue && isText(v.text) && (v.text != "" || !key.optional)
}

// literal reports whether v may stand in a plan as a scalar.
func literal(v *Value) bool { return v.scalar() && isText(v.text) }

func readArgs(v *Value) ([]NamedArg, bool) {
	if v.kind != ObjectValue {
		return nil, false
	}
	args := make([]NamedArg, len(v.keys))
	for i, name := range v.keys {
		arg, ok := readArg(&v.list[i], maxListDepth)
		if !ok || !isName(name) {
			return nil, false
		}
		args[i] = NamedArg{name, arg}
	}
	return args, true
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

func readGrant(v *Value) ([]Capability, bool) {
	if v.kind != ListValue || len(v.list) > MaxTools {
		return nil, false
	}
	grant := make([]Capability, len(v.list))
	for i := range v.list {
		if grant[i] = Capability(v.list[i].text); !grant[i].Valid() {
			return nil, false
		}
	}
	return grant, true
}

func readInputs(v *Value) ([]NamedRef, bool) {
	if v.kind != ObjectValue {
		return nil, false
	}
	inputs := make([]NamedRef, len(v.keys))
	for i, name := range v.keys {
		ref, ok := readRef(&v.list[i])
		if !ok || !isName(name) {
			return nil, false
		}
		inputs[i] = NamedRef{name, ref}
	}
	return inputs, true
}
