package wrap

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

const (
	// maxDepth is how deep a type stands in the JSON of a draft (a list or an object is in it still), and maxNodes bounds
	// the types.
	maxDepth = wire.MaxDepth - 1
	maxNodes = 1024
	// maxNotes bounds what is said of one schema.
	maxNotes = 24
	// maxProperty bounds the name of a property, in bytes.
	maxProperty = 64
)

func text() map[string]any { return map[string]any{"type": "string"} }

// node is a JSON Schema that is an object.
type node map[string]jsontext.Value

// draftOf makes a closed type of a JSON Schema. It contains no sentences of the server. What a closed type cannot say is
// drafted narrower (the first of several shapes) or wider (without a check), and noted.
type draftOf struct {
	root  jsontext.Value
	named func(string) bool // whether a property at the top can have the name
	open  []string          // the references that are being followed
	nodes int
	notes []string
}

// closed returns the closed type of a schema, and notes on what differs.
func closed(schema any, named func(string) bool) (map[string]any, []string) {
	b, err := json.Marshal(schema)
	if err != nil {
		return text(), []string{"the schema cannot be read"}
	}
	d := &draftOf{root: b, named: named}
	t := d.at(b, "", 1)
	if n := len(d.notes); n > maxNotes {
		d.notes = append(d.notes[:maxNotes], fmt.Sprintf("and %d more", n-maxNotes))
	}
	return t, d.notes
}

// note notes something on a place.
func (d *draftOf) note(at, format string, args ...any) {
	if at == "" {
		at = "the whole"
	}
	d.notes = append(d.notes, strings.TrimPrefix(at, ".")+": "+fmt.Sprintf(format, args...))
}

// anything is the type of what no closed type describes.
func (d *draftOf) anything(at, why string) map[string]any {
	d.note(at, "%s; drafted as a text", why)
	return text()
}

func (d *draftOf) at(raw jsontext.Value, at string, depth int) map[string]any {
	defer func(open int) { d.open = d.open[:open] }(len(d.open))
	s, why := d.flat(raw)
	switch {
	case depth > maxDepth:
		why = "it is nested too deeply"
	case why == "" && len(s) == 0:
		why = "any value"
	}
	if why != "" {
		return d.anything(at, why)
	}
	for _, key := range []string{"anyOf", "oneOf", "type"} {
		if shapes := list(s[key]); len(shapes) > 0 {
			return d.shape(s, key, shapes, at, depth)
		}
	}
	t := d.one(s, at, depth)
	if string(s["nullable"]) == "true" || slices.ContainsFunc(list(s["enum"]), isNull) { // nullable is how OpenAPI says it
		t["nullable"] = true
	}
	return t
}

// flat returns a schema with what its reference and the parts of its allOf say, or why it cannot be read.
func (d *draftOf) flat(raw jsontext.Value) (s node, why string) {
	if d.nodes += 1 + len(raw)>>16; d.nodes > maxNodes { // a large one is more to read
		return nil, "there is too much of it"
	}
	s = members(raw)
	parts := list(s["allOf"])
	if ref := word(s["$ref"]); ref != "" {
		target := d.find(ref)
		d.nodes += len(d.root) >> 16
		if len(target) == 0 {
			return nil, "a reference to something else"
		}
		if slices.Contains(d.open, ref) {
			return nil, "it contains itself"
		}
		d.open = append(d.open, ref)
		parts = append(parts, target)
	}
	delete(s, "allOf")
	delete(s, "$ref")
	for _, part := range parts {
		of, why := d.flat(part)
		if why != "" {
			return nil, why
		}
		s = merge(of, s)
	}
	return s, ""
}

// find returns what a JSON pointer into the schema names, or nothing.
func (d *draftOf) find(ref string) jsontext.Value {
	path, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || !strings.HasPrefix(ref, "#") || path != "" && path[0] != '/' {
		return nil
	}
	value := d.root
	for name := range jsontext.Pointer(path).Tokens() {
		value = members(value)[name]
	}
	return value
}

