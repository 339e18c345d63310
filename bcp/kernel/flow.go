package kernel

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// A when chooses steps by a value, and an each repeats steps for the elements of a list.
// What content steers so is priced (FLOW): the plan is refused if the dearest of its paths
// costs more than the run has, what a run did pay is in its records, and everything that
// is made or called under them has the label of what steers.
//
// A plan runs as a flat list of steps. Check puts behind each when all of its cases, and
// behind each each its steps for one element: so all paths are judged once. A run puts
// there what is done indeed (unfold), under ids such as loop/3/step.

// Flow is what a when or an each has besides what steers it, which is its Source.
type Flow struct {
	// Cases are those of a when, by value, and perhaps that of all other values; an each
	// has one, for an element.
	Cases []Case
	As    string // each: the id of the element
	Max   int    // each
	First bool   // each: of a longer list, take the first; otherwise the run stops
	Out   []NamedRef
}

// Case is what is done for a value.
type Case struct {
	Value string
	Else  bool
	Steps []Step

	Name string // in the paths of its steps: the value, if that can stand there
}

const (
	elseName = "_else"
	// maxCases is how many values may be told apart by a when, and maxElements how many
	// elements an each may have.
	maxCases, maxElements = 16, 64
	// maxLevels is how deep whens and eaches nest, and maxFlowDepth how deep the JSON of such a
	// plan, which is deeper than messages are.
	maxLevels, maxFlowDepth = 3, 3 * wire.MaxDepth
	// maxUnfolded is how many steps a plan has at most with all its cases, and with each of
	// the elements that are constants.
	maxUnfolded = 1024
	// maxYielded is how many types, with those inside them, are looked at for what whens and eaches of
	// a plan give: merges of merges double.
	maxYielded = 1 << 15
)

// placed says where a step is in the flat list.
type placed struct {
	scope  string // what its id is inside of, such as loop/3/
	under  int    // 1 + the index of the innermost when or each that it is in
	span   int    // of a when or an each: how many steps behind it are in it
	index  int    // of an element: which; of an end: the index of the when or each
	scopes []string
	given  *node // of an end that runs: what was foreseen of it
}

// id is the step's id in the flat list.
func (s *Step) id() string { return s.scope + s.ID }

func (s *Step) forks() bool { return s.Kind == WhenStep || s.Kind == EachStep }

// local reports whether the value follows from the values before it: nobody is asked.
func (s *Step) local() bool {
	return s.Kind != ToolStep && s.Kind != ParseStep && s.Kind != SubStep && s.Kind != AskStep
}

// flowReader reads the steps in steps.
type flowReader struct {
	plan  *Plan
	level int
	fault Fault // of a step in another
}

// readFork reads a when or an each.
func (s *Step) readFork(v *Value, keys []string, r *flowReader, fault func(Code) Fault) Fault {
	r.plan.forked = true
	if r.level == maxLevels {
		return fault(Malformed)
	}
	r.level++
	s.Flow = &Flow{}
	ok := s.readKeys(v, keys, r)
	r.level--
	switch {
	case r.fault.Code != "":
		return r.fault
	case !ok || s.Kind == WhenStep && slices.IndexFunc(s.Flow.Cases, func(c Case) bool { return !c.Else }) < 0:
		return fault(Malformed)
	}
	return Fault{}
}

func (f *Flow) readKey(name string, v *Value, r *flowReader) (ok bool) {
	switch name {
	case "yields", "collect":
		f.Out, ok = readInputs(v)
		return ok
	case "as":
		f.As = v.text
		return v.kind == TextValue && IsStepID(v.text)
	case "max":
		f.Max = int(v.n)
		return v.kind == IntValue && v.n >= 1 && v.n <= maxElements
	case "on_more":
		f.First = v.text == "first"
		return v.kind == TextValue && (v.text == "first" || v.text == "stop")
	case "cases":
		if v.kind != ObjectValue || len(v.keys) == 0 || len(v.keys) > maxCases {
			return false
		}
		for i, value := range v.keys {
			c := Case{Value: value, Name: value}
			if !IsStepID(value) || value[0] == '_' {
				c.Name = "_" + strconv.Itoa(i)
			}
			if !f.readCase(c, &v.list[i], r) {
				return false
			}
		}
		return true
	default:
		return f.readCase(Case{Else: name == "else", Name: elseName}, v, r)
	}
}

