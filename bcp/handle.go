package bcp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Handle stands for a sealed value of an answer, with a Controller that does not read it
// (PROTOCOL P3.12). The gateway makes it of the delivery's id and the value's place, and
// of nothing else: it tells what its Controller knows.
type Handle string

// HandlePrefix begins each.
const HandlePrefix = "sealed:"

func newHandle(id DeliveryID, i int) Handle {
	return Handle(HandlePrefix + string(id) + "." + strconv.Itoa(i))
}

// HandleOf returns the handle that an item's content is, which is empty if it is none.
func HandleOf(content []byte) (h Handle) {
	if json.Unmarshal(content, &h) != nil {
		return ""
	}
	return h
}

// Parse returns the delivery that the handle came with, and its place among the sealed
// values there.
func (h Handle) Parse() (id DeliveryID, i int, ok bool) {
	rest, ok := strings.CutPrefix(string(h), HandlePrefix)
	name, place, found := strings.Cut(rest, ".")
	id, bad := ParseDeliveryID(name)
	i, err := strconv.Atoi(place)
	return id, i, ok && found && bad == nil && err == nil && i >= 0 && i < MaxFields && newHandle(id, i) == h
}

// Enclose takes the sealed values out of an answer that v made, and puts handles of a
// delivery in their places.
func (v *Validator) Enclose(a Answer, id DeliveryID) (shown []byte, enclosed []string) {
	sealed := func(f Field) bool { return f.Type == TypeSealed }
	if !slices.ContainsFunc(v.spec.Fields, sealed) {
		return a.JSON(), nil
	}
	var values map[string]jsontext.Value
	if json.Unmarshal([]byte(a.json), &values) != nil {
		return nil, nil // no answer of v
	}
	for i, f := range v.spec.Fields {
		shown = append(shown, v.items[i].key...)
		if !sealed(f) {
			shown = append(shown, values[f.Name]...)
			continue
		}
		var text string
		if json.Unmarshal(values[f.Name], &text) != nil {
			return nil, nil
		}
		shown = appendQuoted(shown, []byte(newHandle(id, len(enclosed))))
		enclosed = append(enclosed, text)
	}
	return append(shown, '}'), enclosed
}

// MaxHandles is how many handles the arguments of a query have: the values fit a message.
const MaxHandles = 4

// Handles are the texts of a query's arguments that are handles, in their order. Keys and
// parts of texts are not.
func (s *Spec) Handles() (handles []Handle) {
	s.eachHandle(func(h Handle) (string, bool) {
		handles = append(handles, h)
		return "", false
	})
	return handles
}

// Fill returns the arguments with a value in place of each handle; it is false if there is
// none for one.
func (s *Spec) Fill(values map[Handle]string) (jsontext.Value, bool) {
	all := true
	filled := s.eachHandle(func(h Handle) (string, bool) {
		value, ok := values[h]
		all = all && ok
		return value, ok
	})
	return filled, all
}

// eachHandle returns the arguments with the texts that f gives in place of handles.
func (s *Spec) eachHandle(f func(Handle) (string, bool)) jsontext.Value {
	if s.Arguments == nil {
		return nil
	}
	var out []byte
	dec := jsontext.NewDecoder(strings.NewReader(string(s.Arguments)))
	for {
		kind, n := dec.StackIndex(dec.StackDepth())
		isKey := kind == '{' && n%2 == 0
		before := dec.InputOffset()
		token, err := dec.ReadToken()
		if err != nil {
			return append(out, s.Arguments[before:]...)
		}
		if token.Kind() == '"' && !isKey {
			h := Handle(token.String())
			if _, _, ok := h.Parse(); ok {
				if text, replace := f(h); replace {
					raw := string(s.Arguments[before:dec.InputOffset()])
					out = append(out, raw[:strings.IndexByte(raw, '"')]...)
					out = appendQuoted(out, []byte(text))
					continue
				}
			}
		}
		out = append(out, s.Arguments[before:dec.InputOffset()]...)
	}
}
