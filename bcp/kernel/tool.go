package kernel

import (
	"cmp"
	"time"
)

// EffectLevel says what a call can do to the world.
type EffectLevel string

// The levels.
const (
	Pure  EffectLevel = "pure"  // computes
	Read  EffectLevel = "read"  // brings content in
	Write EffectLevel = "write" // changes something
)

// Idempotency says what becomes of a call that nobody knows to have been done.
type Idempotency string

// The kinds of idempotency.
const (
	// ByLevel: a read is free, a write is not.
	ByLevel Idempotency = ""
	// Free: doing it twice is as good as once.
	Free Idempotency = "free"
	// ByKey: the tool knows the key of a call, and repeats its outcome.
	ByKey Idempotency = "key"
	// Once: it must not be sent again before a person has looked.
	Once Idempotency = "none"
)

// DefaultToolTimeout is how long a tool may take whose definition says nothing.
const DefaultToolTimeout = 30 * time.Second

// Tool is one tool of a service, as its operator defines it. Its tags are the keys of what is the same in JSON.
type Tool struct {
	Service     string `json:"service"`
	Name        string `json:"name"`
	Description string `json:"description"` // written by the operator: planners see it
	Input       *Type  `json:"-"`           // an object: its fields are the arguments
	Output      *Type  `json:"-"`
	// RequiredCaps are needed to call it; a write has at least one.
	RequiredCaps []Capability `json:"required_caps"`
	Level        EffectLevel  `json:"effect_level"`
	// NoEgress says that a read keeps its arguments to itself. Those of any other read
	// need provenance, as those of a write do: it may carry them outside.
	NoEgress bool `json:"-"`
	// Wrong says what is wrong with Input or Output, where they could not be read.
	Wrong error `json:"-"`
	// Readers are the capabilities that what it returns may flow into, and the addresses
	// of people who may read it; nil is none.
	Readers []Capability `json:"result_readers"`
	// Subjects are whose data it returns.
	Subjects Subjects `json:"-"`
	// Trusted says that what it returns is as trusted as its arguments.
	Trusted bool `json:"result_trusted"`
	// Parsers are the Readers and sub-planners that may be given what it returns;
	// nil is all.
	Parsers     []string    `json:"parsers"`
	Idempotency Idempotency `json:"idempotency"`
	// Timeout is how long it may take; 0 is [DefaultToolTimeout].
	Timeout time.Duration `json:"timeout"`

	facts []factOf                      // what rules can ask about a call of it
	rules map[RuleEffect][]compiledRule // about it, in the order of the definitions
}

// idempotency returns what holds for the tool.
func (t *Tool) idempotency() Idempotency {
	switch {
	case t.Idempotency != ByLevel:
		return t.Idempotency
	case t.Level == Write:
		return Once
	default:
		return Free
	}
}

// Repeats reports whether a call without an outcome is sent again.
func (t *Tool) Repeats() bool { return t.idempotency() != Once }

func (t *Tool) timeout() time.Duration { return cmp.Or(t.Timeout, DefaultToolTimeout) }

// guarded reports whether arguments of the tool need provenance.
func (t *Tool) guarded() bool { return t.Level != Pure && (t.Level != Read || !t.NoEgress) }

// ResultLabel returns the label of what a call returns. arguments is the join of
// the labels of its arguments, or the label of the run's query if it has none;
// at is the origin of the step.
func (t *Tool) ResultLabel(arguments Label, at Origin) Label {
	l := arguments
	l.Subjects |= t.Subjects
	if t.Parsers != nil {
		l.Parsers = l.Parsers.meet(parserReaders(t.Parsers))
	}
	if t.Level == Pure || t.Trusted {
		return l
	}
	l.Readers = l.Readers.meet(Only(t.Readers...))
	l.Tools = joinTools(l.Tools, []string{t.Name})
	return l.with(ToolRead).influencedBy(at, t.Output.Width())
}

// parseLabel returns the label of a Reader's answer about a value.
func (s *Schema) parseLabel(source Label, at Origin) Label {
	return source.with(ReaderAnswer).influencedBy(at, s.typ.Width())
}

// parserReaders returns agents as [Label.Parsers] has them: their names are names of
// capabilities, too.
func parserReaders(agents []string) Readers {
	names := make([]Capability, len(agents))
	for i, a := range agents {
		names[i] = Capability(a)
	}
	return Only(names...)
}
