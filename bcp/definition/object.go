package definition

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// object is a mapping after it was checked against a level of the schema.
type object struct {
	position
	level  Level
	path   string // of its keys; empty at the top
	values map[string]*value
	bad    bool // it, or something in it, has an error
}

// value is what a key holds, by the type of the key.
type value struct {
	position
	bad      bool
	word     string // where one of the key's Words was written
	text     string
	number   int64 // integers and rates
	boolean  bool
	bits     bcp.Bits
	duration time.Duration
	rate     bcp.Rate
	zone     *time.Location
	texts    []element
	objects  []*object
	lists    map[string][]string
	named    []named
	typ      *kernel.Type
	calls    []kernel.Example
}

// named is an entry of a mapping of names.
type named struct {
	position
	name   string
	path   string
	texts  []element
	object *object
}

// element is one text of a list.
type element struct {
	position
	text string
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// has reports whether the key was written and is right.
func (o *object) has(name string) bool {
	v := o.values[name]
	return v != nil && !v.bad
}

// at returns the position of the key's value, or of the object without it.
func (o *object) at(name string) position {
	if v := o.values[name]; v != nil {
		return v.position
	}
	return o.position
}

// get returns the value of a key, or its default: a zero value where that is a
// rule, or where the key is wrong.
func (o *object) get(name string) *value {
	if v := o.values[name]; v != nil {
		return v
	}
	key := findKey(o.level, name)
	if key == nil || key.Default == "" {
		return &value{}
	}
	scratch := &source{report: &Report{}}
	return (&walker{source: scratch}).value(key, &node{kind: plainKind(key.Default), text: key.Default}, "")
}

// texts returns a list without its positions; nil where it is empty.
func (o *object) texts(name string) []string {
	var texts []string
	for _, e := range o.get(name).texts {
		texts = append(texts, e.text)
	}
	return texts
}

// walker checks nodes against the schema and reports all problems.
type walker struct {
	source *source
	words  int // of word lists, so far
}

// object walks one mapping. It returns nil where n is no mapping.
func (w *walker) object(level Level, n *node, path string) *object {
	if n.kind != nodeMapping {
		w.wrongType(n, path, "a mapping with the keys of "+level.String())
		return nil
	}
	o := &object{position: n.position, level: level, path: path, values: map[string]*value{}}
	reader, controller := roleIn(level, n)
	if other, of := otherLevel(level, n); of {
		w.source.errorf(n.position, CodeUnknownKey, path, "expected the keys of %s, got those of %s%s", level, other, placeOf(other))
		return nil
	}
	meant := map[string]bool{} // what unknown keys are misspelt for
	for _, e := range n.entries {
		key := findKey(level, e.key)
		at := join(path, boundedKey(e.key))
		switch {
		case key == nil:
			w.unknownKey(level, e, at)
			meant[nearest(e.key, keyNames(level))] = true
			o.bad = true
		case reader && key.Name == "subscriptions":
			w.source.errorf(e.position, CodeReaderPushes, at, "subscriptions are declared by the controller: move them to its definition")
			o.bad = true
		case reader && key.ControllerOnly:
			w.source.errorf(e.position, CodeControllerOnly, at, "only the controller's entry may have this key")
			o.bad = true
		default:
			v := w.value(key, e.value, at)
			o.values[e.key] = v
			o.bad = o.bad || v.bad
		}
	}
	for i := range schema {
		key := &schema[i]
		// A reader entry limits only what it says; of an entry without a role
		// nothing is known.
		optional := key.DefaultRule != "" && !controller
		if key.Level != level || !key.Required || optional || meant[key.Name] || slices.ContainsFunc(n.entries, func(e entry) bool { return e.key == key.Name }) {
			continue
		}
		w.source.errorf(n.position, CodeMissingKey, join(path, key.Name), "%s needs this key: expected %s", level, expected(key))
		o.bad = true
	}
	return o
}

// otherLevel tells a mapping whose keys are those of a part of a spec, and hardly one of
// which is of its level.
func otherLevel(level Level, n *node) (Level, bool) {
	if level != LevelField && level != LevelQuestion {
		return 0, false
	}
	other := LevelQuestion
	if level == LevelQuestion {
		other = LevelField
	}
	here, there := 0, 0
	for _, e := range n.entries {
		if findKey(level, e.key) != nil {
			here++
		}
		if findKey(other, e.key) != nil {
			there++
		}
	}
	return other, there > 1 && there > here && there == len(n.entries)
}

// placeOf says where the parts of a spec belong.
func placeOf(level Level) string {
	if level == LevelQuestion {
		return ": category 2 has questions, and fields are for category 1"
	}
	return ": category 1 has fields, and questions are for category 2"
}

// roleIn looks ahead at the role of a channel entry, which decides what the
// entry may have. Every other mapping counts as neither.
func roleIn(level Level, n *node) (reader, controller bool) {
	if level != LevelChannel {
		return false, false
	}
	for _, e := range n.entries {
		if e.key == "role" {
			return e.value.text == bcp.RoleReader.String(), e.value.text == bcp.RoleController.String()
		}
	}
	return false, false
}

func (w *walker) unknownKey(level Level, e entry, at string) {
	keys := keyNames(level)
	hint := didYouMean(e.key, keys)
	for other := LevelMesh; other <= lastLevel && hint == ""; other++ {
		if findKey(other, e.key) != nil {
			hint = "; it is a key of " + other.String()
		}
	}
	if hint == "" {
		hint = "; expected one of " + strings.Join(keys, ", ")
	}
	w.source.errorf(e.position, CodeUnknownKey, at, "unknown key %s of %s%s", quote(e.key), level, hint)
}

// value checks one value. The result is marked bad after an error.
func (w *walker) value(key *Key, n *node, path string) *value {
	v := &value{position: n.position}
	outer := w.source.failed
	w.source.failed = false
	w.fill(v, key, n, path)
	v.bad = w.source.failed
	w.source.failed = outer || v.bad
	return v
}

func (w *walker) fill(v *value, key *Key, n *node, path string) {
	if n.kind == nodeNull {
		w.source.failed = true // reported by the converter
		return
	}
	if n.kind == nodeText && slices.Contains(key.Words, n.text) {
		v.word, v.text = n.text, n.text
		return
	}
	switch row := &types[key.Type]; {
	case row.item != nil:
		w.list(v, row, key, n, path)
	case row.read != nil:
		w.scalar(v, row, key, n, path)
	case key.Type == TypeObjects:
		w.objects(v, key, n, path)
	case key.Type == TypeWordLists:
		w.wordLists(v, key, n, path)
	case key.Type == TypeObject:
		if o := w.object(key.Child, n, path); o != nil {
			v.objects = []*object{o}
		}
	case key.Type == TypeNamedObjects, key.Type == TypeNameLists:
		w.named(v, key, n, path)
	case key.Type == TypeClosed:
		w.closed(v, key, n, path)
	case key.Type == TypeCalls:
		w.calls(v, key, n, path)
	}
}

func (w *walker) scalar(v *value, row *typeRow, key *Key, n *node, path string) {
	if n.kind != nodeText && row.kinds == nil || row.kinds != nil && !slices.Contains(row.kinds, n.kind) {
		w.wrongType(n, path, expected(key))
		return
	}
	v.text = n.text
	if code, got := row.read(v, key, n.text); code != "" {
		message := "expected " + expected(key)
		if got != "" {
			message += ", got " + got + didYouMean(n.text, key.Words)
		}
		w.source.errorf(n.position, code, path, "%s", message)
	}
}

// list checks a list of texts, which for some types may be one text with commas.
func (w *walker) list(v *value, row *typeRow, key *Key, n *node, path string) {
	if row.commas && n.kind == nodeText {
		for part := range strings.SplitSeq(n.text, ",") {
			v.texts = append(v.texts, element{n.position, strings.TrimSpace(part)})
		}
	} else if n.kind != nodeList {
		w.wrongType(n, path, expected(key))
		return
	}
	for i, item := range n.items {
		if item.kind != nodeText {
			w.wrongType(item, index(path, i), "text")
			continue
		}
		v.texts = append(v.texts, element{item.position, item.text})
	}
	if !w.count(key, len(v.texts), n, path) {
		return
	}
	const longest = 4096
	first := map[string]bool{}
	for i, e := range v.texts {
		at := index(path, i)
		if want := row.item(key, e.text); want != "" {
			code, hint := CodeBadValue, ""
			switch key.Type {
			case TypeChoices:
				code, hint = CodeUnknownWord, didYouMean(e.text, key.Words)
			case TypeTools:
				at = path // it may be an empty one between two commas
			}
			w.source.errorf(e.position, code, at, "expected %s, got %s%s", want, quote(e.text), hint)
			continue
		}
		if len(e.text) > longest {
			w.source.errorf(e.position, CodeOutOfRange, at, "expected text of at most %d bytes", longest)
			continue
		}
		if first[e.text] && !row.repeats {
			w.source.errorf(e.position, CodeDuplicate, at, "%s is listed twice", quote(e.text))
		}
		first[e.text] = true
	}
}

// count refuses too few and too many entries.
func (w *walker) count(key *Key, n int, at *node, path string) bool {
	if int64(n) >= key.Min && int64(n) <= key.Max {
		return true
	}
	w.source.errorf(at.position, CodeOutOfRange, path, "expected %s, got %d", expected(key), n)
	return false
}

func (w *walker) objects(v *value, key *Key, n *node, path string) {
	if n.kind != nodeList {
		w.wrongType(n, path, expected(key))
		return
	}
	w.count(key, len(n.items), n, path)
	for i, item := range n.items {
		if o := w.object(key.Child, item, index(path, i)); o != nil {
			v.objects = append(v.objects, o)
		}
	}
}

func (w *walker) wrongType(n *node, path, want string) {
	hint := ""
	switch {
	case n.kind == nodeNull:
		w.source.failed = true // reported by the converter
		return
	case strings.HasPrefix(want, "text") && (n.kind == nodeInteger || n.kind == nodeNumber || n.kind == nodeBoolean):
		hint = "; put it in quotes to make it text"
	}
	w.source.errorf(n.position, CodeWrongType, path, "expected %s, got %v%s", want, n.kind, hint)
}
