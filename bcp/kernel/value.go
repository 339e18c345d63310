package kernel

import (
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// ValueKind is the kind of a JSON value.
type ValueKind uint8

// The kinds of values. The zero value is no value.
const (
	NoValue ValueKind = iota
	NullValue
	BoolValue
	IntValue
	DecimalValue // a number that was spelled with a fraction
	TextValue
	ListValue
	ObjectValue
)

// Value is one immutable JSON value, read strictly. The zero Value is none.
type Value struct {
	kind ValueKind
	flag bool
	n    int64
	text string   // of a text, or of a decimal in its shortest spelling with a fraction
	list []Value  // of a list, or of an object in the order of keys
	keys []string // of an object, sorted
}

// Null, Bool, Int, Text and List make values.
func Null() Value { return Value{kind: NullValue} }

// Bool returns the value of a boolean.
func Bool(b bool) Value { return Value{kind: BoolValue, flag: b} }

// Int returns the value of an integer.
func Int(n int64) Value { return Value{kind: IntValue, n: n} }

// Text returns the value of a text, which is valid UTF-8.
func Text(s string) Value { return Value{kind: TextValue, text: strings.ToValidUTF8(s, "\ufffd")} }

// List returns the value of a list.
func List(values ...Value) Value { return Value{kind: ListValue, list: values} }

// Kind returns the kind of the value.
func (v *Value) Kind() ValueKind { return v.kind }

// errValue says that bytes are no value; it quotes nothing.
var errValue = errors.New("kernel: no JSON value under the rules of the protocol")

// ParseValue reads one JSON value by the rules of PROTOCOL P2.2, and null and
// numbers with a fraction besides. It returns an error for anything else.
func ParseValue(b []byte) (Value, error) { return readValue(b, 0) }

// readValue is ParseValue for what may nest deeper: [wire.MaxDepth] for each time that it
// may, and once more.
func readValue(b []byte, deeper int) (Value, error) {
	var open [16]Value // on the stack: they are copied when a list or object ends
	var keys [16]string
	room := min(max(len(b)/valueBytes, 1), 64)
	r := valueReader{deeper: deeper, scan: wire.NewScanner(b), bytes: b, text: string(b), values: parts[Value]{open: open[:0], chunk: room}, keys: parts[string]{open: keys[:0], chunk: room}}
	v, err := r.value()
	if err == nil {
		err = r.scan.End()
	}
	if err != nil {
		return Value{}, errValue
	}
	return v, nil
}

// valueReader reads one document. Its texts are parts of one copy of the input, and
// what lists and objects hold lies together, so that a document takes few
// allocations.
type valueReader struct {
	scan   wire.Scanner
	bytes  []byte
	text   string
	values parts[Value]
	keys   parts[string]
	depth  int // of what is open
	deeper int
}

// parts are the parts of the lists and objects that are being read. Those of one that
// was read to its end go to room.
type parts[T any] struct {
	open, room []T
	chunk      int // how many are made room for at a time
}

// close returns the parts since a mark, in a slice of their own.
func (p *parts[T]) close(mark int) []T {
	n := len(p.open) - mark
	if n == 0 {
		return nil
	}
	if cap(p.room)-len(p.room) < n {
		p.room = make([]T, 0, max(n, p.chunk))
	}
	start := len(p.room)
	p.room = append(p.room, p.open[mark:]...)
	p.open = p.open[:mark]
	return p.room[start : start+n : start+n]
}

// valueBytes is about how long the spelling of one value is in a plan.
const valueBytes = 14

func (r *valueReader) value() (Value, error) {
	kind := r.scan.Kind()
	if r.deeper > 0 && r.depth == wire.MaxDepth && (kind == wire.KindArray || kind == wire.KindObject) {
		b, err := r.scan.Opaque()
		if err != nil {
			return Value{}, err
		}
		return readValue(b, r.deeper-1)
	}
	switch kind {
	case wire.KindNull:
		return Null(), r.scan.Null()
	case wire.KindBool:
		b, err := r.scan.Bool()
		return Bool(b), err
	case wire.KindNumber:
		return r.number()
	case wire.KindString:
		b, err := r.scan.String(nil)
		return Value{kind: TextValue, text: r.share(b)}, err
	case wire.KindArray:
		return r.array()
	default:
		return r.object()
	}
}

// share returns b as a string: a part of the copy of the input, if b is a part of
// the input.
func (r *valueReader) share(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if end := r.scan.Offset() - 1; end >= len(b) {
		for _, end := range [2]int{end, end - 1} { // after the quote, or the colon of a key
			if start := end - len(b); start >= 0 && &r.bytes[start] == &b[0] {
				return r.text[start:end]
			}
		}
	}
	return string(b)
}

func (r *valueReader) number() (Value, error) {
	b, fraction, err := r.scan.Number()
	if err != nil {
		return Value{}, err
	}
	if fraction {
		text := strings.TrimRight(string(b), "0")
		if strings.HasSuffix(text, ".") { // read again, it is a number with a fraction still
			text += "0"
		}
		return Value{kind: DecimalValue, text: text}, nil
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return Int(n), err
}

func (r *valueReader) array() (Value, error) {
	if err := r.scan.ArrayStart(); err != nil {
		return Value{}, err
	}
	mark := len(r.values.open)
	r.depth++
	for r.scan.More() {
		element, err := r.value()
		if err != nil {
			return Value{}, err
		}
		r.values.open = append(r.values.open, element)
	}
	r.depth--
	return Value{kind: ListValue, list: r.values.close(mark)}, nil
}

func (r *valueReader) object() (Value, error) {
	if err := r.scan.ObjectStart(); err != nil {
		return Value{}, err
	}
	mark, keys := len(r.values.open), len(r.keys.open)
	sorted := true
	r.depth++
	for r.scan.More() {
		key, err := r.scan.Key(nil)
		if err != nil || len(r.keys.open)-keys == wire.MaxKeys {
			return Value{}, errValue
		}
		name := r.share(key)
		sorted = sorted && (len(r.keys.open) == keys || r.keys.open[len(r.keys.open)-1] < name)
		r.keys.open = append(r.keys.open, name)
		element, err := r.value()
		if err != nil {
			return Value{}, err
		}
		r.values.open = append(r.values.open, element)
	}
	r.depth--
	v := Value{kind: ObjectValue, list: r.values.close(mark), keys: r.keys.close(keys)}
	if !sorted && !v.sort() {
		return Value{}, errValue
	}
	return v, nil
}

// sort brings the members of an object that was read into their order. It is false
// where a key is there twice.
func (v *Value) sort() bool {
	for i := 1; i < len(v.keys) && len(v.keys) <= 8; i++ {
		for j := i; j > 0 && v.keys[j] < v.keys[j-1]; j-- {
			byKey(*v).Swap(j, j-1)
		}
	}
	if len(v.keys) > 8 {
		sort.Sort(byKey(*v))
	}
	for i := 1; i < len(v.keys); i++ {
		if v.keys[i] == v.keys[i-1] {
			return false
		}
	}
	return true
}

// byKey sorts the keys of an object, with their values.
type byKey Value

func (v byKey) Len() int           { return len(v.keys) }
func (v byKey) Less(i, j int) bool { return v.keys[i] < v.keys[j] }
func (v byKey) Swap(i, j int) {
	v.keys[i], v.keys[j] = v.keys[j], v.keys[i]
	v.list[i], v.list[j] = v.list[j], v.list[i]
}

// member returns a member of an object, or nil.
func (v *Value) member(key string) *Value {
	for i, k := range v.keys {
		if k == key {
			return &v.list[i]
		}
	}
	return nil
}

// AppendJSON appends the one canonical spelling of the value: sorted keys, no
// white space, shortest numbers. Of no value it appends null.
func (v *Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case BoolValue:
		return strconv.AppendBool(dst, v.flag)
	case IntValue:
		return strconv.AppendInt(dst, v.n, 10)
	case DecimalValue:
		return append(dst, v.text...)
	case TextValue:
		return appendText(dst, v.text)
	case ListValue:
		dst = append(dst, '[')
		for i := range v.list {
			dst = v.list[i].AppendJSON(wire.AppendSep(dst))
		}
		return append(dst, ']')
	case ObjectValue:
		dst = append(dst, '{')
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.list[i].AppendJSON(append(appendText(dst, v.keys[i]), ':'))
		}
		return append(dst, '}')
	default:
		return append(dst, "null"...)
	}
}