func (f *Flow) readCase(c Case, v *Value, r *flowReader) bool {
	if v.kind != ListValue {
		return false
	}
	if r.plan.size += len(v.list); r.plan.size > MaxPlanSteps {
		r.fault = Fault{Code: TooLarge}
		return false
	}
	c.Steps = make([]Step, len(v.list))
	for i := range c.Steps {
		if r.fault = c.Steps[i].read(&v.list[i], r); r.fault.Code != "" {
			return false
		}
	}
	f.Cases = append(f.Cases, c)
	return true
}

// copySteps appends steps with references of their own, for a place in the flat list.
func copySteps(to, steps []Step, scope string, under int) []Step {
	for i := range steps {
		s := steps[i]
		s.Args, s.Inputs, s.scope, s.under = slices.Clone(s.Args), slices.Clone(s.Inputs), scope, under
		for j := range s.Args {
			s.Args[j].Arg = s.Args[j].Arg.copy()
		}
		to = append(to, s)
	}
	return to
}

func (a Arg) copy() Arg {
	if a.Ref != nil {
		r := *a.Ref
		a.Ref = &r
	}
	a.List = slices.Clone(a.List)
	for i := range a.List {
		a.List[i] = a.List[i].copy()
	}
	return a
}

// fork is what is known of a when or an each before it is reached.
type fork struct {
	cost bcp.Bits
	// most is how many elements an each has at most, exact that it has so many.
	most  int
	exact bool
	// rest says that a when may have a value that is none of its cases.
	rest bool
}

// forkNode is the node of a when or an each: its label is what everything in it has.
func (v *view) forkNode(s *Step, at Origin) (node, Code) {
	on, code := v.ref(&s.Source)
	if code != "" {
		return node{}, code
	}
	n := node{label: on.label, hazy: on.hazy & hazyLabel, at: at, value: on.value}
	var ways int
	f := &fork{}
	switch {
	case s.Kind == WhenStep:
		values := steering(on.typ)
		if values == nil || slices.ContainsFunc(s.Flow.Cases, func(c Case) bool { return !c.Else && !slices.Contains(values, c.Value) }) {
			return n, TypeMismatch
		}
		n.fork, ways = f, len(s.Flow.Cases)
		if slices.ContainsFunc(s.Flow.Cases, func(c Case) bool { return c.Else }) {
			ways--
		}
		if f.rest = ways < len(values); f.rest {
			ways++
		}
		n.label = n.label.narrow(on.at, on.at, on.typ.Width())
	case on.literal && on.value.kind == ListValue && len(on.value.list) > 0:
		f.most, f.exact, n.fork, ways = min(s.Flow.Max, len(on.value.list)), true, f, 1
	case on.typ == nil || on.typ.Kind != ArrayType || on.typ.Nullable:
		return n, TypeMismatch
	default:
		n.fork, f.most = f, s.Flow.Max
		longer := !on.typ.Limited || on.typ.MaxItems > f.most
		if !longer {
			f.most = on.typ.MaxItems
		}
		if ways = f.most + 1; longer && !s.Flow.First {
			ways++ // that it stops
		}
		n.label = n.label.narrow(on.at, on.at+".length", Width((bcp.ChoiceBits(ways)+bcp.Bit-1)/bcp.Bit))
	}
	if on.label.Tainted() {
		n.fork.cost = bcp.ChoiceBits(ways)
	}
	n.label = v.steered(s, n.label)
	return n, ""
}

// steering are the values of a type by which a plan may choose; nil is none.
func steering(t *Type) []string {
	switch {
	case t == nil || t.Nullable:
	case t.Kind == BooleanType:
		return []string{"false", "true"}
	case t.Kind == EnumType && len(t.Values) <= maxCases:
		return t.Values
	case t.Kind == IntegerType && t.Min != nil && t.Max != nil && uint64(*t.Max)-uint64(*t.Min) < maxCases:
		var values []string
		for n := *t.Min; ; n++ {
			if values = append(values, strconv.FormatInt(n, 10)); n == *t.Max {
				return values
			}
		}
	}
	return nil
}

// steered is the label of what is made by a step: also what steers it has a part in it.
func (v *view) steered(s *Step, l Label) Label {
	if s.under == 0 {
		return l
	}
	return l.join(&v.nodes[s.under-1].label)
}

// steer is the label of what steers a step; nil is nothing.
func (v *view) steer(s *Step) *Label {
	if s.under == 0 {
		return nil
	}
	return &v.nodes[s.under-1].label
}

// steerHaze is what is not decided of it yet.
func (v *view) steerHaze(s *Step) haze {
	if s.under == 0 {
		return 0
	}
	return v.nodes[s.under-1].hazy
}

