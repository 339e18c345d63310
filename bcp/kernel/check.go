package kernel

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Frame is where a plan runs: the run itself, or a sub-run of it.
type Frame struct {
	Path  string `record:"path"` // of the sub-run's step, such as delegate; empty for the run
	Depth int    `record:"depth"`
	Grant Grant  `record:"grant"`
	// Query is the label of what the planner was given, errors included: so it is that of
	// constants.
	Query Label `record:"query,always"`
	// Control is the label of what decided which calls the plan makes, where that is not
	// Query: a sub-run is steered by what its planner read.
	Control *Label `record:"control"`
	// Steer is the label of what steers the sub-run around it, if something does.
	Steer *Label `record:"steer"`
	// Asker is who asked for the run, for what. It is the run's, as the limits are: how many
	// bits content may steer by, and how many questions the requester may be asked.
	Asker       Asker
	ControlBits int
	Questions   int
}

// Asker is whom a run serves, and with what words it was asked for.
type Asker struct {
	Requester Requester
	Task      Task
}

// Task is what a requester asked for. The zero Task is not known, and tainted.
type Task struct {
	Known bool
	Text  string
	Label Label
}

func (f *Frame) control() Label {
	if f.Control != nil {
		return *f.Control
	}
	return f.Query
}

// own returns whom the run serves, if the frame is the run itself. A literal that spells
// the requester's address is as trusted as the task, whatever errors its plan was made
// after: the gateway knows the address, and content chose no part of it.
func (f *Frame) own() *Asker {
	if f.Depth > 0 || f.Asker.Requester.Address == "" {
		return nil
	}
	return &f.Asker
}

// path returns the full path of a step.
func (f *Frame) path(id string) string {
	if f.Path == "" {
		return id
	}
	return f.Path + "/" + id
}

// Checked is a plan that can run in a frame, with what is known of its values
// before it does.
type Checked struct {
	kernel *Kernel
	frame  Frame
	view   view
	subs   int // steps that begin a sub-run
	// yielded is how many types were looked at for what whens and eaches give.
	yielded int

	ids  map[string]int // of the steps that were checked
	base *Checked       // the plan before anything of it ran, where this is not it
}

// Check checks a plan step by step: ids, references, tools, arguments, types. It
// returns the first fault. A tool that the grant does not allow to call is as none
// (KER-32).
func (k *Kernel) Check(p *Plan, f Frame) (*Checked, Fault) {
	c := &Checked{kernel: k, frame: f, view: view{plan: p}, ids: map[string]int{}}
	c.view.query, c.view.own = &c.frame.Query, c.frame.own()
	if p.forked {
		own := *p
		c.view.plan = &own
	}
	switch fault := c.check(); {
	case fault.Code != "":
		return nil, fault
	case p.forked && !f.mayFork():
		return nil, Fault{Code: ControlNotAllowed, Step: p.fault.Step, steps: p.size} // of one that is wrong, too
	case p.fault.Code != "":
		p.fault.steps = p.size
		return nil, p.fault
	case c.final() < 0:
		return nil, Fault{Code: NoFinal, steps: p.size}
	}
	if at := c.final(); c.tellsResult() && c.view.nodes[at].sealed() {
		s := &c.view.plan.Steps[at]
		return nil, Fault{Code: TypeMismatch, Step: s.ID, steps: p.size, scope: s.scope}
	}
	if p.forked && c.Worst() > bcp.Bits(f.ControlBits)*bcp.Bit {
		return nil, Fault{Code: ControlTooWide, Bits: c.Worst(), steps: p.size}
	}
	return c, Fault{}
}

// tellsResult reports whether a Controller or the plan around a sub-run is told the value:
// it is nothing sealed then.
func (c *Checked) tellsResult() bool { return c.frame.Depth > 0 || c.kernel.definition.Result != nil }

// mayFork reports whether content may steer: a sub-planner has read content, and plans
// what is needed.
func (f *Frame) mayFork() bool { return f.ControlBits > 0 && f.Depth == 0 }

// check checks the steps that were not checked yet.
func (c *Checked) check() Fault {
	for i := len(c.view.nodes); i < len(c.view.plan.Steps); i++ {
		s := &c.view.plan.Steps[i]
		fault := Fault{Step: s.ID, steps: c.view.plan.size, scope: s.scope}
		if !IsStepID(s.ID) {
			return Fault{Code: BadID, steps: c.view.plan.size}
		}
		n, code := c.step(s)
		if fault.Code = code; code != "" {
			return fault
		}
		c.view.nodes = append(c.view.nodes, n)
		c.name(i)
		if n.fork != nil && !c.open(i) {
			fault.Code = TooLarge
			return fault
		}
	}
	return Fault{}
}

// open puts behind a when or an each all that it may lead to.
func (c *Checked) open(at int) bool {
	steps := c.view.plan.Steps
	s := steps[at]
	opened := s.inside(slices.Clone(steps[:at+1]), c.view.nodes[at].fork.all(&s))
	more := len(opened) - at - 1
	c.view.plan.Steps = append(opened, steps[at+1:]...)
	for around := s.under; around > 0; around = opened[around-1].under {
		c.view.plan.Steps[around-1].span += more
	}
	return c.base != nil || len(c.view.plan.Steps) <= maxUnfolded // what runs, max_steps bounds
}

// name makes a step that was checked known by its id.
func (c *Checked) name(i int) {
	if s := &c.view.plan.Steps[i]; !s.forks() {
		c.ids[s.id()] = i
	}
}

