package kernel

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// A change is stored as two JSON objects: what everybody reads who may read the
// journal, and what is sealed. The tags of a type name its members: a field may be added,
// never renamed or given another meaning; one that is empty is left out. What is not
// known is no record.

// ErrRecord says that bytes are no stored change; it quotes nothing.
var ErrRecord = errors.New("kernel: no record of a change")

// AppendJSON appends the open part of the change.
func (c *Change) AppendJSON(dst []byte) []byte { return appendRecord(dst, c) }

// AppendJSON appends the private part of a change.
func (p *Private) AppendJSON(dst []byte) []byte { return appendRecord(dst, p) }

func appendRecord(dst []byte, of any) []byte { return encode(dst, of, false) }

// ParseChange reads what the two AppendJSON wrote. private is nil where it was
// erased.
func ParseChange(open, private []byte) (Change, error) {
	var c Change
	if !parseRecord(open, &c) || private != nil && !parseRecord(private, &c.Private) {
		return Change{}, ErrRecord
	}
	return c, nil
}

func parseRecord(b []byte, into any) bool {
	v, err := ParseValue(b)
	return err == nil && decode(&v, into, false)
}

// recordField is a field that is a member of the object that its struct is: its tag is
// record:"key". With always behind the key it is written though it is empty, and with said
// it is one of those that a saved state keeps apart.
type recordField struct {
	key    string
	index  []int
	option string
}

var recordTypes sync.Map // of the fields of structs that were met

func recordFields(t reflect.Type) []recordField {
	if known, ok := recordTypes.Load(t); ok {
		return known.([]recordField)
	}
	var fields []recordField
	for _, f := range reflect.VisibleFields(t) {
		if tag, ok := f.Tag.Lookup("record"); ok {
			key, option, _ := strings.Cut(tag, ",")
			fields = append(fields, recordField{key, f.Index, option})
		}
	}
	slices.SortFunc(fields, func(a, b recordField) int { return strings.Compare(a.key, b.key) })
	recordTypes.Store(t, fields)
	return fields
}

// partial is a struct that has some of its members at times only.
type partial interface{ lacks(key string) bool }

func (s *StepRecord) lacks(key string) bool { return key == "label" && !s.Done }
func (e *End) lacks(key string) bool        { return key == "label" && e.Status != Committed }

func lacks(of reflect.Value, key string) bool {
	p, ok := of.Addr().Interface().(partial)
	return ok && p.lacks(key)
}

// spelled is a type that has a spelling of its own in records, and ownReader one that is read in
// its own way.
type (
	spelled   interface{ recorded() Value }
	ownReader interface{ read(v *Value) bool }
)

// word is one of a list: no record has another.
type word interface{ known() bool }

// encode appends the object that a struct is, of the fields that are said or of all others.
func encode(dst []byte, of any, said bool) []byte {
	return encodeStruct(dst, reflect.ValueOf(of).Elem(), said)
}

func encodeStruct(dst []byte, of reflect.Value, said bool) []byte {
	dst = append(dst, '{')
	for _, f := range recordFields(of.Type()) {
		field := of.FieldByIndex(f.index)
		always := f.option == "always"
		if (f.option == "said") != said || !always && field.IsZero() || lacks(of, f.key) {
			continue
		}
		before := len(dst)
		dst = encodeField(append(appendText(wire.AppendSep(dst), f.key), ':'), field)
		if !always && bytes.HasSuffix(dst, []byte(":[]")) {
			dst = dst[:before]
		}
	}
	return append(dst, '}')
}

func encodeField(dst []byte, f reflect.Value) []byte {
	switch s := f.Addr().Interface().(type) {
	case spelled:
		v := s.recorded()
		return v.AppendJSON(dst)
	case *bcp.Digest:
		return append(hex.AppendEncode(append(dst, '"'), s[:]), '"')
	}
	switch f.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(dst, f.Bool())
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(dst, f.Int(), 10)
	case reflect.Uint8:
		return strconv.AppendUint(dst, f.Uint(), 10)
	case reflect.String:
		return appendText(dst, strings.ToValidUTF8(f.String(), "\ufffd"))
	case reflect.Pointer:
		return encodeField(dst, f.Elem())
	case reflect.Struct:
		return encodeStruct(dst, f, false)
	}
	if f.Type().Elem().Kind() == reflect.Uint8 {
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), f.Bytes()), '"')
	}
	dst = append(dst, '[')
	for i := range f.Len() {
		dst = encodeField(wire.AppendSep(dst), f.Index(i))
	}
	return append(dst, ']')
}

// decode reads what encode wrote.
func decode(v *Value, into any, said bool) bool {
	return decodeStruct(v, reflect.ValueOf(into).Elem(), said)
}

func decodeStruct(v *Value, into reflect.Value, said bool) bool {
	known := 0
	for _, f := range recordFields(into.Type()) {
		m := v.member(f.key)
		if m == nil || (f.option == "said") != said {
			continue
		}
		if known++; !decodeField(m, into.FieldByIndex(f.index)) {
			return false
		}
	}
	return v.kind == ObjectValue && known == len(v.keys) && !slices.ContainsFunc(v.keys, func(key string) bool { return lacks(into, key) && v.member(key).kind != NullValue })
}

func decodeField(v *Value, into reflect.Value) bool {
	if s, ok := into.Addr().Interface().(ownReader); ok {
		return s.read(v)
	}
	switch into.Kind() {
	case reflect.Bool:
		into.SetBool(v.flag)
		return v.flag
	case reflect.Int, reflect.Int64:
		into.SetInt(v.n)
		return v.kind == IntValue && !into.OverflowInt(v.n)
	case reflect.Uint8:
		into.SetUint(uint64(v.n))
		return v.kind == IntValue && v.n >= 0 && !into.OverflowUint(uint64(v.n))
	case reflect.String:
		into.SetString(v.text)
		w, listed := into.Interface().(word)
		return v.kind == TextValue && (!listed || w.known())
	case reflect.Array:
		d := into.Addr().Interface().(*bcp.Digest)
		return v.kind == TextValue && d.UnmarshalText([]byte(v.text)) == nil && *d != bcp.Digest{}
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return decodeField(v, into.Elem())
	case reflect.Struct:
		return decodeStruct(v, into, false)
	}
	if into.Type().Elem().Kind() == reflect.Uint8 {
		b, err := base64.StdEncoding.DecodeString(v.text)
		into.SetBytes(b)
		return v.kind == TextValue && err == nil
	}
	into.Set(reflect.MakeSlice(into.Type(), len(v.list), len(v.list)))
	for i := range v.list {
		if !decodeField(&v.list[i], into.Index(i)) {
			return false
		}
	}
	return v.kind == ListValue && len(v.list) > 0
}

func (g *Grant) recorded() Value { return texts(g.held) }

func (g *Grant) read(v *Value) bool {
	var readers Readers
	ok := readers.read(v)
	*g = Grant{readers.Capabilities()}
	return ok && v.kind == ListValue && len(g.held) > 0
}

// recorded is the canonical JSON of a value in a text: values nest as deep as records do.
func (v *Value) recorded() Value { return Text(base64.StdEncoding.EncodeToString(v.JSON())) }

func (v *Value) read(text *Value) bool {
	b, err := base64.StdEncoding.DecodeString(text.text)
	if err == nil {
		*v, err = ParseValue(b)
	}
	return text.kind == TextValue && err == nil
}