// inside appends what a when or an each at an index leads to: the cases or elements with
// these names, and its end.
func (s *Step) inside(to []Step, names []string) []Step {
	at := len(to) - 1
	end := Step{Kind: EndStep, ID: s.ID, Flow: s.Flow, placed: placed{scope: s.scope, under: s.under, index: at}}
	for i, name := range names {
		scope := s.id() + "/" + name + "/"
		end.scopes = append(end.scopes, scope)
		if s.Kind == EachStep {
			to = append(to, Step{Kind: ItemStep, ID: s.Flow.As, Source: s.Source, placed: placed{scope: scope, under: at + 1, index: i}})
			to = copySteps(to, s.Flow.Cases[0].Steps, scope, at+1)
			continue
		}
		for j := range s.Flow.Cases {
			if c := &s.Flow.Cases[j]; c.Name == name {
				to = copySteps(to, c.Steps, scope, at+1)
			}
		}
	}
	to[at].span = len(to) - at - 1
	return append(to, end)
}

// all names all that a when may lead to, or as many elements of an each as tell what holds
// for each.
func (f *fork) all(s *Step) []string {
	if s.Kind == EachStep {
		if !f.exact {
			return []string{"0"}
		}
		return elements(f.most)
	}
	var names []string
	for i := range s.Flow.Cases {
		if c := &s.Flow.Cases[i]; !c.Else {
			names = append(names, c.Name)
		}
	}
	if f.rest {
		names = append(names, elseName)
	}
	return names
}