// ReadPlan reads and checks a plan.
func (k *Kernel) ReadPlan(b []byte, f Frame) (*Checked, Fault) {
	p, fault := ParsePlan(b)
	if fault.Code != "" {
		return nil, fault
	}
	return k.Check(p, f)
}

func (c *Checked) final() int { return c.lookup("", c.view.plan.Final) }

// step checks one step and foresees its value.
func (c *Checked) step(s *Step) (node, Code) {
	if s.Kind == SubStep && c.kernel.definition.SubPlanner == "" || s.Kind == AskStep && !c.frame.mayAsk() {
		return node{}, UnknownKind
	}
	if s.forks() && !c.frame.mayFork() {
		return node{}, ControlNotAllowed
	}
	if s.Kind != EndStep && c.lookup(s.scope, s.ID) >= 0 {
		return node{}, DuplicateID
	}
	if code := c.refs(s); code != "" {
		return node{}, code
	}
	at := Origin(c.frame.path(s.id()))
	switch s.Kind {
	case ToolStep:
		return c.call(s, at)
	case ParseStep:
		return c.parse(s, at)
	case SubStep:
		return c.sub(s, at)
	case AskStep:
		return c.view.asked(s, nil, at), ""
	default:
		return c.local(&c.view, s, at)
	}
}

// local is the value of a step for which nobody is asked.
func (c *Checked) local(v *view, s *Step, at Origin) (node, Code) {
	switch s.Kind {
	case ConstStep:
		return v.constant(s, at), ""
	case MergeStep:
		return v.mergeNode(s, at)
	case ItemStep:
		return v.item(s, at)
	case EndStep:
		return c.end(v, s, at)
	default:
		return v.forkNode(s, at)
	}
}

// refs checks all references of a step.
func (c *Checked) refs(s *Step) Code {
	switch s.Kind {
	case ToolStep:
		for i := range s.Args {
			if code := c.argRefs(s.scope, &s.Args[i].Arg); code != "" {
				return code
			}
		}
	case ParseStep, SubStep, WhenStep, EachStep, ItemStep:
		return c.ref(s.scope, &s.Source)
	case MergeStep:
		for i := range s.Inputs {
			if code := c.ref(s.scope, &s.Inputs[i].Ref); code != "" {
				return code
			}
		}
	}
	return ""
}

func (c *Checked) argRefs(scope string, a *Arg) Code {
	if a.Ref != nil {
		return c.ref(scope, a.Ref)
	}
	for i := range a.List {
		if code := c.argRefs(scope, &a.List[i]); code != "" {
			return code
		}
	}
	return ""
}

func (c *Checked) ref(scope string, r *Ref) Code {
	if r.hasPath && !isPath(r.Path) {
		return BadPath
	}
	if r.index = c.lookup(scope, r.Step); r.index < 0 {
		return UnknownRef
	}
	_, code := c.view.ref(r)
	return code
}

func (c *Checked) call(s *Step, at Origin) (node, Code) {
	t := c.kernel.tool(s.Tool, c.frame.Grant)
	if t == nil {
		return node{}, UnknownTool
	}
	for i := range s.Args {
		if t.Input.field(s.Args[i].Name) == nil {
			return node{}, ExtraArgument
		}
	}
	for i := range t.Input.Fields {
		if f := &t.Input.Fields[i]; !f.Optional && !s.has(f.Name) {
			return node{}, MissingArgument
		}
	}
	for i := range s.Args {
		n, code := c.view.arg(&s.Args[i].Arg, s)
		if code != "" {
			return node{}, code
		}
		if !n.mayBe(t.Input.field(s.Args[i].Name).Type) {
			return node{}, TypeMismatch
		}
	}
	args, code := c.view.arguments(s)
	if code != "" {
		return node{}, code
	}
	joined, hazy := c.view.joined(args, s)
	if t.Level != Pure && !t.Trusted {
		hazy &^= hazyInfluence
	}
	return node{typ: t.Output, label: c.view.steered(s, t.ResultLabel(joined, at)), hazy: hazy | c.view.steerHaze(s), at: at}, ""
}

func (s *Step) has(argument string) bool {
	return slices.ContainsFunc(s.Args, func(a NamedArg) bool { return a.Name == argument })
}

func (c *Checked) parse(s *Step, at Origin) (node, Code) {
	schema := c.kernel.schemas[s.Schema]
	source, code := c.view.ref(&s.Source)
	switch {
	case code != "":
		return node{}, code
	case schema == nil || !source.label.Parsers.Admit([]Capability{Capability(schema.Reader)}):
		return node{}, UnknownSchema
	}
	return node{typ: schema.typ, label: c.view.steered(s, schema.parseLabel(source.label, at)), hazy: source.hazy&^hazyInfluence | c.view.steerHaze(s), at: at}, ""
}

func (c *Checked) sub(s *Step, at Origin) (node, Code) {
	schema := c.kernel.schemas[s.Schema]
	source, code := c.view.ref(&s.Source)
	switch {
	case code != "":
		return node{}, code
	case schema == nil && s.Schema != "", !source.label.Parsers.Admit([]Capability{Capability(c.kernel.definition.SubPlanner)}):
		return node{}, UnknownSchema
	case source.sealed(): // a planner would read it
		return node{}, TypeMismatch
	}
	c.subs++
	n := node{label: source.label.with(ReaderAnswer | Derived), hazy: hazyLabel | hazyInfluence, at: at}
	if schema != nil {
		n.typ, n.hazy, n.label = schema.typ, hazyLabel, n.label.influencedBy(at, schema.typ.Width())
	}
	n.label = c.view.steered(s, n.label)
	return n, ""
}
