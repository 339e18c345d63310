package kernel

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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
func ParseValue(b []byte) (Value, error) { return readValue(b, wire.MaxDepth) }

// readValue is ParseValue for what may nest deeper.
func readValue(b []byte, deepest int) (Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b))
	v, err := readNext(dec, deepest)
	if err == nil {
		_, err = dec.ReadToken()
	}
	if err != io.EOF || bytes.IndexByte(b, 0x7f) >= 0 { // jsontext lets a raw DEL through
		return Value{}, errValue
	}
	return v, nil
}

func readNext(dec *jsontext.Decoder, deepest int) (v Value, err error) {
	token, err := dec.ReadToken()
	if err != nil {
		return v, errValue
	}
	switch token.Kind() {
	case 'n':
		return Null(), nil
	case 't', 'f':
		return Bool(token.Bool()), nil
	case '"':
		return Value{kind: TextValue, text: token.String()}, nil
	case '0':
		return parseNumber(token.String())
	case '[':
		v.kind = ListValue
	case '{':
		v.kind = ObjectValue
	}
	if v.kind == NoValue || dec.StackDepth() > deepest {
		return v, errValue
	}
	for end := dec.PeekKind(); end != ']' && end != '}'; end = dec.PeekKind() {
		if v.kind == ObjectValue {
			key, err := dec.ReadToken()
			if err != nil || len(v.keys) == wire.MaxKeys {
				return v, errValue
			}
			v.keys = append(v.keys, key.String())
		}
		element, err := readNext(dec, deepest)
		if err != nil {
			return v, err
		}
		v.list = append(v.list, element)
	}
	if !slices.IsSorted(v.keys) {
		sort.Sort(byKey(v))
	}
	_, err = dec.ReadToken()
	return v, err
}

// maxDigits is how many digits a number with a fraction may have: every implementation of
// JSON carries that many without loss.
const maxDigits = 15

// parseNumber reads a number of JSON: an integer, or one with a fraction and without an
// exponent. There is no negative zero.
func parseNumber(text string) (Value, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch _, fraction, _ := strings.Cut(text, "."); {
	case !strings.ContainsAny(text, "123456789") && text[0] == '-':
		return Value{}, errValue
	case err == nil:
		return Int(n), nil
	case fraction == "" || strings.ContainsAny(text, "eE") || len(strings.TrimPrefix(text, "-"))-len(".") > maxDigits:
		return Value{}, errValue
	}
	text = strings.TrimRight(text, "0")
	if strings.HasSuffix(text, ".") { // read again, it is a number with a fraction still
		text += "0"
	}
	return Value{kind: DecimalValue, text: text}, nil
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
func (v Value) JSON() []byte { return v.AppendJSON(nil) }

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
