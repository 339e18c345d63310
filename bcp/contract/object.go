package contract

import (
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// value is one JSON value of a document, by the rules of PROTOCOL P2.2. The zero
// value is a missing one.
type value struct {
	raw []byte
	at  int // offset of raw in the document
}

func (v value) missing() bool { return v.raw == nil }

// object is a JSON object: its members in the order of the document.
type object struct {
	at      int
	members []member
}

type member struct {
	key   string
	at    int // offset of the key
	value value
}

// get returns the value of a key. No key is there twice.
func (o *object) get(key string) value {
	for i := range o.members {
		if o.members[i].key == key {
			return o.members[i].value
		}
	}
	return value{}
}

// keys are the keys of a closed object.
type keys struct{ required, optional []string }

// missing returns the required keys that an object does not have.
func (o *object) missing(k keys) []string {
	var missing []string
	for _, key := range k.required {
		if o.get(key).missing() {
			missing = append(missing, key)
		}
	}
	return missing
}

// unknown returns the offsets of the keys that are not of a closed object.
func (o *object) unknown(k keys) []int {
	var unknown []int
	for i := range o.members {
		if key := o.members[i].key; !slices.Contains(k.required, key) && !slices.Contains(k.optional, key) {
			unknown = append(unknown, o.members[i].at)
		}
	}
	return unknown
}

// object reads an object of any keys. If it is none, at is the offset where reading
// stopped.
func (v value) object() (o object, at int, ok bool) {
	o.at = v.at
	s := wire.NewScanner(v.raw)
	err := s.ObjectStart()
	for err == nil && s.More() {
		m := member{}
		if len(o.members) == wire.MaxKeys {
			return object{}, v.at + s.Offset(), false
		}
		before := s.Offset()
		var key []byte
		if key, err = s.Key(nil); err != nil {
			break
		}
		m.key, m.at = string(key), v.at+before+skipSpace(v.raw[before:])
		if !o.get(m.key).missing() {
			return object{}, m.at, false
		}
		m.value.raw, err = s.RawValue()
		m.value.at = v.at + s.Offset() - len(m.value.raw)
		o.members = append(o.members, m)
	}
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return object{}, v.at + errorOffset(err), false
	}
	return o, 0, true
}

// closed reads an object that has all the required keys, and no others but the
// optional ones.
func (v value) closed(k keys) (object, bool) {
	o, _, ok := v.object()
	return o, ok && len(o.missing(k)) == 0 && len(o.unknown(k)) == 0
}

// list reads an array of at most so many elements. If it is none, or longer, ok is
// false; long says that it is longer.
func (v value) list(most int) (elements []value, long, ok bool) {
	s := wire.NewScanner(v.raw)
	if s.ArrayStart() != nil {
		return nil, false, false
	}
	for s.More() {
		raw, err := s.RawValue()
		if err != nil {
			return nil, false, false
		}
		if len(elements) == most {
			return nil, true, false
		}
		elements = append(elements, value{raw, v.at + s.Offset() - len(raw)})
	}
	return elements, false, s.End() == nil
}

// text reads a string of at most so many bytes.
func (v value) text(most int) (string, bool) {
	s := wire.NewScanner(v.raw)
	text, err := s.String(nil)
	if err != nil || s.End() != nil || len(text) > most || !utf8.Valid(text) {
		return "", false
	}
	return string(text), true
}

// label reads a string that is not empty.
func (v value) label(most int) (string, bool) {
	text, ok := v.text(most)
	return text, ok && text != ""
}

// texts reads an array of strings, none of them empty.
func (v value) texts(most, longest int) ([]string, bool) {
	elements, _, ok := v.list(most)
	texts := make([]string, len(elements))
	for i, element := range elements {
		var isText bool
		texts[i], isText = element.label(longest)
		ok = ok && isText
	}
	return texts, ok
}

// errorOffset returns where reading stopped.
func errorOffset(err error) int {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Offset
	}
	return 0
}

// skipSpace returns the offset of the first byte that is neither JSON's white space
// nor a comma.
func skipSpace(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != ',' {
			return i
		}
	}
	return len(b)
}