// size bounds the length of the canonical spelling from below.
func (v *Value) size() int {
	n := 1
	switch v.kind {
	case TextValue, DecimalValue:
		n += len(v.text)
	case ListValue, ObjectValue:
		for i := range v.list {
			n += 1 + v.list[i].size()
		}
		for _, key := range v.keys {
			n += len(key) + 3
		}
	}
	return n
}

// depth returns how deep lists and objects nest; a scalar has 0. What is deeper than
// [wire.MaxDepth] cannot be read again: merges of merges can be.
func (v *Value) depth() int {
	if v.kind != ListValue && v.kind != ObjectValue {
		return 0
	}
	deepest := 0
	for i := range v.list {
		deepest = max(deepest, v.list[i].depth())
	}
	return 1 + deepest
}

// appendText appends a JSON string. Texts come from the scanner or from
// [Text], so that they are valid.
func appendText(dst []byte, s string) []byte {
	dst, _ = wire.AppendString(dst, s)
	return dst
}

// JSON returns the canonical spelling of the value.
func (v *Value) JSON() []byte { return v.AppendJSON(nil) }

// MarshalJSON returns the canonical spelling.
func (v Value) MarshalJSON() ([]byte, error) { return v.JSON(), nil }

// Equal reports whether both are the same value. 1 and 1.0 are two.
func (v *Value) Equal(o *Value) bool {
	return v.kind == o.kind && v.flag == o.flag && v.n == o.n && v.text == o.text && slices.Equal(v.keys, o.keys) &&
		slices.EqualFunc(v.list, o.list, func(a, b Value) bool { return a.Equal(&b) })
}

// scalar reports whether the value has no parts.
func (v *Value) scalar() bool { return v.kind >= NullValue && v.kind <= TextValue }

// decimal returns a number as rules compare it.
func (v *Value) decimal() constraint.Decimal {
	if v.kind == IntValue {
		return constraint.Decimal{Whole: v.n}
	}
	const unit = 1_000_000_000_000_000
	text, negative := strings.CutPrefix(v.text, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	w, _ := strconv.ParseInt(whole, 10, 64)
	f, _ := strconv.ParseInt(fraction+strings.Repeat("0", 15-len(fraction)), 10, 64)
	switch {
	case negative && f == 0:
		return constraint.Decimal{Whole: -w}
	case negative:
		return constraint.Decimal{Whole: -w - 1, Fraction: unit - f}
	default:
		return constraint.Decimal{Whole: w, Fraction: f}
	}
}
