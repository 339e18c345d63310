package wrap

import (
	"fmt"
	"maps"
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
	// maxAlternatives bounds how many allOf, anyOf, oneOf and references stand in each other.
	maxAlternatives = 32
	// maxNotes bounds what is said of one schema.
	maxNotes = 24
	// maxProperty bounds the name of a property, in bytes.
	maxProperty = 64
)

func text() map[string]any { return map[string]any{"type": "string"} }

// node is a JSON Schema that is an object.
type node map[string]jsontext.Value

// draftOf makes a closed type of a JSON Schema. It contains no sentences of the server. What a closed type cannot say is
// drafted narrower (one of several shapes) or wider (without a check), and noted.
type draftOf struct {
	root   node
	named  func(string) bool // whether a property at the top can have the name
	open   []string          // the references that are being followed
	inside int               // how many calls of at are at work
	nodes  int
	notes  []string
}

// closed returns the closed type of a schema, and notes on what differs.
func closed(schema any, named func(string) bool) (map[string]any, []string) {
	b, err := json.Marshal(schema)
	if err != nil {
		return text(), []string{"the schema cannot be read"}
	}
	d := &draftOf{named: named}
	_ = json.Unmarshal(b, &d.root) // of anything else there is no reference
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
	d.inside++
	defer func() { d.inside-- }()
	if d.nodes++; depth > maxDepth || d.nodes > maxNodes || d.inside > maxAlternatives+maxDepth {
		return d.anything(at, "it is nested too deeply, or there is too much of it")
	}
	var s node
	if raw.Kind() != '{' || json.Unmarshal(raw, &s) != nil {
		return d.anything(at, "any value")
	}
	if ref := word(s["$ref"]); ref != "" {
		return d.reference(s, ref, at, depth)
	}
	if s["allOf"].Kind() == '[' {
		return d.all(s, at, depth)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if shapes := list(s[key]); len(shapes) > 0 {
			return d.any(s, key, shapes, at, depth)
		}
	}
	if kinds := list(s["type"]); len(kinds) > 0 {
		shapes := make([]jsontext.Value, 0, len(kinds))
		for _, kind := range kinds {
			one := maps.Clone(s)
			one["type"] = kind
			shapes = append(shapes, one.raw())
		}
		return d.any(s, "type", shapes, at, depth)
	}
	t := d.one(s, at, depth)
	if string(s["nullable"]) == "true" { // as OpenAPI says it
		t["nullable"] = true
	}
	return t
}

// reference follows a reference to a part of the same schema.
func (d *draftOf) reference(s node, ref, at string, depth int) map[string]any {
	target, ok := d.find(ref)
	if !ok {
		return d.anything(at, "a reference to something else")
	}
	if slices.Contains(d.open, ref) {
		return d.anything(at, "it contains itself")
	}
	d.open = append(d.open, ref)
	defer func() { d.open = d.open[:len(d.open)-1] }()
	rest := maps.Clone(s)
	delete(rest, "$ref")
	for _, key := range []string{"description", "title", "default", "examples", "$defs", "definitions", "deprecated"} {
		delete(rest, key)
	}
	if len(rest) == 0 {
		return d.at(target, at, depth)
	}
	return d.at(merge([]jsontext.Value{target, rest.raw()}).raw(), at, depth)
}

