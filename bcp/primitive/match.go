package primitive

import (
	"encoding/binary"
	"slices"
	"strconv"
	"sync/atomic"
	"unicode/utf8"
)

const (
	// MaxFields is how many fields a spec may have whose answers a [Matcher] reads.
	MaxFields = 8
	// MaxKept is how many answers a spec may allow if a [Matcher] is to keep those that it has read: six bits of them.
	MaxKept = 64
)

// Kind is the type of a field. The zero value is none.
type Kind uint8

// The types of category 1 (PROTOCOL P3.1).
const (
	Boolean Kind = 1
	Enum    Kind = 2
	Integer Kind = 3
)

// Field is one field of a valid spec.
type Field struct {
	Key      []byte // its name in canonical JSON and a colon
	Kind     Kind
	Min, Max int64    // of an integer
	Values   [][]byte // of an enum, in NFC, in canonical JSON
}

// Matcher reads answers to one spec. It is safe for concurrent use, and what it answers never changes. A nil Matcher knows
// no answer.
type Matcher struct {
	fields []field
	kept   []atomic.Pointer[string] // the answers met so far, by their number; nil if there may be too many
}

type field struct {
	kind   Kind
	min    int64
	most   uint64 // how many values there are behind the first
	weight uint64 // of a value, in the number of an answer
	key    token
	values []token
}

// token is something that is always spelled the same.
type token struct {
	text       []byte
	head, mask uint64 // its first eight bytes, and which of them it has
}

// New returns the matcher of a spec's fields, nil for a spec to which no answer is usual: one that has more than
// [MaxFields], or a value that is not ASCII or needs an escape. It keeps the keys and values that it is given.
func New(of []Field) *Matcher {
	if len(of) == 0 || len(of) > MaxFields {
		return nil
	}
	m := &Matcher{fields: make([]field, len(of))}
	answers := uint64(1)
	for i, f := range of {
		if f.Kind < Boolean || f.Kind > Integer || unusual(f.Key) || slices.ContainsFunc(f.Values, unusual) {
			return nil
		}
		to := &m.fields[i]
		*to = field{kind: f.Kind, key: tokenOf(f.Key), weight: answers}
		switch f.Kind {
		case Boolean:
			to.most = 1
		case Enum:
			to.most = uint64(len(f.Values)) - 1
			for _, v := range f.Values {
				to.values = append(to.values, tokenOf(v))
			}
		case Integer:
			to.min, to.most = f.Min, uint64(f.Max)-uint64(f.Min)
		}
		answers = min(answers*(min(to.most, MaxKept)+1), MaxKept+1)
	}
	if answers <= MaxKept {
		m.kept = make([]atomic.Pointer[string], answers)
	}
	return m
}

// unusual says whether canonical JSON has an escape, or what is not ASCII.
func unusual(canonical []byte) bool {
	return slices.ContainsFunc(canonical, func(c byte) bool { return c >= utf8.RuneSelf || c == '\\' })
}

func tokenOf(text []byte) token {
	var head [8]byte
	n := copy(head[:], text)
	return token{text, binary.LittleEndian.Uint64(head[:]), ^uint64(0) >> (64 - 8*n)}
}

// begins says whether rest begins with the token; head is its first eight bytes, zeros behind its end.
func (t *token) begins(head uint64, rest []byte) bool {
	n := len(t.text)
	return head&t.mask == t.head && (n <= 8 || n <= len(rest) && string(rest[8:n]) == string(t.text[8:]))
}

// headOf returns the first eight bytes of a text, with zeros behind its end: no token has a zero byte.
func headOf(text []byte) uint64 {
	if len(text) >= 8 {
		return binary.LittleEndian.Uint64(text)
	}
	head := uint64(0)
	for i, b := range text {
		head |= uint64(b) << (8 * i)
	}
	return head
}