func elements(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// taken names what a value leads to. A list that is longer than its each takes stops.
func (f *fork) taken(s *Step, v *Value) ([]string, Code) {
	if s.Kind == EachStep {
		if len(v.list) > s.Flow.Max && !s.Flow.First {
			return nil, LimitElements
		}
		return elements(min(len(v.list), s.Flow.Max)), ""
	}
	name := v.text
	if v.kind != TextValue {
		name = string(v.JSON())
	}
	for i := range s.Flow.Cases {
		if c := &s.Flow.Cases[i]; !c.Else && c.Value == name {
			return []string{c.Name}, ""
		}
	}
	return []string{elseName}, ""
}

// item is an element of the list that an each is over. What content chose of it it chose
// here: each element counts for itself.
func (v *view) item(s *Step, at Origin) (node, Code) {
	list, code := v.ref(&s.Source)
	if code != "" {
		return node{}, code
	}
	n := node{hazy: list.hazy, at: at, literal: list.literal}
	if list.value != nil {
		if s.index >= len(list.value.list) {
			return node{}, IndexMissing
		}
		n.value = &list.value.list[s.index]
	}
	if !n.literal {
		n.typ = list.typ.Items
	}
	n.label = v.steered(s, list.label.narrow(list.at, at, n.typ.Width()))
	return n, ""
}

// end is what a when or an each gives: its yields, or what it collected. Types and labels
// are those of all its cases or elements, whichever are done: so nothing but the values
// tells which. Without known values it foresees.
func (c *Checked) end(v *view, s *Step, at Origin) (node, Code) {
	by := &v.nodes[s.index]
	n := node{typ: &Type{Kind: ObjectType}, label: by.label, hazy: by.hazy, at: at}
	value, known, held := object(), true, 0
	for i := range s.Flow.Out {
		out := &s.Flow.Out[i]
		field := node{at: at + "." + Origin(out.Name)}
		if s.given != nil {
			field = s.given.parts[i]
		}
		var values []Value
		for j, scope := range s.scopes {
			r := out.Ref
			if r.index = c.lookup(scope, r.Step); r.index < 0 {
				return node{}, UnknownRef
			}
			one, code := v.ref(&r)
			if code != "" {
				return node{}, code
			}
			// What is too large in all is not put together: it has no value.
			if s.given != nil && held <= MaxContent {
				held += one.minSize()
				if whole, ok := one.whole(); ok && held <= MaxContent {
					values = append(values, *whole)
				}
			}
			switch {
			case s.given == nil && j == 0:
				field.typ, field.label, field.hazy = c.typeOf(&one), one.label, one.hazy
			case s.given == nil:
				field.typ, field.label, field.hazy = unite(field.typ, c.typeOf(&one)), field.label.join(&one.label), field.hazy|one.hazy
			case field.hazy != 0:
				field.label = field.label.join(&one.label)
			}
		}
		if s.given == nil {
			if field.typ == nil {
				return node{}, TypeMismatch
			}
			if s.Flow.As != "" {
				field.label = field.label.collected(at, by.fork.most, len(s.scopes))
				field.typ = &Type{Kind: ArrayType, Items: field.typ, Limited: true, MaxItems: by.fork.most}
			}
			field.typ, field.label, field.hazy = field.typ.settled(), field.label.join(&by.label), field.hazy|by.hazy
		}
		if known = known && s.given != nil && len(values) == len(s.scopes); known {
			if field.value = new(List(values...)); s.Flow.As == "" {
				field.value = &values[0]
			}
			value.add(out.Name, *field.value)
		}
		n.typ.Fields = append(n.typ.Fields, TypeField{Name: out.Name, Type: field.typ})
		n.parts, n.names, n.label, n.hazy = append(n.parts, field), append(n.names, out.Name), n.label.join(&field.label), n.hazy|field.hazy
	}
	if known {
		n.value = &value
	}
	n.typ = n.typ.settled()
	return n, ""
}

// collected is the label of a list of values with this label: what content chose of one
// element it may choose of each. told is of how many elements the label tells.
func (l Label) collected(at Origin, most, told int) Label {
	sum, rest := Width(0), []Influence(nil)
	for _, i := range l.Influence {
		if strings.HasPrefix(string(i.Origin), string(at)+"/") {
			sum = sum.add(i.Bits)
		} else {
			rest = append(rest, i)
		}
	}
	total := Width(0)
	for range most / max(told, 1) {
		total = total.add(sum)
	}
	if l.Influence = rest; sum > 0 {
		l.Influence = joinInfluence(rest, []Influence{{at, total}})
	}
	return l
}

// typeOf is the type of a node; nil where none is known, or [maxYielded] are.
func (c *Checked) typeOf(n *node) *Type {
	t := n.typ
	switch {
	case n.made():
		t = &Type{Kind: ObjectType}
		for i := range n.parts {
			of := c.typeOf(&n.parts[i])
			if of == nil {
				return nil
			}
			t.Fields = append(t.Fields, TypeField{Name: n.names[i], Type: of})
		}
		return t
	case n.literal:
		t = literalType(n.value)
	}
	if c.yielded += t.inside(maxYielded - c.yielded); c.yielded >= maxYielded {
		return nil
	}
	return t
}

// inside is how many types a type has in it, with itself; most of them are looked for.
func (t *Type) inside(most int) int {
	n := 1
	if t != nil {
		for _, part := range t.parts() {
			if n < most {
				n += part.inside(most - n)
			}
		}
	}
	return n
}

// literalType is the type that has a literal and no other value.
func literalType(v *Value) *Type {
	switch v.kind {
	case BoolValue:
		return &Type{Kind: BooleanType}
	case IntValue:
		return &Type{Kind: IntegerType, Min: &v.n, Max: &v.n}
	case TextValue:
		return &Type{Kind: EnumType, Values: []string{v.text}}
	default:
		return nil
	}
}

// unite is a type that has the values of both; nil if there is none.
func unite(a, b *Type) *Type {
	switch {
	case a == nil || b == nil:
		return nil
	case a.Kind == EnumType && b.Kind == EnumType:
		u := &Type{Kind: EnumType, Nullable: a.Nullable || b.Nullable, Values: slices.Clone(a.Values)}
		for _, value := range b.Values {
			if !slices.Contains(u.Values, value) {
				u.Values = append(u.Values, value)
			}
		}
		return u
	case a.Kind == IntegerType && b.Kind == IntegerType:
		u := &Type{Kind: IntegerType, Nullable: a.Nullable || b.Nullable}
		if a.Min != nil && b.Min != nil {
			u.Min = new(min(*a.Min, *b.Min))
		}
		if a.Max != nil && b.Max != nil {
			u.Max = new(max(*a.Max, *b.Max))
		}
		return u
	case (a.Kind == StringType || a.Kind == EnumType) && (b.Kind == StringType || b.Kind == EnumType) && a.Kind != b.Kind:
		return &Type{Kind: StringType, Nullable: a.Nullable || b.Nullable}
	case string(a.AppendJSONSchema(nil)) != string(b.AppendJSONSchema(nil)):
		return nil
	case a.Width() < b.Width():
		return b
	default:
		return a
	}
}

// worst is what the dearest path through a plan has.
type worst struct {
	steps, effects, parses, questions int
	control                           bcp.Bits
}

func (w *worst) add(o worst, times int) {
	w.steps, w.effects, w.parses, w.questions = w.steps+times*o.steps, w.effects+times*o.effects, w.parses+times*o.parses, w.questions+times*o.questions
	w.control += bcp.Bits(times) * o.control
}

// worst returns it for the steps from one index to another, each limit by itself.
func (c *Checked) worst(from, to int) (w worst) {
	for i := from; i < to; i++ {
		s := &c.view.plan.Steps[i]
		one := worst{}
		switch s.Kind {
		case ToolStep:
			one.effects = 1
		case ParseStep:
			one.parses = 1
		case AskStep:
			one.questions = 1
		}
		if s.Kind != ItemStep && s.Kind != EndStep {
			one.steps = 1
		}
		w.add(one, 1)
		if !s.forks() {
			continue
		}
		f := c.view.nodes[i].fork
		w.control += f.cost
		dearest := worst{}
		for next, last := i+1, i+s.span; next <= last; {
			end := next
			for scope := c.branch(next, s); end <= last && c.branch(end, s) == scope; {
				end++
			}
			of := c.worst(next, end)
			if s.Kind == EachStep {
				dearest.add(of, 1)
			} else {
				dearest = worst{max(dearest.steps, of.steps), max(dearest.effects, of.effects), max(dearest.parses, of.parses), max(dearest.questions, of.questions), max(dearest.control, of.control)}
			}
			next = end
		}
		times := 1
		if s.Kind == EachStep && !f.exact {
			times = f.most
		}
		w.add(dearest, times)
		i += s.span
	}
	return w
}

// branch names the case or element of a when or an each that a step is in.
func (c *Checked) branch(i int, s *Step) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.view.plan.Steps[i].scope, s.id()+"/"), "/")
	return name
}

