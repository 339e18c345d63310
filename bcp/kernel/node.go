package kernel

import (
	"slices"
	"strconv"
	"strings"
)

// node is the value of a step, or of a part of one: known, or foreseen while a
// plan is checked. The same code follows both, so that what was foreseen of a label
// is what comes.
type node struct {
	typ   *Type  // nil: of a literal, of what is made of parts, or not known before a sub-run has ended
	value *Value // nil: not known yet, or made of parts
	label Label
	hazy  haze
	at    Origin // what the value is by itself: the path of its step, and the path into it
	// parts are those of a merge, of a list of arguments, or of the end of a when or an each:
	// each has its own label, and a name but in a list.
	parts []node
	names []string
	fork  *fork // of a when or an each
	// literal says that the plan has the value.
	literal bool
	seals   bool // a part of it is sealed
	// size bounds what is made of parts from below, in bytes: merges of merges double.
	size int
}

// made reports whether it is a merge or a list of arguments.
func (n *node) made() bool { return n.parts != nil && n.typ == nil }

// view is what the steps of a plan made so far.
type view struct {
	plan  *Plan
	query *Label
	own   *Asker // see [Frame.own]
	nodes []node
}

// constant returns the value of a const.
func (v *view) constant(s *Step, at Origin) node {
	n := node{value: &s.Value, label: v.literalLabel(&s.Value, s), hazy: v.steerHaze(s), at: at, literal: true}
	if list := s.Value.list; len(list) > 0 && !slices.ContainsFunc(list, func(e Value) bool { return !v.isOwn(&e) }) {
		n.label = v.own.Task.Label
	}
	return n
}

func (v *view) isOwn(value *Value) bool {
	return v.own != nil && value.kind == TextValue && value.text == v.own.Requester.Address
}

// literalLabel returns the label of a scalar that the plan has.
func (v *view) literalLabel(value *Value, s *Step) Label {
	if v.isOwn(value) {
		return v.own.Task.Label
	}
	return v.steered(s, *v.query)
}

// isLiteral reports whether all of the value stands in the plan of the run itself.
func (n *node) isLiteral() bool {
	return n.literal || n.made() && n.names == nil && !slices.ContainsFunc(n.parts, func(e node) bool { return !e.isLiteral() })
}

// ref returns what a reference points to. Its step must have been checked.
func (v *view) ref(r *Ref) (node, Code) {
	n := v.nodes[r.index]
	if !r.hasPath {
		return n, ""
	}
	path := r.Path
	for n.names != nil {
		name, rest, deeper := strings.Cut(path, ".")
		i := slices.Index(n.names, name)
		if i < 0 {
			return node{}, PathMissing
		}
		if n, path = n.parts[i], rest; !deeper {
			return n, ""
		}
	}
	return n.into(path)
}

// into returns a part of a value.
func (n *node) into(path string) (node, Code) {
	part := node{typ: n.typ, value: n.value, hazy: n.hazy, at: n.at + "." + Origin(path), literal: n.literal}
	for segment := range strings.SplitSeq(path, ".") {
		if code := part.step(segment); code != "" {
			return node{}, code
		}
	}
	part.label = n.label.narrow(n.at, part.at, part.typ.Width())
	return part, ""
}

// step goes into a value by one segment of a path. What may be absent is missing;
// an index can be missing only once the list is known.
func (n *node) step(segment string) Code {
	if n.literal {
		i, ok := index(segment)
		if !ok || i >= len(n.value.list) {
			return PathMissing
		}
		n.value = &n.value.list[i]
		return ""
	}
	switch t := n.typ; {
	case t == nil, t.Nullable:
		return PathMissing
	case t.Kind == ObjectType:
		f := t.field(segment)
		if f == nil || f.Optional {
			return PathMissing
		}
		n.typ = f.Type
		if n.value != nil {
			n.value = n.value.member(segment)
		}
	case t.Kind == ArrayType:
		i, ok := index(segment)
		if !ok || t.Limited && i >= t.MaxItems {
			return PathMissing
		}
		n.typ = t.Items
		if n.value != nil {
			if i >= len(n.value.list) {
				return IndexMissing
			}
			n.value = &n.value.list[i]
		}
	default:
		return PathMissing
	}
	return ""
}

// index reads an index into a list, in its one spelling.
func index(s string) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && strconv.Itoa(i) == s
}