// merge makes one schema of two that both hold: properties and required names of both, otherwise the second's.
func merge(one, two node) node {
	all := node{}
	maps.Copy(all, one)
	maps.Copy(all, two)
	if of := members(one["properties"]); of != nil && two["properties"] != nil {
		maps.Copy(of, members(two["properties"]))
		all["properties"] = of.raw()
	}
	if names := append(list(one["required"]), list(two["required"])...); len(names) > 0 {
		all["required"], _ = json.Marshal(names) // of values that were read
	}
	return all
}

// shape drafts the first of several shapes; null among them makes it nullable.
func (d *draftOf) shape(s node, key string, shapes []jsontext.Value, at string, depth int) map[string]any {
	beside := maps.Clone(s)
	delete(beside, key)
	nulls := 0
	var first node
	for _, shape := range shapes {
		of := members(shape)
		if key == "type" {
			of = node{"type": shape}
		}
		if word(of["type"]) == "null" || isNull(of["const"]) {
			nulls++
		} else if first == nil {
			first = of
		}
	}
	if first == nil {
		return d.anything(at, "null alone")
	}
	t := d.at(merge(beside, first).raw(), at, depth)
	if n := len(shapes) - nulls; n > 1 {
		d.note(at, "one of %d shapes; only the first, of type %s, is drafted", n, t["type"])
	}
	if nulls > 0 {
		t["nullable"] = true
	}
	return t
}

