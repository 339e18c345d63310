package text

import "math/bits"

// Set is a set of anomaly codes (PROTOCOL P3.6 to P3.8). The zero value is empty. Numeric values are frozen.
type Set uint16

// The codes. Inconsistent and Divergent are raised by whoever compares answers, Custom only by an operator's own rules, Secret
// by whoever knows the shapes of secrets.
const (
	Instruction  Set = 1 << 0 // language that tells the reader of a text what to do
	URL          Set = 1 << 1 // an address of the web, also a disguised one
	Code         Set = 1 << 2 // program text, markup, shell or database commands
	Encoded      Set = 1 << 3 // base64, hexadecimal or percent-encoded data
	RoleMarker   Set = 1 << 4 // text that poses as a turn of a conversation
	ToolCall     Set = 1 << 5 // text that looks like a call of a tool
	Invisible    Set = 1 << 6 // invisible code points were in the received text
	Inconsistent Set = 1 << 7 // P3.7
	Divergent    Set = 1 << 8 // P3.8
	Custom       Set = 1 << 9
	Secret       Set = 1 << 10 // a token, a private key, a password
	// WeakSign is what holds no answer by itself: language that may tell its reader what to do, the name of a command. It must depend on
	// the normalised text alone, or an answer that is delivered with it would carry a bit more (CAPACITY.md).
	WeakSign Set = 1 << 11
)

// codeNames are the wire words in the order of the bits.
var codeNames = [...]string{"instruction", "url", "code", "encoded", "role_marker", "tool_call", "invisible", "inconsistent", "divergent", "custom", "secret", "weak_sign"}

// ParseCode finds the set of one code by its wire word; ok is false for an unknown one.
func ParseCode(word string) (code Set, ok bool) {
	for i, name := range codeNames {
		if name == word {
			return 1 << i, true
		}
	}
	return 0, false
}

// Strong are the codes that hold an answer by themselves.
func (s Set) Strong() Set { return s &^ WeakSign }

// InName are the codes of a name or an address: a weak sign is a strong one there, where no sentence is expected.
func (s Set) InName() Set {
	if s.Has(WeakSign) {
		s = s.Strong() | Instruction
	}
	return s
}

// Has says whether every code of other is in the set.
func (s Set) Has(other Set) bool { return s&other == other }

// Codes lists the wire words of the set, always in the order of the constants, without repeats.
func (s Set) Codes() []string {
	out := make([]string, 0, bits.OnesCount16(uint16(s)))
	for i, name := range codeNames {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}
