package kernel

import (
	"cmp"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// Ruling is what the gate says about a call. The zero value denies.
type Ruling string

// The rulings.
const (
	Deny       Ruling = ""
	NeedPerson Ruling = "ask"
	Allow      Ruling = "allow"
)

func (r Ruling) known() bool { return r == NeedPerson || r == Allow } // no record has the zero value

// Word returns deny, ask or allow.
func (r Ruling) Word() string { return cmp.Or(string(r), "deny") }

// MarshalText returns the word.
func (r Ruling) MarshalText() ([]byte, error) { return []byte(r.Word()), nil }

// Verdict is a ruling with its reasons. The zero value denies.
type Verdict struct {
	Ruling Ruling `record:"ruling" json:"verdict"`
	Code   Code   `record:"code" json:"code"`
	// Rules are the ids of the rules that decided, in the order of the definitions.
	Rules []string `record:"rules" json:"rules"`
}

// Requester is who started a run, as rules see them.
type Requester struct {
	Name    string `record:"requester" json:"name"`
	Address string `record:"address" json:"address"`
}

// Argument is one argument of a call.
type Argument struct {
	Name  string
	Value *Value // nil where a forecast does not know it
	Label Label
	// Literal says that all of it stands in the plan of the run itself.
	Literal bool
	// Sealed says that nobody but the tool may read it.
	Sealed bool

	hazy haze
}

// haze says what of a label is not decided before a sub-run has ended. It only
// ever adds: sources and subjects may become more, readers fewer. What is hazy is
// tainted for certain.
type haze uint8

const (
	hazyLabel     haze = 1 << iota // sources, subjects, readers, parsers
	hazyInfluence                  // and how much
)

// Call is what the gate judges.
type Call struct {
	Tool      string
	Arguments []Argument
	Grant     Grant
	Asker     Asker
	// Control is the label of what decided that the call is made: of all that the plan
	// was made after. The zero Label is tainted.
	Control Label
	// Steer is the label of what steered the plan to it, which is a part of Control; nil is
	// nothing.
	Steer *Label
	Depth int // of the sub-run; 0 is the run itself

	own       []compiledRule // forbid rules that the requester added
	steerHaze haze
}

// isSteered reports whether content steered the plan to the call.
func (c *Call) isSteered() bool {
	return c.Steer != nil && (c.Steer.Tainted() || c.Steer.ThirdParty())
}

func (c *Call) argument(name string) *Argument {
	return find(c.Arguments, func(a *Argument) bool { return a.Name == name })
}

// Gate is the one place where a call is allowed. It is a function of its kernel's
// definition and the call, and keeps nothing. The zero Gate denies every call.
type Gate struct{ kernel *Kernel }

// Judge judges a call: capability, then schema, then forbid rules, then where the
// arguments come from. It may be called concurrently.
func (g Gate) Judge(c *Call) Verdict {
	v, certain := g.judge(c)
	if !certain { // an argument without a value
		return Verdict{Code: BadArguments}
	}
	return v
}

func (g Gate) judge(c *Call) (Verdict, bool) {
	if g.kernel == nil {
		return Verdict{Code: NoCapability}, true
	}
	t := g.kernel.tools[c.Tool]
	if t == nil || !c.Grant.HoldsAll(t.RequiredCaps) {
		return Verdict{Code: NoCapability}, true
	}
	known, fit := t.fits(c)
	if !fit {
		return Verdict{Code: BadArguments}, true
	}
	rules, forbidden, decided := t.forbidden(c)
	if forbidden {
		return Verdict{Code: Forbidden, Rules: rules}, true
	}
	v, certain := g.provenance(t, c)
	// A denial holds whatever the values turn out to be: those that do not fit, or
	// that a rule forbids, are denied as well.
	return v, certain && (known && decided || v.Ruling == Deny)
}

// fits checks the arguments against the tool's schema; known says that it knew all
// of them.
func (t *Tool) fits(c *Call) (known, fit bool) {
	known = true
	for i := range c.Arguments {
		a := &c.Arguments[i]
		f := t.Input.field(a.Name)
		switch {
		case f == nil, c.argument(a.Name) != a: // twice: rules would see the first alone
			return known, false
		case a.Sealed && !f.Type.takesSealed(): // the check of the plan says so, too
			return known, false
		case a.Value == nil:
			known = false
		case !f.Type.Has(a.Value):
			return known, false
		}
	}
	for i := range t.Input.Fields {
		if f := &t.Input.Fields[i]; !f.Optional && c.argument(f.Name) == nil {
			return known, false
		}
	}
	return known, true
}

// forbidden evaluates the forbid rules, all of them. One that fails forbids, too.
// decided is false where one depends on a value that is not known.
func (t *Tool) forbidden(c *Call) (rules []string, yes, decided bool) {
	decided = true
	for _, list := range [2][]compiledRule{t.rules[Forbid], c.own} {
		for i := range list {
			switch t.evaluate(&list[i], c) {
			case constraint.True, constraint.Failed:
				rules = append(rules, list[i].id)
			case constraint.Undecided:
				decided = false
			}
		}
	}
	return rules, len(rules) > 0, decided
}

// provenance decides whether what the arguments are made of may go where the tool
// takes it.
func (g Gate) provenance(t *Tool, c *Call) (v Verdict, certain bool) {
	// Readers are about what is told, and a write is more: whether it is made, and whom it
	// reaches, content never chooses by them.
	thirdParty := t.Level == Write && c.Control.ThirdParty()
	needed := thirdParty || t.Level == Write && c.Control.Tainted()
	admitted, hazy := !needed, c.steerHaze != 0
	if t.Level == Read && c.isSteered() { // whether it is made tells whom it is made to
		needed, thirdParty = true, c.Steer.ThirdParty()
		admitted = c.Steer.Readers.Admit(t.RequiredCaps)
	}
	for i := range c.Arguments {
		a := &c.Arguments[i]
		hazy = hazy || a.hazy&hazyLabel != 0
		if kind := t.Input.field(a.Name).Type.Kind; t.Level == Read && (kind == IntegerType || kind == BooleanType) && g.returned(t.Service, &a.Label) {
			continue // the id of something, asked for where it came from
		}
		tainted := a.Label.Tainted()
		needed = needed || tainted || a.Label.ThirdParty()
		thirdParty = thirdParty || a.Label.ThirdParty()
		admitted = admitted && (!tainted || a.Label.Readers.Admit(t.RequiredCaps) && !t.Input.field(a.Name).Type.Critical)
	}
	certain = true
	if !t.guarded() || !needed || !thirdParty && len(t.RequiredCaps) > 0 && admitted {
		if certain = !hazy || !t.guarded(); certain {
			return Verdict{Ruling: Allow, Code: Permitted}, true
		}
	}
	for _, step := range [2]struct {
		list    []compiledRule
		verdict Verdict
	}{
		{t.rules[Declassify], Verdict{Ruling: Allow, Code: Declassified}},
		{t.rules[Ask], Verdict{Ruling: NeedPerson, Code: NeedsPerson}},
	} {
		for i := range step.list {
			if r := &step.list[i]; step.verdict.Ruling == Allow && (c.isSteered() || r.controlBits > 0) && c.Control.chosen() > Width(r.controlBits) {
				certain = certain && c.steerHaze == 0
				continue
			}
			switch t.evaluate(&step.list[i], c) {
			case constraint.True:
				step.verdict.Rules = append(step.verdict.Rules, step.list[i].id)
			case constraint.Undecided:
				certain = false
			}
		}
		if len(step.verdict.Rules) > 0 {
			return step.verdict, certain
		}
	}
	return Verdict{Code: NotDeclassified}, certain
}

// returned reports whether a value is what tools of a service returned, and nothing else
// had a part in it: no Reader, and no planner that heard of content. A number of 64 bits
// given back to a read of the same service carries nothing that it does not have; a text may
// be a query that the service sends on.
func (g Gate) returned(service string, l *Label) bool {
	if l.Sources&ToolRead == 0 || l.Sources&^(ToolRead|UserQuery) != 0 || len(l.Tools) == 0 {
		return false
	}
	for _, name := range l.Tools {
		if from := g.kernel.tools[name]; from == nil || from.Service != service {
			return false
		}
	}
	return true
}

// evaluate says what a rule says about a call; one that could not be compiled
// fails.
func (t *Tool) evaluate(r *compiledRule, c *Call) constraint.Truth {
	if r.rule == nil {
		return constraint.Failed
	}
	return r.rule.Evaluate(&callFacts{t, c, r.readsData, r.prices})
}

// callFacts tells a rule about a call.
type callFacts struct {
	tool      *Tool
	call      *Call
	readsData bool
	prices    prices
}

// readable reports whether the rule may read the value of an argument: one that no content
// chose, or a literal of which content can have chosen no more than the rule says.
func (f *callFacts) readable(a *Argument) bool {
	task := &f.call.Asker.Task.Label
	if a.Sealed {
		return false
	}
	return !a.Label.Tainted() || f.readsData || a.Literal && (f.prices.control || f.prices.task && task.Tainted() && slices.Equal(task.Influence, a.Label.Influence))
}

// Fact implements [constraint.Facts].
func (f *callFacts) Fact(i int) constraint.Fact {
	of := &f.tool.facts[i]
	fact := constraint.Fact{State: constraint.FactKnown}
	a := f.call.argument(of.argument)
	if a == nil && of.argument != "" && of.asks != factPart {
		if of.asks == factValue {
			fact.State = constraint.FactUnreadable
		}
		return fact
	}
	switch of.asks {
	case "requester.name":
		fact.Text = f.call.Asker.Requester.Name
	case "requester.address":
		if fact.Text = f.call.Asker.Requester.Address; fact.Text == "" {
			fact.State = constraint.FactUnreadable
		}
	case "run.depth":
		fact.Int = int64(f.call.Depth)
	case "run.grant":
		for _, c := range f.call.Grant.held {
			fact.Texts = append(fact.Texts, string(c))
		}
	case taskInfluence:
		fact.Int = f.call.Asker.Task.Label.chosen().fact()
	case "control.tainted":
		fact.Bool = f.call.Control.Tainted()
	case "control.third_party":
		fact.Bool = f.call.Control.ThirdParty()
	case controlBits:
		fact.Int = f.call.Control.chosen().fact()
	case factPart:
		fact.Part = part{f, of.argument}
	case ".tainted":
		fact.Bool = a.Label.Tainted()
	case ".sealed":
		fact.Bool = a.Sealed
	case ".third_party":
		if fact.Bool = a.Label.ThirdParty(); !fact.Bool && a.hazy&hazyLabel != 0 {
			fact.State = constraint.FactUnknown
		}
	case ".influence":
		if fact.Int = a.Label.Width().fact(); a.hazy&hazyInfluence != 0 {
			fact.State = constraint.FactUnknown
		}
	case factValue:
		return f.value(of, a)
	default:
		fact.State = constraint.FactUnreadable // no such fact
	}
	return fact
}

// value returns the value of an argument, if the rule may read it.
func (f *callFacts) value(of *factOf, a *Argument) constraint.Fact {
	switch {
	case !f.readable(a):
		return constraint.Fact{}
	case a.Value == nil:
		return constraint.Fact{State: constraint.FactUnknown}
	}
	v := a.Value
	for _, name := range of.path {
		if v = v.member(name); v == nil {
			return constraint.Fact{}
		}
	}
	return factOfValue(v, of.Kind)
}

// factOfValue returns a value as rules see it; null is nothing that they can read.
func factOfValue(v *Value, kind constraint.FactKind) constraint.Fact {
	fact := constraint.Fact{State: constraint.FactKnown}
	ok := false
	switch kind {
	case constraint.FactBool:
		fact.Bool, ok = v.flag, v.kind == BoolValue
	case constraint.FactInt:
		fact.Int, ok = v.n, v.kind == IntValue
	case constraint.FactText:
		fact.Text, ok = v.text, v.kind == TextValue
	case constraint.FactDecimal:
		if ok = v.kind == IntValue || v.kind == DecimalValue; ok {
			fact.Decimal = v.decimal()
		}
	case constraint.FactTexts, constraint.FactInts:
		ok = v.kind == ListValue
		for i := range v.list {
			switch e := &v.list[i]; {
			case kind == constraint.FactTexts && e.kind == TextValue:
				fact.Texts = append(fact.Texts, e.text)
			case kind == constraint.FactInts && e.kind == IntValue:
				fact.Ints = append(fact.Ints, e.n)
			default:
				ok = false
			}
		}
	}
	if !ok {
		return constraint.Fact{}
	}
	return fact
}