// find returns what a JSON pointer names.
func (d *draftOf) find(ref string) (jsontext.Value, bool) {
	path, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || !strings.HasPrefix(ref, "#") {
		return nil, false
	}
	value := d.root.raw()
	for _, name := range strings.Split(path, "/")[1:] {
		var in node
		if value.Kind() != '{' || json.Unmarshal(value, &in) != nil {
			return nil, false
		}
		value = in[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return value, len(value) > 0 && (path == "" || path[0] == '/')
}

// all merges the parts of allOf with what stands beside them.
func (d *draftOf) all(s node, at string, depth int) map[string]any {
	parts := []jsontext.Value{}
	for _, part := range list(s["allOf"]) {
		var in node
		if json.Unmarshal(part, &in) == nil {
			if target, ok := d.find(word(in["$ref"])); ok && in["$ref"] != nil {
				if ref := word(in["$ref"]); slices.Contains(d.open, ref) {
					return d.anything(at, "it contains itself")
				} else {
					d.open = append(d.open, ref)
					defer func() { d.open = d.open[:len(d.open)-1] }()
				}
				part = target
			}
		}
		parts = append(parts, part)
	}
	rest := maps.Clone(s)
	delete(rest, "allOf")
	return d.at(merge(append(parts, rest.raw())).raw(), at, depth)
}

// merge makes one schema of several that all hold: properties and required names of all, otherwise the last.
func merge(parts []jsontext.Value) node {
	all := node{}
	for _, part := range parts {
		var s node
		if part.Kind() != '{' || json.Unmarshal(part, &s) != nil {
			continue
		}
		for key, value := range s {
			switch {
			case key == "properties" && all[key].Kind() == '{' && value.Kind() == '{':
				var one, two node
				_, _ = json.Unmarshal(all[key], &one), json.Unmarshal(value, &two) // they are objects
				maps.Copy(one, two)
				value = one.raw()
			case (key == "required" || key == "allOf") && all[key].Kind() == '[' && value.Kind() == '[':
				value, _ = json.Marshal(append(list(all[key]), list(value)...)) // of values that were read
			}
			all[key] = value
		}
	}
	return all
}

// any drafts one of several shapes; null among them makes it nullable.
func (d *draftOf) any(s node, key string, shapes []jsontext.Value, at string, depth int) map[string]any {
	rest := maps.Clone(s)
	delete(rest, key)
	if key == "type" {
		rest = node{}
	}
	for _, key := range []string{"description", "title", "default", "examples", "$defs", "definitions"} {
		delete(rest, key)
	}
	nullable := false
	var drafts []map[string]any
	var notes [][]string
	before := d.notes
	for _, shape := range shapes {
		if isNull(shape) {
			nullable = true
			continue
		}
		if len(rest) > 0 {
			shape = merge([]jsontext.Value{rest.raw(), shape}).raw()
		}
		d.notes = nil
		drafts, notes = append(drafts, d.at(shape, at, depth)), append(notes, d.notes)
	}
	d.notes = before
	if len(drafts) == 0 {
		return d.anything(at, "null alone")
	}
	chosen := 0
	if len(drafts) > 1 {
		if words := allWords(drafts); words != nil {
			drafts, notes = []map[string]any{{"type": "string", "enum": words}}, [][]string{nil}
		} else {
			chosen = preferred(drafts)
			for _, other := range drafts {
				if !maps.EqualFunc(other, drafts[chosen], func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
					d.note(at, "one of %d shapes; only the %s is drafted", len(drafts), drafts[chosen]["type"])
					break
				}
			}
		}
	}
	d.notes = append(d.notes, notes[chosen]...)
	t := drafts[chosen]
	if nullable {
		t["nullable"] = true
	}
	return t
}

// preferred is the shape that most values can be written in.
func preferred(drafts []map[string]any) int {
	for _, kind := range []string{"object", "array", "string", "number", "integer"} {
		for i, t := range drafts {
			if t["type"] == kind && t["enum"] == nil && (kind != "object" || len(t["properties"].(map[string]any)) > 0) {
				return i
			}
		}
	}
	return 0
}

// allWords returns the choices of types that are all choices.
func allWords(drafts []map[string]any) (words []string) {
	for _, t := range drafts {
		choices, ok := t["enum"].([]string)
		if !ok {
			return nil
		}
		for _, word := range choices {
			if !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
	}
	return words
}

// isNull reports whether a schema is that of null.
func isNull(raw jsontext.Value) bool {
	var s node
	if raw.Kind() != '{' || json.Unmarshal(raw, &s) != nil {
		return false
	}
	values := list(s["enum"])
	return word(s["type"]) == "null" || s["const"].Kind() == 'n' || len(values) == 1 && values[0].Kind() == 'n'
}

// one drafts a schema of one type.
func (d *draftOf) one(s node, at string, depth int) map[string]any {
	if value, ok := s["const"]; ok {
		s = maps.Clone(s)
		s["enum"] = jsontext.Value("[" + string(value) + "]")
	}
	if values := list(s["enum"]); len(values) > 0 {
		return d.choices(s, values, at)
	}
	kind := word(s["type"])
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
		set(t, "maxItems", s["maxItems"], 0, kernel.MaxContent)
	case "string":
		d.unchecked(s, at, "minLength", "pattern", "format", "contentEncoding")
		set(t, "maxLength", s["maxLength"], 1, kernel.MaxContent)
	case "integer", "number":
		d.unchecked(s, at, "multipleOf")
		d.bounds(t, s, at)
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
	var of node
	if s["properties"].Kind() == '{' {
		_ = json.Unmarshal(s["properties"], &of) // it is an object
	}
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

// bounds takes bounds over. Those of an integer that are no whole numbers are the next ones within.
func (d *draftOf) bounds(t map[string]any, s node, at string) {
	for _, b := range []struct {
		key, beside string
		within      int64
	}{{"minimum", "exclusiveMinimum", 1}, {"maximum", "exclusiveMaximum", -1}} {
		bound, exclusive := s[b.key], string(s[b.beside]) == "true" // of draft 4
		if s[b.beside].Kind() == '0' && (len(bound) == 0 || s[b.key] == nil) {
			bound, exclusive = s[b.beside], true
		}
		if len(bound) == 0 {
			continue
		}
		n, whole, ok := integer(bound)
		switch {
		case !ok:
			d.note(at, "its %s is left out", b.key)
			continue
		case t["type"] == "integer" && (exclusive && whole || !whole && b.within > 0):
			n += b.within // a fraction was cut: downward
		case t["type"] == "number" && (exclusive || !whole):
			d.note(at, "its %s is %s", b.key, bound)
			if !whole && b.within < 0 {
				n++
			}
		}
		t[b.key] = n
	}
	if low, ok := t["minimum"].(int64); ok {
		if high, ok := t["maximum"].(int64); ok && low > high {
			d.note(at, "no value is within its bounds, which are left out")
			delete(t, "minimum")
			delete(t, "maximum")
		}
	}
}

// integer returns the greatest whole number that is not above a number, and whether it is that number.
func integer(raw jsontext.Value) (n int64, whole, ok bool) {
	text := string(wire.WholeNumbers(raw))
	before, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(before, 10, 64)
	if fraction != "" && strings.HasPrefix(text, "-") {
		n--
	}
	return n, fraction == "", err == nil && n > -1<<62 && n < 1<<62 || err == nil && fraction == ""
}

// set takes a bound over if it is a whole number from least to most.
func set(t map[string]any, key string, bound jsontext.Value, least, most int64) {
	if n, whole, ok := integer(bound); ok && whole && n >= least && n <= most {
		t[key] = n
	}
}

// choices drafts an enum or a const. Planners read a choice, so it must not be a sentence.
func (d *draftOf) choices(s node, values []jsontext.Value, at string) map[string]any {
	var words []string
	var numbers []int64
	nullable, bools, other := false, 0, false
	for _, v := range values {
		switch v.Kind() {
		case 'n':
			nullable = true
		case '"':
			words = append(words, word(v))
		case 't', 'f':
			bools++
		case '0':
			n, whole, ok := integer(v)
			numbers = append(numbers, n)
			other = other || !whole || !ok
		default:
			other = true
		}
	}
	kinds := 0
	for _, n := range []int{len(words), len(numbers), bools} {
		kinds += min(n, 1)
	}
	t := text()
	switch {
	case other || kinds > 1:
		d.note(at, "choices of several types; drafted as a text")
	case len(numbers) > 0:
		t = map[string]any{"type": "integer", "minimum": slices.Min(numbers), "maximum": slices.Max(numbers)}
		slices.Sort(numbers)
		if numbers = slices.Compact(numbers); numbers[len(numbers)-1]-numbers[0] != int64(len(numbers)-1) {
			d.note(at, "not all numbers between its bounds are choices")
		}
	case bools > 0:
		t = map[string]any{"type": "boolean"}
		if len(values) == 1 {
			d.note(at, "only %s", values[0])
		}
	case len(words) > 0:
		if choices := wordChoices(words); choices != nil {
			t["enum"] = choices
		} else {
			d.note(at, "its choices are left out, since not all are single words")
		}
	default:
		d.note(at, "null alone; drafted as a text")
	}
	if nullable {
		t["nullable"] = true
	}
	return t
}

// wordChoices returns unique choices that are all words, or nil.
func wordChoices(values []string) []string {
	var words []string
	for _, word := range values {
		if slices.Contains(words, word) {
			continue
		}
		if word == "" || len(word) > 64 || strings.ContainsFunc(word, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.:/+", r)
		}) {
			return nil
		}
		words = append(words, word)
	}
	return words
}

// isProperty reports whether a property of a closed type can have the name.
func isProperty(name string) bool {
	return name != "" && len(name) <= maxProperty && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

func (s node) raw() jsontext.Value {
	b, _ := json.Marshal(s, json.Deterministic(true)) // of values that were read
	return b
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
