package kernel

import (
	"cmp"
	"errors"
	"slices"
)

// Sources is a set of where a value came from.
type Sources uint8

// The sources. Derived marks a join and taints nothing.
const (
	UserQuery Sources = 1 << iota
	ToolRead
	ReaderAnswer
	Derived
)

// Subjects is a set of whose data a value is.
type Subjects uint8

// The subjects.
const (
	SubjectUser Subjects = 1 << iota
	ThirdParty
)

// The words of sources and subjects, in the order of their bits.
var (
	sourceWords  = []string{"user_query", "tool_read", "q_llm", "derived"}
	subjectWords = []string{"user", "third_party"}
)

// Readers says what a value may flow into. The zero value is nothing. It is
// immutable.
type Readers struct{ allowed *Grant } // nil: nothing; anything: anything

// anything is the mark of what may flow anywhere.
var anything = &Grant{}

// Anything are the readers of what may flow anywhere.
func Anything() Readers { return Readers{anything} }

// Only returns the readers that have one of the capabilities, or one of the addresses.
func Only(names ...Capability) Readers {
	held := slices.DeleteFunc(slices.Clone(names), func(c Capability) bool { return !c.reader() })
	if len(held) == 0 {
		return Readers{}
	}
	slices.Sort(held)
	return Readers{&Grant{slices.Compact(held)}}
}

// reader reports whether a name can be that of a reader.
func (c Capability) reader() bool { return c.Valid() || isEmail(string(c)) }

// All reports whether the value may flow anywhere.
func (r Readers) All() bool { return r.allowed == anything }

// Capabilities returns those that the value may flow into, where not all may. The
// caller must not change them.
func (r Readers) Capabilities() []Capability {
	if r.allowed == nil {
		return nil
	}
	return r.allowed.held
}

// Admit reports whether the value may flow into what needs all capabilities.
func (r Readers) Admit(names []Capability) bool {
	return r.All() || len(names) == 0 || r.allowed != nil && r.allowed.HoldsAll(names)
}

// meet returns what both admit.
func (r Readers) meet(o Readers) Readers {
	switch {
	case r.All(), o.allowed == nil:
		return o
	case o.All(), r.allowed == nil, slices.Equal(r.allowed.held, o.allowed.held):
		return r
	default:
		return Only(slices.DeleteFunc(slices.Clone(o.allowed.held), func(c Capability) bool { return !r.allowed.Holds(c) })...)
	}
}

// Origin names what content chose through: the full path of the step that it
// came in by, such as delegate/p, with the path into its value, such as
// delegate/p.slot. An origin with a path is a part of the one without: p.slot is a
// part of p, p1 is none.
type Origin string

// Influence is how many bits of a value content can have chosen through one
// origin.
type Influence struct {
	Origin Origin
	Bits   Width
}

// Influences are those of several origins.
type Influences []Influence

// Label says where a value came from, where it may flow, whose data it is, and
// how much of it content can have chosen. Labels only grow (KER-39). A Label is
// immutable. The zero Label is of no source: it counts as tainted, and the value
// may flow nowhere.
type Label struct {
	Sources  Sources  `record:"sources,always"`
	Subjects Subjects `record:"subjects,always"`
	Readers  Readers  `record:"readers,always"`
	// Parsers are the Readers and sub-planners that may be given the value, by
	// name.
	Parsers Readers `record:"parsers,always"`
	// Influence is sorted by origin; no origin is under another.
	Influence Influences `record:"influence,always"`
	// Tools are those that content came from, sorted; [otherContent] is any other way.
	Tools []string `record:"tools"`
}

// lacks: nothing is said of the parsers if it may be any.
func (l *Label) lacks(key string) bool { return key == "parsers" && l.Parsers.All() }

// Trusted is the label of what a person wrote.
func Trusted() Label { return Label{Sources: UserQuery, Readers: Anything(), Parsers: Anything()} }

// Told is the label of what an agent wrote that was told so much by Readers: they may
// have written it. Beyond [Unbounded] it is that.
func Told(bits Width) Label {
	return Label{Sources: UserQuery | ReaderAnswer, Subjects: ThirdParty, Parsers: Anything(), Influence: []Influence{{taskOrigin, min(bits, Unbounded)}}, Tools: []string{otherContent}}
}

// otherContent is what content came from that no tool of the run brought in.
const otherContent = "?"

// taskOrigin is the origin of a task, which no step can have as its path.
const taskOrigin Origin = "?"

// errorOrigin begins the origins of errors that content chose.
const errorOrigin = "!"

// Tainted reports whether content had a part in the value.
func (l *Label) Tainted() bool {
	return l.Sources&(ToolRead|ReaderAnswer) != 0 || l.Sources&UserQuery == 0
}

// ThirdParty reports whether the value is, or may be, somebody else's data.
func (l *Label) ThirdParty() bool { return l.Subjects&ThirdParty != 0 }

// Width returns the influence of all origins together.
func (l *Label) Width() Width {
	var sum Width
	for i := range l.Influence {
		sum = sum.add(l.Influence[i].Bits)
	}
	return sum
}

// chosen is how much of the value content can have chosen, for a rule that bounds it: a
// label that is tainted and does not say is unbounded.
func (l *Label) chosen() Width {
	if l.Tainted() && len(l.Influence) == 0 {
		return Unbounded
	}
	return l.Width()
}

// with returns the label with more sources.
func (l Label) with(s Sources) Label {
	l.Sources |= s
	return l
}

// influencedBy returns the label with one origin in place of all others.
func (l Label) influencedBy(o Origin, bits Width) Label {
	l.Influence = []Influence{{o, bits}}
	return l
}

