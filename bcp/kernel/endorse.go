package kernel

import (
	"crypto/sha256"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What people endorse of calls (PROTOCOL P7.9): those of one tool with the same critical
// arguments, whatever the others are, as far as content chose no more than so many bits of
// them. Who endorsed what, and how much is left, is the mesh's state, which a State asks.

// EndorseBy says what asks whether a call was endorsed that a person would have to decide
// about. Without it none was.
func (s *State) EndorseBy(endorsed func(bcp.EndorsedCall) *bcp.EndorseChange) { s.endorsed = endorsed }

// endorsed returns the endorsement by which a call is made that the gate asks a person
// about, as it is after that, or nil.
func (d *draft) endorsed(c *Call, v *Verdict) *bcp.EndorseChange {
	t := d.kernel.tools[c.Tool]
	if d.state.endorsed == nil || t.person(c, v) != "" {
		return nil
	}
	critical, bits, ok := t.chosen(c)
	if !ok {
		return nil
	}
	return d.state.endorsed(bcp.EndorsedCall{Kernel: d.kernel.Name(), Tool: c.Tool, Critical: sha256.Sum256(argumentsJSON(critical)), Bits: bits, Time: d.change.Time})
}

// person says why a person has to decide about each call like this one, which the gate
// asks about; empty: one endorsement may be for several.
func (t *Tool) person(c *Call, v *Verdict) string {
	if t == nil || c == nil || v.Ruling != NeedPerson {
		return "no rule asks about it"
	}
	if c.Control.Tainted() || c.Control.ThirdParty() || c.isSteered() {
		return "content had a part in whether it is made"
	}
	for i := range t.rules[Ask] {
		if r := &t.rules[Ask][i]; !r.labels && slices.Contains(v.Rules, r.id) {
			return "the rule " + r.id + " looks at more than how much content chose"
		}
	}
	critical := false
	for i := range c.Arguments {
		a := &c.Arguments[i]
		switch {
		case a.Sealed:
			return "nobody sees " + a.Name
		case t.isCritical(a) && (a.Label.Tainted() || a.Label.ThirdParty() || a.Label.Width() > 0):
			return "content had a part in " + a.Name
		}
		critical = critical || t.isCritical(a)
	}
	if _, _, ok := t.chosen(c); !critical || !ok {
		return "its critical arguments, or how much content chose of the others, are not known"
	}
	return ""
}

func (t *Tool) isCritical(a *Argument) bool {
	f := t.Input.field(a.Name)
	return f != nil && f.Type.Critical
}

// chosen returns the critical arguments of a call, and how much content chose of the others
// together; ok is false if that is not bounded, or a value is not known.
func (t *Tool) chosen(c *Call) (critical []Argument, bits bcp.Bits, ok bool) {
	var label *Label
	for i := range c.Arguments {
		switch a := &c.Arguments[i]; {
		case a.Value == nil || a.hazy != 0 || a.Label.chosen() == Unbounded:
			return nil, 0, false
		case t.isCritical(a):
			critical = append(critical, *a)
		case label == nil:
			label = &a.Label
		default:
			label = new(label.join(&a.Label))
		}
	}
	if label == nil {
		return critical, 0, true
	}
	width := label.Width()
	return critical, bcp.Bits(width) * bcp.Bit, width <= bcp.MaxBits
}
