package kernel

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// part is what functions of rules are about: an argument of a call, or, without a name,
// the task.
type part struct {
	facts *callFacts
	name  string
}

func truth(yes bool) constraint.Truth {
	if yes {
		return constraint.True
	}
	return constraint.False
}

// argument returns the argument; nil if the call has none of the name, or null.
func (p *part) argument() *Argument {
	a := p.facts.call.argument(p.name)
	if a != nil && a.Value != nil && a.Value.kind == NullValue {
		return nil
	}
	return a
}

// Mentions implements [constraint.Part]: task.mentions(args.to) holds if all texts and
// numbers of the argument stand in the requester's own words, as whole words. What
// content chose is never mentioned; what a plan has as a literal may be, also if content
// chose among such literals. Words that content may have chosen are the requester's own
// only for a rule that says how many bits of them it takes (task.influence, or
// control.bits, which counts errors, too).
func (p part) Mentions(o constraint.Part) constraint.Truth {
	named, ok := o.(part)
	task := &p.facts.call.Asker.Task
	if !ok || p.name != "" || named.name == "" {
		return constraint.Failed
	}
	switch a := named.argument(); {
	case !task.Known:
		return constraint.Undecided
	case (task.Label.Tainted() || task.Label.ThirdParty()) && !p.facts.prices.task && !p.facts.prices.control:
		return constraint.Failed
	case a == nil:
		return constraint.True
	case a.Sealed, a.Label.Tainted() && !a.Literal:
		return constraint.False
	case a.Value == nil:
		return constraint.Undecided
	default:
		return truth(readWords(task.Text).have(a.Value))
	}
}

// From implements [constraint.Part].
func (p part) From(tools []string) constraint.Truth {
	a := p.argument()
	if p.name == "" {
		return constraint.Failed
	}
	if a == nil || !a.Label.Tainted() && a.hazy == 0 {
		return constraint.False
	}
	among := 0
	for _, tool := range a.Label.Tools {
		if slices.Contains(tools, tool) {
			among++
		}
	}
	switch {
	case a.hazy&hazyLabel != 0:
		return constraint.Undecided
	case len(a.Label.Tools) == 0 || among > 0 && among < len(a.Label.Tools):
		return constraint.Failed
	default:
		return truth(among > 0)
	}
}

// ReadableBy implements [constraint.Part]: args.body.readableBy(args.to) holds if every
// address that the argument o names is among those who may read this one.
func (p part) ReadableBy(o constraint.Part) constraint.Truth {
	named, ok := o.(part)
	if !ok || p.name == "" || named.name == "" {
		return constraint.Failed
	}
	a, who := p.argument(), named.argument()
	switch {
	case who == nil, !p.facts.readable(who):
		return constraint.Failed
	case a == nil || a.Label.Readers.All() && a.hazy&hazyLabel == 0:
		return constraint.True
	case who.Value == nil:
		return constraint.Undecided
	}
	addresses := []Value{*who.Value}
	if who.Value.kind == ListValue {
		addresses = who.Value.list
	}
	for i := range addresses {
		if address := &addresses[i]; address.kind != TextValue || !isEmail(address.text) || !a.Label.Readers.Admit([]Capability{Capability(address.text)}) {
			return constraint.False
		}
	}
	if a.hazy&hazyLabel != 0 {
		return constraint.Undecided
	}
	return truth(len(addresses) > 0)
}

// words are those of a task, with one space for any white space.
type words []rune

func readWords(text string) words {
	return words(strings.Join(strings.FieldsFunc(norm.NFC.String(text), isSpace), " "))
}

func isSpace(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// around is the punctuation that may stand around a word and belongs to none. What may
// begin or end an address or a path, such as + or /, is not in it.
const around = ".,;:!?\"'()[]{}<>`\u00ab\u00bb\u2018\u2019\u201a\u201c\u201d\u201e\u2026"

// have reports whether a value stands among the words. A list or an object does if all
// that it holds does; true and false are no words.
func (w words) have(v *Value) bool {
	switch v.kind {
	case TextValue:
		return w.haveText([]rune(v.text))
	case IntValue, DecimalValue:
		return slices.ContainsFunc(strings.Split(string(w), " "), func(word string) bool {
			n, ok := readNumber(strings.Trim(word, around))
			return ok && compareDecimals(n.decimal(), v.decimal()) == 0
		})
	case ListValue, ObjectValue:
		return len(v.list) > 0 && !slices.ContainsFunc(v.list, func(e Value) bool { return e.kind != NullValue && !w.have(&e) })
	default:
		return false
	}
}

// haveText reports whether a text stands among the words, from the beginning of one to
// the end of one. A text in another spelling than its canonical one is not there.
func (w words) haveText(text []rune) bool {
	if len(text) == 0 || string(readWords(string(text))) != string(text) || strings.ContainsRune(around, text[0]) || strings.ContainsRune(around, text[len(text)-1]) {
		return false
	}
	for i := 0; i+len(text) <= len(w); i++ {
		if slices.EqualFunc(w[i:i+len(text)], text, same) && w.ends(i-1, -1) && w.ends(i+len(text), 1) {
			return true
		}
	}
	return false
}

// ends reports whether no word goes on at a place, in a direction: there is nothing but
// punctuation before the next space, or a comma or semicolon that is not in a number.
func (w words) ends(i, step int) bool {
	digit := func(i int) bool { return i >= 0 && i < len(w) && w[i] >= '0' && w[i] <= '9' }
	for ; i >= 0 && i < len(w) && w[i] != ' '; i += step {
		if (w[i] == ',' || w[i] == ';') && !(digit(i-1) && digit(i+1)) {
			return true
		}
		if !strings.ContainsRune(around, w[i]) {
			return false
		}
	}
	return true
}

// same compares two characters, without the case of ASCII letters: look-alikes are others.
func same(a, b rune) bool { return a == b || a|0x20 == b|0x20 && a|0x20 >= 'a' && a|0x20 <= 'z' }

// readNumber reads a word that is a number, perhaps with a sign of a currency before or
// behind it, and commas between thousands.
func readNumber(word string) (Value, bool) {
	number := strings.Trim(word, "$\u20ac\u00a3\u00a5%")
	whole, fraction, _ := strings.Cut(number, ".")
	if groups := strings.Split(whole, ","); len(groups) > 1 {
		for i, group := range groups {
			if i > 0 && len(group) != 3 || i == 0 && (len(group) == 0 || len(group) > 3) {
				return Value{}, false
			}
		}
		number = strings.ReplaceAll(whole, ",", "")
		if fraction != "" {
			number += "." + fraction
		}
	}
	v, err := ParseValue([]byte(number))
	return v, err == nil && (v.kind == IntValue || v.kind == DecimalValue)
}