// arg returns an argument as the plan has it.
func (v *view) arg(a *Arg, s *Step) (node, Code) {
	switch {
	case a.Ref != nil:
		return v.ref(a.Ref)
	case a.Scalar != nil:
		return node{value: a.Scalar, label: v.literalLabel(a.Scalar, s), hazy: v.steerHaze(s), literal: true}, ""
	}
	n := node{parts: []node{}, label: v.steered(s, *v.query)}
	for i := range a.List {
		element, code := v.arg(&a.List[i], s)
		if code != "" {
			return node{}, code
		}
		n.add(element)
	}
	return n, ""
}

// add makes the value of one part more.
func (n *node) add(part node) {
	if len(n.parts) == 0 {
		n.label, n.hazy = part.label, part.hazy
	} else {
		n.label, n.hazy = n.label.join(&part.label), n.hazy|part.hazy
	}
	n.parts, n.seals = append(n.parts, part), n.seals || part.sealed()
	if n.size <= MaxContent {
		n.size += part.minSize()
	}
}

// minSize bounds the canonical JSON of a node from below.
func (n *node) minSize() int {
	if n.made() || n.value == nil {
		return n.size
	}
	return n.value.size()
}

// whole returns the value of a node, if all of it is known and it is not larger than
// any value may be.
func (n *node) whole() (*Value, bool) {
	if !n.made() {
		return n.value, n.value != nil
	}
	if n.size > MaxContent {
		return nil, false
	}
	value := Value{kind: ListValue, keys: n.names, list: make([]Value, len(n.parts))}
	if n.names != nil {
		value.kind = ObjectValue
	}
	for i := range n.parts {
		part, ok := n.parts[i].whole()
		if !ok {
			return nil, false
		}
		value.list[i] = *part
	}
	return &value, true
}

// mayBe reports whether the value can be of a type.
func (n *node) mayBe(t *Type) bool {
	switch {
	case n.made() && n.names == nil:
		return t.Kind == ArrayType && (!t.Limited || len(n.parts) <= t.MaxItems) &&
			!slices.ContainsFunc(n.parts, func(e node) bool { return !e.mayBe(t.Items) })
	case n.made():
		return t.Kind == ObjectType && n.mayBeObject(t)
	case n.literal:
		return t.Has(n.value)
	default:
		return t.accepts(n.typ)
	}
}

// mayBeObject reports whether the inputs of a merge can be the properties of a type.
func (n *node) mayBeObject(t *Type) bool {
	for i := range n.parts {
		if f := t.field(n.names[i]); f == nil || !n.parts[i].mayBe(f.Type) {
			return false
		}
	}
	return !slices.ContainsFunc(t.Fields, func(f TypeField) bool { return !f.Optional && !slices.Contains(n.names, f.Name) })
}

// mergeNode returns the value of a merge, or the code of an input that is missing.
func (v *view) mergeNode(s *Step, at Origin) (node, Code) {
	n := node{at: at}
	if len(s.Inputs) == 0 {
		return n, EmptyMerge
	}
	for i := range s.Inputs {
		input, code := v.ref(&s.Inputs[i].Ref)
		if code != "" {
			return node{}, code
		}
		n.add(input)
		n.names, n.size = append(n.names, s.Inputs[i].Name), n.size+len(s.Inputs[i].Name)+4
	}
	n.label = v.steered(s, n.label)
	return n, ""
}

// arguments returns the arguments of a call, with what is known of their values.
func (v *view) arguments(s *Step) ([]Argument, Code) {
	args := make([]Argument, len(s.Args))
	for i := range s.Args {
		n, code := v.arg(&s.Args[i].Arg, s)
		if code != "" {
			return nil, code
		}
		args[i] = Argument{Name: s.Args[i].Name, Label: n.label, Literal: n.isLiteral(), Sealed: n.sealed(), hazy: n.hazy}
		if value, known := n.whole(); known {
			args[i].Value = value
		}
	}
	return args, ""
}

// sealed reports whether the value is sealed, or a part of it is.
func (n *node) sealed() bool {
	return n.seals || n.typ.sealed()
}

// joined returns the label of what a call is told: the join of its arguments, or the
// query's label if it has none.
func (v *view) joined(args []Argument, s *Step) (l Label, hazy haze) {
	if len(args) == 0 {
		return v.steered(s, *v.query), v.steerHaze(s)
	}
	l, hazy = args[0].Label, args[0].hazy
	for i := 1; i < len(args); i++ {
		l, hazy = l.join(&args[i].Label), hazy|args[i].hazy
	}
	return l, hazy
}