// Match returns the canonical spelling of an answer (PROTOCOL P3.4): the fields in the order of the spec, without white space. It
// is false for an answer that is not usual, or not valid. It does not keep raw.
func (m *Matcher) Match(raw []byte) (canonical string, ok bool) {
	if m == nil {
		return "", false
	}
	var values [MaxFields]uint64 // by field: which of its values, from 0
	seen, number, at, open := uint(0), uint64(0), 0, byte('{')
	for n := range m.fields {
		if at = blanks(raw, at); at == len(raw) || raw[at] != open {
			return "", false
		}
		open = ','
		at = blanks(raw, at+1)
		i := m.find(raw[at:], n)
		if i < 0 || seen&(1<<i) != 0 {
			return "", false
		}
		seen |= 1 << i
		f := &m.fields[i]
		at = blanks(raw, at+len(f.key.text))
		value, size := f.read(raw[at:])
		if size == 0 {
			return "", false
		}
		values[i] = value
		number += value * f.weight
		at += size
	}
	if at = blanks(raw, at); at == len(raw) || raw[at] != '}' || blanks(raw, at+1) < len(raw) {
		return "", false
	}
	if m.kept == nil {
		return m.canonical(&values), true
	}
	if kept := m.kept[number].Load(); kept != nil {
		return *kept, true
	}
	first := m.canonical(&values)
	m.kept[number].Store(&first)
	return first, true
}

// blanks returns the place at or behind at of what is no white space of JSON, or the length of raw.
func blanks(raw []byte, at int) int {
	for at < len(raw) && raw[at] <= ' ' && (raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\t' || raw[at] == '\r') {
		at++
	}
	return at
}

// find returns which field's key rest begins with, or -1. It tries the one at guess first: most answers have the order of the spec.
func (m *Matcher) find(rest []byte, guess int) int {
	head := headOf(rest)
	if m.fields[guess].key.begins(head, rest) {
		return guess
	}
	for i := range m.fields {
		if m.fields[i].key.begins(head, rest) {
			return i
		}
	}
	return -1
}

// The values of a boolean, by number.
var (
	words    = [2]string{"false", "true"}
	booleans = [2]token{tokenOf([]byte(words[0])), tokenOf([]byte(words[1]))}
)

// read reads the value that rest begins with, and returns its number and how long it is, or 0. That it ends there is for what
// follows to say.
func (f *field) read(rest []byte) (value uint64, size int) {
	values := f.values
	switch f.kind {
	case Integer:
		return f.integer(rest)
	case Boolean:
		values = booleans[:]
	}
	head := headOf(rest)
	for i := range values {
		if t := &values[i]; t.begins(head, rest) {
			return uint64(i), len(t.text)
		}
	}
	return 0, 0
}

// longest is how many digits fit into an int64, whichever they are.
const longest = 18

// integer reads a number in its one spelling.
func (f *field) integer(rest []byte) (value uint64, size int) {
	first := 0
	if len(rest) > 0 && rest[0] == '-' {
		first = 1
	}
	end, n := first, int64(0)
	for end < len(rest) && rest[end]-'0' <= 9 {
		n = n*10 + int64(rest[end]-'0')
		if end++; end > longest {
			return 0, 0
		}
	}
	if end == first || rest[first] == '0' && end > 1 { // 007, and -0
		return 0, 0
	}
	if first > 0 {
		n = -n
	}
	if value = uint64(n) - uint64(f.min); n < f.min || value > f.most {
		return 0, 0
	}
	return value, end
}

// canonical writes an answer.
func (m *Matcher) canonical(values *[MaxFields]uint64) string {
	var room [256]byte
	out := append(room[:0], '{')
	for i := range m.fields {
		f, value := &m.fields[i], values[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, f.key.text...)
		switch f.kind {
		case Boolean:
			out = append(out, words[value]...)
		case Enum:
			out = append(out, f.values[value].text...)
		case Integer:
			out = strconv.AppendInt(out, f.min+int64(value), 10)
		}
	}
	return string(append(out, '}'))
}