// Worst is what the dearest path through the plan costs by what content steers.
func (c *Checked) Worst() bcp.Bits { return c.worst(0, len(c.view.plan.Steps)).control }

// lookup returns the index of the step with an id that is seen from a scope, or -1: no
// step in a case or an element is seen from outside of it, where it may be none.
func (c *Checked) lookup(scope, id string) int {
	if strings.Contains(id, "/") {
		return -1
	}
	for {
		if i, known := c.ids[scope+id]; known {
			return i
		}
		if scope == "" {
			return -1
		}
		scope = scope[:strings.LastIndexByte(scope[:len(scope)-1], '/')]
		scope = scope[:strings.LastIndexByte(scope, '/')+1]
	}
}

// unfold returns the plan with what a when or an each that was reached leads to in place of
// all that it could.
func (c *Checked) unfold(at int, names []string) (*Checked, Fault) {
	s, was := c.view.plan.Steps[at], c.view.plan
	end := c.view.nodes[at+1+s.span]
	base := c
	if c.base != nil {
		base = c.base
	}
	next := &Checked{kernel: c.kernel, frame: c.frame, subs: c.subs, base: base, ids: map[string]int{}}
	plan := &Plan{Final: was.Final, size: was.size, forked: true, Steps: slices.Clip(was.Steps[:at+1])}
	plan.Steps = s.inside(slices.Clone(plan.Steps), names)
	plan.Steps[len(plan.Steps)-1].given = &end
	for i := at + s.span + 2; i < len(was.Steps); i++ {
		rest := was.Steps[i]
		i += rest.span
		if rest.forks() {
			i++ // its end
		}
		rest.span = 0
		plan.Steps = copySteps(plan.Steps, []Step{rest}, rest.scope, rest.under)
	}
	next.view = view{plan: plan, query: &next.frame.Query, own: c.view.own, nodes: slices.Clone(c.view.nodes[:at+1])}
	for i := range next.view.nodes {
		next.name(i)
	}
	return next, next.check()
}

// fork runs a when or an each: it pays, and goes on with what the value leads to.
func (d *draft) fork(f *frame, s *Step, at Origin) {
	n, code := f.view.forkNode(s, at)
	if code != "" {
		d.failStep(s, code)
		return
	}
	if n.value == nil { // a value of many parts: it can be no list that was read
		d.abort(LimitValueBytes, string(at))
		return
	}
	names, code := n.fork.taken(s, n.value)
	d.run.Totals.Control += n.fork.cost
	record := StepRecord{Path: string(at), Kind: s.Kind, Inputs: []string{f.origin(&s.Source)}, Bits: n.fork.cost}
	if code != "" {
		d.change.Steps = append(d.change.Steps, record)
		d.abort(code, string(at))
		return
	}
	d.finish(record, n)
	f = d.run.top()
	checked, fault := f.checked.unfold(len(f.Done)-1, names)
	if fault.Code != "" {
		d.fail(badPlan, fault, nil)
		return
	}
	f.checked, f.view.plan = checked, checked.view.plan
}
