package primitive

import (
	"encoding/binary"
	"strconv"
	"sync/atomic"
	"unicode/utf8"
)

const (
	// MaxFields is how many fields a spec may have whose answers a [Matcher] reads.
	MaxFields = 8
	// MaxKept is how many answers a spec may allow if a [Matcher] is to keep those that it has read: six bits of them.
	MaxKept = 64
	// maxAnswer is how long an answer may be.
	maxAnswer = 512
)

// Field is one field of a valid spec: a boolean, an enum, or an integer, which has no values.
type Field struct {
	Key      []byte // the brace or comma before it, its name in canonical JSON and a colon
	Boolean  bool
	Values   [][]byte // of an enum, in NFC, in canonical JSON
	Min, Max int64    // of an integer
}

// Matcher reads answers to one spec. It is safe for concurrent use, and what it answers never changes. A nil Matcher knows
// no answer.
type Matcher struct {
	fields []field
	kept   []atomic.Pointer[string] // the answers met so far, by their number; nil if there may be too many
}

type field struct {
	written []byte // Field.Key
	key     token
	values  []token
	min     int64
	most    uint64 // how many values there are after the first
	weight  uint64 // of a value, in the number of an answer
}

// token is something that is always spelled the same.
type token struct {
	text       []byte
	head, mask uint64 // its first eight bytes, and which of them it has
}

// New returns the matcher of a spec's fields, nil for a spec to which no answer is usual: one that has more than
// [MaxFields], or answers of more than 512 bytes, or a value that is not ASCII or needs an escape. It keeps the keys and values that it is given.
func New(of []Field) *Matcher {
	if len(of) == 0 || len(of) > MaxFields {
		return nil
	}
	m := &Matcher{fields: make([]field, len(of))}
	answers, usual, size := uint64(1), true, len("}")
	for i, f := range of {
		to := &m.fields[i]
		to.written, to.key, to.weight, to.min, to.most = f.Key, readToken(f.Key[1:], &usual), answers, f.Min, uint64(f.Max)-uint64(f.Min)
		if f.Boolean {
			f.Values = booleans
		}
		if f.Values != nil {
			to.values, to.most = make([]token, len(f.Values)), uint64(len(f.Values))-1
		}
		longest := len("-9223372036854775808")
		for n, v := range f.Values {
			to.values[n] = readToken(v, &usual)
			longest = max(longest, len(v))
		}
		size += len(f.Key) + longest
		answers = min(answers*(min(to.most, MaxKept)+1), MaxKept+1)
	}
	if !usual || size > maxAnswer {
		return nil
	}
	if answers <= MaxKept {
		m.kept = make([]atomic.Pointer[string], answers)
	}
	return m
}

// booleans are the values of a boolean.
var booleans = [][]byte{[]byte("false"), []byte("true")}

// readToken returns canonical JSON as a token, and says that it is not usual if it has an escape, or what is not ASCII.
//
//go:noinline
func readToken(text []byte, usual *bool) token {
	for _, c := range text {
		if c >= utf8.RuneSelf || c == '\\' {
			*usual = false
		}
	}
	return token{text, firstEight(text), ^uint64(0) >> (64 - 8*min(8, len(text)))}
}

// begins says whether rest begins with the token; head is its first eight bytes, zeros after its end.
func (t *token) begins(head uint64, rest []byte) bool {
	n := len(t.text)
	return head&t.mask == t.head && (n <= 8 || n <= len(rest) && string(rest[8:n]) == string(t.text[8:]))
}

// firstEight returns the first eight bytes of a text, with zeros after its end: no token has a zero byte.
func firstEight(text []byte) uint64 {
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
	seen, number, at := uint(0), uint64(0), blanks(raw, 0)
	for n := range m.fields {
		if at == len(raw) || raw[at] != m.fields[n].written[0] { // a brace before the first, then commas
			return "", false
		}
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
		at = blanks(raw, at+size)
	}
	if at == len(raw) || raw[at] != '}' || blanks(raw, at+1) < len(raw) {
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

// blanks returns the place at or after at of what is no white space of JSON, or the length of raw.
func blanks(raw []byte, at int) int {
	for at < len(raw) && raw[at] <= ' ' && (raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\t' || raw[at] == '\r') {
		at++
	}
	return at
}

// find returns which field's key rest begins with, or -1. It tries the one at guess first: most answers have the order of the spec.
func (m *Matcher) find(rest []byte, guess int) int {
	head := firstEight(rest)
	i := guess
	for range m.fields {
		if m.fields[i].key.begins(head, rest) {
			return i
		}
		if i++; i == len(m.fields) {
			i = 0
		}
	}
	return -1
}

// read reads the value that rest begins with, and returns its number and how long it is, or 0. That it ends there is for what
// follows to say.
func (f *field) read(rest []byte) (value uint64, size int) {
	if f.values == nil {
		return f.integer(rest)
	}
	head := firstEight(rest)
	for i := range f.values {
		if t := &f.values[i]; t.begins(head, rest) {
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
	var room [maxAnswer]byte
	n := 0
	for i := range m.fields {
		f := &m.fields[i]
		n += copy(room[n:], f.written)
		if f.values == nil {
			n = len(strconv.AppendInt(room[:n], f.min+int64(values[i]), 10))
		} else {
			n += copy(room[n:], f.values[values[i]].text)
		}
	}
	n += copy(room[n:], "}")
	return string(room[:n])
}