// Join returns the label of a value that is made of others: the union of sources
// and subjects, the intersection of readers, and for each origin the greatest
// influence; an origin under another falls away, since it is a part of it. The
// join of one label is that label; the join of none is the zero Label.
func Join(labels ...Label) Label {
	if len(labels) == 0 {
		return Label{}
	}
	joined := labels[0]
	for i := 1; i < len(labels); i++ {
		joined = joined.join(&labels[i])
	}
	return joined
}

// join returns the join of two labels.
func (l Label) join(o *Label) Label {
	return Label{
		Sources: l.Sources | o.Sources | Derived, Subjects: l.Subjects | o.Subjects,
		Readers: l.Readers.meet(o.Readers), Parsers: l.Parsers.meet(o.Parsers), Influence: joinInfluence(l.Influence, o.Influence), Tools: joinTools(l.Tools, o.Tools),
	}
}

// joinTools is the union of two sorted lists.
func joinTools(a, b []string) []string {
	switch {
	case len(b) == 0 || slices.Equal(a, b):
		return a
	case len(a) == 0:
		return b
	}
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

func joinInfluence(a, b []Influence) []Influence {
	switch {
	case len(b) == 0 || slices.Equal(a, b):
		return a
	case len(a) == 0:
		return b
	}
	both := slices.Concat(a, b)
	slices.SortFunc(both, func(x, y Influence) int { return cmp.Or(cmp.Compare(x.Origin, y.Origin), cmp.Compare(y.Bits, x.Bits)) })
	both = slices.CompactFunc(both, func(x, y Influence) bool { return x.Origin == y.Origin })
	if len(both) > maxOrigins {
		return manyOrigins
	}
	return slices.DeleteFunc(slices.Clone(both), func(i Influence) bool { return covered(both, i.Origin) })
}

// maxOrigins is how many origins a label tells apart. A plan can name many parts of
// one value.
const maxOrigins = 128

// manyOrigins replaces more than that: how much they chose is not counted.
var manyOrigins = []Influence{{"*", Unbounded}}

// covered reports whether an origin that o is under is among those sorted.
func covered(sorted []Influence, o Origin) bool {
	for i := range len(o) {
		if o[i] != '.' {
			continue
		}
		if _, found := slices.BinarySearchFunc(sorted, o[:i], func(x Influence, p Origin) int { return cmp.Compare(x.Origin, p) }); found {
			return true
		}
	}
	return false
}

// narrow returns the label of a part of a value: at is the origin that the value
// is by itself, part the path into it, and width that of the part's type. What
// content chose of a part is no more than the part can hold, nor than it chose of
// the whole.
func (l Label) narrow(at, part Origin, width Width) Label {
	whole := l.Width()
	switch {
	case len(l.Influence) == 0:
	case len(l.Influence) == 1 && l.Influence[0].Origin == at:
		return l.influencedBy(part, min(width, whole))
	case whole > width:
		return l.influencedBy(part, width)
	}
	return l
}

// MarshalJSON writes {sources, readers, subjects, influence}, as tools and
// vectors do: readers null means anything. parsers is left out if nothing limits
// them. A record has the tools, too.
func (l Label) MarshalJSON() ([]byte, error) {
	l.Tools = nil
	return appendRecord(nil, &l), nil
}

// ErrLabel says that bytes are no label; it quotes nothing.
var ErrLabel = errors.New("kernel: no label: expected sources, readers, subjects and influence")

// UnmarshalJSON reads a label as [Label.MarshalJSON] writes it. Of a label without
// the key parsers, anything may be the parser.
func (l *Label) UnmarshalJSON(b []byte) error {
	v, err := ParseValue(b)
	if err != nil || !l.read(&v) {
		return ErrLabel
	}
	return nil
}

func (l *Label) read(v *Value) bool {
	*l = Label{Parsers: Anything()}
	return decode(v, l, false) && slices.IsSorted(l.Tools)
}

func (s *Sources) recorded() Value    { return wordList(*s, sourceWords) }
func (s *Sources) read(v *Value) bool { return readSet(s, v, sourceWords) }

func (s *Subjects) recorded() Value    { return wordList(*s, subjectWords) }
func (s *Subjects) read(v *Value) bool { return readSet(s, v, subjectWords) }

func wordList[T ~uint8](set T, words []string) Value {
	var list []string
	for i, word := range words {
		if set>>i&1 != 0 {
			list = append(list, word)
		}
	}
	slices.Sort(list)
	return texts(list)
}

func readSet[T ~uint8](set *T, list *Value, words []string) bool {
	for i := range list.list {
		bit := slices.Index(words, list.list[i].text)
		if bit < 0 {
			return false
		}
		*set |= 1 << bit
	}
	return list.kind == ListValue
}

func (r *Readers) recorded() Value {
	if r.All() {
		return Null()
	}
	return texts(r.Capabilities())
}

func (r *Readers) read(v *Value) bool {
	if v.kind == NullValue {
		*r = Anything()
		return true
	}
	names, ok := v.capabilities(Capability.reader)
	*r = Only(names...)
	return ok
}

func (list *Influences) recorded() Value {
	influence := object()
	for _, i := range *list {
		bits := Text("unbounded")
		if i.Bits != Unbounded {
			bits = Int(int64(i.Bits))
		}
		influence.add(string(i.Origin), bits)
	}
	return influence
}

func (list *Influences) read(v *Value) bool {
	for i, origin := range v.keys {
		bits := Unbounded
		switch n := &v.list[i]; {
		case n.kind == IntValue && n.n >= 0 && n.n < int64(Unbounded):
			bits = Width(n.n)
		case n.text != "unbounded":
			return false
		}
		*list = joinInfluence(*list, []Influence{{Origin(origin), bits}})
	}
	return v.kind == ObjectValue
}