// one drafts a schema of one type.
func (d *draftOf) one(s node, at string, depth int) map[string]any {
	kind := word(s["type"])
	values := slices.DeleteFunc(list(s["enum"]), isNull)
	if value, ok := s["const"]; ok {
		values = []jsontext.Value{value}
	}
	if len(values) > 0 {
		if t := choices(values); t != nil {
			return t
		}
		d.note(at, "its choices are left out, since not all are single words")
		kind = cmp.Or(kind, map[jsontext.Kind]string{'t': "boolean", 'f': "boolean", '0': "number"}[values[0].Kind()], "string")
	}
	if kind == "" {
		kind = kindOf(s)
	}
	t := map[string]any{"type": kind}
	switch kind {
	case "object":
		d.object(t, s, at, depth)
	case "array":
		d.unchecked(s, at, "minItems", "uniqueItems", "contains")
		if items := s["items"]; items.Kind() == '[' || s["prefixItems"] != nil {
			d.note(at, "elements of a type each; drafted as texts")
			t["items"] = text()
		} else if len(items) == 0 {
			d.note(at, "elements of any type; drafted as texts")
			t["items"] = text()
		} else {
			t["items"] = d.at(items, at+"[]", depth+1)
		}
		d.bound(t, s, at, "maxItems", 0, kernel.MaxContent)
	case "string":
		d.unchecked(s, at, "minLength", "pattern", "format", "contentEncoding")
		d.bound(t, s, at, "maxLength", 1, kernel.MaxContent)
	case "integer", "number":
		d.unchecked(s, at, "multipleOf", "exclusiveMinimum", "exclusiveMaximum")
		d.bound(t, s, at, "minimum", math.MinInt64, math.MaxInt64)
		least, ok := t["minimum"].(int64)
		if !ok {
			least = math.MinInt64
		}
		d.bound(t, s, at, "maximum", least, math.MaxInt64)
	case "boolean":
	case "":
		return d.anything(at, "any value")
	default:
		return d.anything(at, "of no type that is known")
	}
	d.unchecked(s, at, "not", "if", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames", "minProperties")
	return t
}

// kindOf is the type that a schema without one means.
func kindOf(s node) string {
	for _, k := range []struct{ key, kind string }{
		{"properties", "object"}, {"additionalProperties", "object"}, {"required", "object"}, {"items", "array"}, {"prefixItems", "array"},
		{"pattern", "string"}, {"maxLength", "string"}, {"minLength", "string"}, {"format", "string"}, {"minimum", "number"}, {"maximum", "number"}, {"multipleOf", "number"},
	} {
		if s[k.key] != nil {
			return k.kind
		}
	}
	return ""
}

// object drafts the properties of an object.
func (d *draftOf) object(t map[string]any, s node, at string, depth int) {
	of := members(s["properties"])
	properties, required := map[string]any{}, []string{}
	must := map[string]bool{}
	for _, name := range list(s["required"]) {
		must[word(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if !isProperty(name) || at == "" && !d.named(name) {
			d.missing(at, name, must[name], "no argument can have its name")
			continue
		}
		properties[name] = d.at(of[name], at+"."+name, depth+2)
		if must[name] {
			required = append(required, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(must)) {
		if _, there := of[name]; !there {
			d.missing(at, name, true, "the schema does not describe it")
		}
	}
	switch more := s["additionalProperties"]; {
	case more.Kind() == '{' && string(more) != "{}", s["patternProperties"] != nil:
		d.note(at, "a map: members with names of the caller's choice are left out")
	case len(of) == 0 && at != "" && string(more) != "false":
		d.note(at, "members of any name are left out")
	}
	t["properties"], t["required"] = properties, required
}

// missing notes a property that is left out.
func (d *draftOf) missing(at, name string, required bool, why string) {
	if required {
		why += "; it is required, so that the server may refuse all calls"
	}
	d.note(at+"."+name, "left out, since %s", why)
}

// unchecked notes what the server checks and a closed type does not.
func (d *draftOf) unchecked(s node, at string, keys ...string) {
	keys = slices.DeleteFunc(keys, func(key string) bool { return s[key] == nil })
	if len(keys) > 0 {
		d.note(at, "not checked here: %s", strings.Join(keys, ", "))
	}
}

// bound takes a bound over if it is a whole number from least to most.
func (d *draftOf) bound(t map[string]any, s node, at, key string, least, most int64) {
	if s[key] == nil {
		return
	}
	n, err := strconv.ParseInt(string(wire.WholeNumbers(s[key])), 10, 64)
	if err != nil || n < least || n > most {
		d.note(at, "its %s is left out", key)
		return
	}
	t[key] = n
}

// choices drafts an enum or a const. Planners read a choice, so it must not be a sentence: others have no type.
func choices(values []jsontext.Value) map[string]any {
	t := text()
	var words []string
	for _, v := range values {
		choice := word(v)
		switch {
		case choice == "" || len(choice) > 64 || strings.Trim(choice, choiceLetters) != "":
			return nil
		case !slices.Contains(words, choice):
			words = append(words, choice)
		}
	}
	t["enum"] = words
	return t
}

const (
	nameLetters   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	choiceLetters = nameLetters + ".:/+"
)

// isProperty reports whether a property of a closed type can have the name.
func isProperty(name string) bool {
	return name != "" && len(name) <= maxProperty && strings.Trim(name, nameLetters) == ""
}

func isNull(v jsontext.Value) bool { return v.Kind() == 'n' }

func (s node) raw() jsontext.Value {
	b, _ := json.Marshal(s, json.Deterministic(true)) // of values that were read
	return b
}

// members returns the members of an object, or none.
func members(raw jsontext.Value) (s node) {
	if raw.Kind() == '{' {
		_ = json.Unmarshal(raw, &s)
	}
	return s
}

// word returns a text, or nothing.
func word(raw jsontext.Value) (text string) {
	if raw.Kind() == '"' {
		_ = json.Unmarshal(raw, &text)
	}
	return text
}

// list returns the elements of a list, or none.
func list(raw jsontext.Value) (values []jsontext.Value) {
	if raw.Kind() == '[' {
		_ = json.Unmarshal(raw, &values)
	}
	return values
}
