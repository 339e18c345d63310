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
	typ   *Type  // nil: of a literal, of a list of arguments, or not known before a sub-run has ended
	value *Value // nil: not known yet, or of a merge
	label Label
	hazy  haze
	at    Origin // what the value is by itself: the path of its step, and the path into it
	merge *Step  // the step, of a merge: its fields are its inputs
	list  []node // of a list of arguments
	// fields are those of the end of a when or an each, in the order of its type: each has
	// its own label.
	fields []node
	fork   *fork // of a when or an each
	// literal says that the plan has the value.
	literal bool
	seals   bool // of a merge: a part of it is sealed
	// size bounds a merge from below, in bytes: merges of merges double.
	size int
}

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
	return n.literal || n.list != nil && !slices.ContainsFunc(n.list, func(e node) bool { return !e.isLiteral() })
}

// ref returns what a reference points to. Its step must have been checked.
func (v *view) ref(r *Ref) (node, Code) {
	n := v.nodes[r.index]
	if !r.hasPath {
		return n, ""
	}
	path := r.Path
	for n.merge != nil {
		name, rest, deeper := strings.Cut(path, ".")
		input := n.merge.input(name)
		if input == nil {
			return node{}, PathMissing
		}
		var code Code
		if n, code = v.ref(input); code != "" || !deeper {
			return n, code
		}
		path = rest
	}
	if n.fields != nil {
		name, rest, deeper := strings.Cut(path, ".")
		i := slices.IndexFunc(n.typ.Fields, func(f TypeField) bool { return f.Name == name })
		if i < 0 {
			return node{}, PathMissing
		}
		if n, path = n.fields[i], rest; !deeper {
			return n, ""
		}
	}
	return n.into(path)
}

// input returns an input of a merge, or nil.
func (s *Step) input(name string) *Ref {
	for i := range s.Inputs {
		if s.Inputs[i].Name == name {
			return &s.Inputs[i].Ref
		}
	}
	return nil
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
	n := node{list: make([]node, len(a.List)), label: v.steered(s, *v.query)}
	for i := range a.List {
		element, code := v.arg(&a.List[i], s)
		if code != "" {
			return node{}, code
		}
		n.list[i] = element
		n.joinNext(&element, i == 0)
	}
	return n, ""
}

// joinNext adds the label of a part to that of the whole.
func (n *node) joinNext(part *node, first bool) {
	if first {
		n.label, n.hazy = part.label, part.hazy
		return
	}
	n.label, n.hazy = n.label.join(&part.label), n.hazy|part.hazy
}

// minSize bounds the canonical JSON of a node from below.
func (n *node) minSize() int {
	size := 0
	switch {
	case n.merge != nil:
		return n.size
	case n.list != nil:
		for i := 0; i < len(n.list) && size <= MaxContent; i++ {
			size += n.list[i].minSize()
		}
	case n.value != nil:
		size = n.value.size()
	}
	return size
}

// whole returns the value of a node, if all of it is known and it is not larger than
// any value may be.
func (v *view) whole(n *node) (*Value, bool) {
	switch {
	case (n.merge != nil || n.list != nil) && n.minSize() > MaxContent:
		return nil, false
	case n.merge != nil:
		value := Value{kind: ObjectValue, keys: make([]string, len(n.merge.Inputs)), list: make([]Value, len(n.merge.Inputs))}
		for i := range n.merge.Inputs {
			input, code := v.ref(&n.merge.Inputs[i].Ref)
			part, ok := v.whole(&input)
			if code != "" || !ok {
				return nil, false
			}
			value.keys[i], value.list[i] = n.merge.Inputs[i].Name, *part
		}
		return &value, true
	case n.list != nil:
		value := Value{kind: ListValue, list: make([]Value, len(n.list))}
		for i := range n.list {
			part, ok := v.whole(&n.list[i])
			if !ok {
				return nil, false
			}
			value.list[i] = *part
		}
		return &value, true
	default:
		return n.value, n.value != nil
	}
}

// mayBe reports whether the value can be of a type.
func (v *view) mayBe(n *node, t *Type) bool {
	switch {
	case n.list != nil:
		if t.Kind != ArrayType || t.Limited && len(n.list) > t.MaxItems {
			return false
		}
		for i := range n.list {
			if !v.mayBe(&n.list[i], t.Items) {
				return false
			}
		}
		return true
	case n.merge != nil:
		return t.Kind == ObjectType && v.mayBeObject(n.merge, t)
	case n.literal:
		return t.Has(n.value)
	default:
		return t.accepts(n.typ)
	}
}

// mayBeObject reports whether the inputs of a merge can be the properties of a type.
func (v *view) mayBeObject(merge *Step, t *Type) bool {
	for i := range t.Fields {
		if !t.Fields[i].Optional && merge.input(t.Fields[i].Name) == nil {
			return false
		}
	}
	for i := range merge.Inputs {
		f := t.field(merge.Inputs[i].Name)
		input, code := v.ref(&merge.Inputs[i].Ref)
		if f == nil || code != "" || !v.mayBe(&input, f.Type) {
			return false
		}
	}
	return true
}

// mergeNode returns the value of a merge, or the code of an input that is missing.
func (v *view) mergeNode(s *Step, at Origin) (node, Code) {
	n := node{merge: s, at: at}
	if len(s.Inputs) == 0 {
		return n, EmptyMerge
	}
	for i := range s.Inputs {
		input, code := v.ref(&s.Inputs[i].Ref)
		if code != "" {
			return node{}, code
		}
		n.joinNext(&input, i == 0)
		n.seals = n.seals || input.sealed()
		if n.size <= MaxContent {
			n.size += len(s.Inputs[i].Name) + 4 + input.minSize()
		}
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
		if value, known := v.whole(&n); known {
			args[i].Value = value
		}
	}
	return args, ""
}

// sealed reports whether the value is sealed, or a part of it is.
func (n *node) sealed() bool {
	return n.seals || n.typ.sealed() || slices.ContainsFunc(n.list, func(e node) bool { return e.sealed() })
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
