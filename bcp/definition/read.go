package definition

import (
	"cmp"
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// object is the mapping that a form was read of.
type object struct {
	source *source
	node   *node
	path   string          // of its keys; empty at the top
	wrong  map[string]bool // the keys with a value that has an error
	bad    bool            // it, or something in it, has an error
}

func (o *object) base() *object { return o }

func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// written reports whether the key is there.
func (o *object) written(key string) bool { return valueOf(o.node, key).Tag != "" }

// has reports whether the key was written and is right.
func (o *object) has(key string) bool { return o.written(key) && !o.wrong[key] }

// word returns what was written for a key, if that is one text.
func (o *object) word(key string) string { return valueOf(o.node, key).Value }

// at returns the position of what a path names, such as questions[1].values; or of the nearest
// mapping or list around it.
func (o *object) at(path string) position {
	n := o.node
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		next := valueOf(n, part)
		if i, err := strconv.Atoi(part); err == nil && n.Tag == nodeList && i < len(n.Content) {
			next = n.Content[i]
		}
		if next.Tag == "" {
			break
		}
		n = next
	}
	return positionOf(n)
}

// errorf and warnf report a problem of what a path names.
func (o *object) errorf(path, code, format string, args ...any) {
	o.source.errorf(o.at(path), code, join(o.path, path), format, args...)
}

func (o *object) warnf(path, code, format string, args ...any) {
	o.source.warnf(o.at(path), code, join(o.path, path), format, args...)
}

// named is an entry of a mapping of names.
type named[T any] struct {
	At namedAt
	Is T
}

type namedAt struct {
	position
	name, path string
}

// read makes the form of a whole file.
func read[T any](s *source, l *Level, n *node) *T {
	form := l.empty()
	s.object(l, n, "", form.Elem())
	return form.Interface().(*T)
}

// empty returns a new form, with the defaults.
func (l *Level) empty() reflect.Value {
	form := reflect.New(l.form)
	form.Elem().Set(l.start)
	return form
}

// object reads a mapping into a form, and reports all problems. It is false for what cannot
// be read at all.
func (s *source) object(l *Level, n *node, path string, form reflect.Value) bool {
	if n.Tag != nodeMapping {
		s.wrongType(n, path, "a mapping with the keys of "+l.String())
		return false
	}
	o := object{source: s, node: n, path: path}
	refuse := func(key string) {
		if o.bad = true; o.wrong == nil {
			o.wrong = map[string]bool{}
		}
		o.wrong[key] = true
	}
	reader, controller := roleIn(l, n)
	meant := map[string]bool{} // what unknown keys are misspelt for
	for name, value := range entries(n) {
		key, at := l.key(name.Value), join(path, boundedKey(name.Value))
		switch {
		case key == nil:
			s.unknownKey(l, name, at)
			meant[nearest(name.Value, l.keyNames())] = true
			refuse(name.Value)
		case reader && key.Name == "subscriptions":
			s.errorf(positionOf(name), CodeReaderPushes, at, "subscriptions are declared by the controller: move them to its definition")
			refuse(name.Value)
		case reader && key.ControllerOnly:
			s.errorf(positionOf(name), CodeControllerOnly, at, "only the controller's entry may have this key")
			refuse(name.Value)
		case !s.value(key, value, at, form.FieldByIndex(key.index)):
			refuse(name.Value)
		}
	}
	for i := range l.keys {
		key := &l.keys[i]
		// A reader entry limits only what it says; of an entry without a role
		// nothing is known.
		optional := key.DefaultRule != "" && !controller
		if key.Required && !optional && !meant[key.Name] && valueOf(n, key.Name).Tag == "" {
			s.errorf(positionOf(n), CodeMissingKey, join(path, key.Name), "%s needs this key: expected %s", l, expected(key))
			o.bad = true
		}
	}
	o.bad = s.failing(func() { s.together(l, n, path) }) || o.bad
	if f, ok := form.Addr().Interface().(interface{ base() *object }); ok {
		*f.base() = o
	}
	return true
}

// together refuses keys that do not go together.
func (s *source) together(l *Level, n *node, path string) {
	there := func(name string) bool { return valueOf(n, name).Tag != "" }
	var oneOf []string
	written := 0
	for i := range l.keys {
		if k := &l.keys[i]; k.OneOf {
			if oneOf = append(oneOf, k.Name); there(k.Name) {
				written++
			}
		}
	}
	if len(oneOf) > 0 && written != 1 {
		s.errorf(positionOf(n), CodeMissingKey, path, "expected one of %s, got %d of them", strings.Join(oneOf, ", "), written)
		return
	}
	for i := range l.keys {
		k := &l.keys[i]
		for _, need := range k.Needs {
			if there(k.Name) && !there(need) {
				s.errorf(positionOf(valueOf(n, k.Name)), CodeMissingKey, join(path, k.Name), "it goes with %s, which is missing", need)
			}
		}
	}
}

// roleIn looks ahead at the role of a channel entry, which decides what the
// entry may have. Every other mapping counts as neither.
func roleIn(l *Level, n *node) (reader, controller bool) {
	role := valueOf(n, "role").Value
	return l == LevelChannel && role == bcp.RoleReader.String(), l == LevelChannel && role == bcp.RoleController.String()
}

func (s *source) unknownKey(l *Level, name *node, at string) {
	keys := l.keyNames()
	hint := didYouMean(name.Value, keys)
	for i := 0; i < len(levels) && hint == ""; i++ {
		if levels[i].key(name.Value) != nil {
			hint = "; it is a key of " + levels[i].String()
		}
	}
	if hint == "" {
		hint = "; expected one of " + strings.Join(keys, ", ")
	}
	s.errorf(positionOf(name), CodeUnknownKey, at, "unknown key %s of %s%s", quote(name.Value), l, hint)
}

// failing reports whether something has an error, which is reported.
func (s *source) failing(do func()) bool {
	outer := s.failed
	s.failed = false
	do()
	failed := s.failed
	s.failed = outer || failed
	return failed
}

// value reads the value of a key into its field. It is false after an error; of a list the
// field then has what could be read, so that less is said of what depends on it: but not
// nobody in place of people.
func (s *source) value(k *Key, n *node, path string, field reflect.Value) bool {
	return !s.failing(func() {
		switch {
		case n.Tag == nodeNull:
			s.failed = true // reported by the converter
		case n.Tag == nodeText && slices.Contains(k.Words, n.Value):
			k.setWord(field, n.Value)
		case k.Type.parse != nil:
			s.scalar(k, n, path, field)
		case k.Type == TypeObject:
			s.within(k.Child, n, path, field)
		case k.Type == TypeObjects:
			s.objects(k, n, path, field)
		case k.Type == TypeWordLists:
			s.wordLists(k, n, path, field)
		case k.Type == TypeNamedObjects, k.Type == TypeNameLists:
			s.named(k, n, path, field)
		case k.Type == TypeClosed:
			s.closed(k, n, path, field)
		case k.Type == TypeCalls:
			s.calls(k, n, path, field)
		default:
			s.list(k, n, path, field)
		}
	})
}

func (s *source) scalar(k *Key, n *node, path string, field reflect.Value) {
	t := k.Type
	if n.Tag != nodeText && t.kinds == nil || t.kinds != nil && !slices.Contains(t.kinds, n.Tag) {
		s.wrongType(n, path, expected(k))
		return
	}
	made, number, ok := t.parse(n.Value)
	unit, code := max(t.unit, 1), cmp.Or(t.code, CodeBadValue)
	if ok {
		if !k.bounded() || number >= k.Min*unit && number <= k.Max*unit {
			set(field, made)
			return
		}
		code = CodeOutOfRange
	}
	got := ", got " + quote(n.Value) + didYouMean(n.Value, k.Words)
	switch t {
	case TypeText:
		got = ", got " + strconv.FormatInt(number, 10)
	case TypeCron:
		got += ": " + checkCron(n.Value)
	case TypeSecretName, TypeKeyPlace:
		got = "" // what is there may be the secret
	}
	s.errorf(positionOf(n), code, path, "expected %s%s", expected(k), got)
}

// setWord sets what one of the key's words says.
func (k *Key) setWord(field reflect.Value, word string) {
	switch k.Type {
	case TypeWord:
		set(field, word)
	case TypeChoices:
		set(field, []string{word})
	default:
		field.SetZero()
	}
}

// set puts what was read into a field of any of the types that definitions have.
func set(field reflect.Value, made any) {
	v := reflect.ValueOf(made)
	switch {
	case v.Type().AssignableTo(field.Type()):
		field.Set(v)
	case field.Kind() == reflect.Slice:
		field.SetZero()
		for _, text := range made.([]string) {
			item := reflect.New(field.Type().Elem()).Elem()
			set(item, text)
			field.Set(reflect.Append(field, item))
		}
	case field.Kind() == reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		set(field.Elem(), made)
	case field.Kind() == reflect.Bool: // of a word alone, that it is written
		field.SetBool(true)
	case v.Kind() == reflect.String && field.Kind() != reflect.String: // a member of an enumeration, of which all words are let through
		_ = field.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v.String()))
	default:
		field.Set(v.Convert(field.Type()))
	}
}

// list reads a list of texts, which for some types may be one text with commas.
func (s *source) list(k *Key, n *node, path string, field reflect.Value) {
	items := n.Content
	if k.Type.commas && n.Tag == nodeText {
		for part := range strings.SplitSeq(n.Value, ",") {
			items = append(items, &node{Line: n.Line, Column: n.Column, Tag: nodeText, Value: strings.TrimSpace(part)})
		}
	} else if n.Tag != nodeList {
		s.wrongType(n, path, expected(k))
		return
	}
	if !s.count(k, len(items), n, path) {
		return
	}
	const longest = 4096
	texts, first, readable := make([]string, len(items)), map[string]bool{}, k.Type != TypeNames
	for i, item := range items {
		at, text := path, item.Value
		if texts[i] = text; n.Tag == nodeList {
			at = index(path, i)
		}
		switch {
		case item.Tag != nodeText:
			s.wrongType(item, at, "text")
			readable = false
		case k.Type == TypeChoices && !slices.Contains(k.Words, text):
			s.errorf(positionOf(item), CodeUnknownWord, at, "expected one of %s, got %s%s", strings.Join(k.Words, ", "), quote(text), didYouMean(text, k.Words))
		case k.Type.right != nil && !k.Type.right(text):
			s.errorf(positionOf(item), CodeBadValue, at, "expected %s, got %s", k.Type.each, quote(text))
		case len(text) > longest:
			s.errorf(positionOf(item), CodeOutOfRange, at, "expected text of at most %d bytes", longest)
		case first[text] && !k.Type.repeats:
			s.errorf(positionOf(item), CodeDuplicate, at, "%s is listed twice", quote(text))
		}
		first[text] = true
	}
	if len(texts) > 0 && (readable || !s.failed) {
		set(field, texts)
	}
}

// count refuses too few and too many entries.
func (s *source) count(k *Key, n int, at *node, path string) bool {
	if int64(n) >= k.Min && int64(n) <= k.Max {
		return true
	}
	s.errorf(positionOf(at), CodeOutOfRange, path, "expected %s, got %d", expected(k), n)
	return false
}

// within reads a mapping into the field for it: a form, or a pointer to one. It returns what is
// known of the mapping, if the form keeps that; and is false for what cannot be read at all.
func (s *source) within(l *Level, n *node, path string, field reflect.Value) (*object, bool) {
	if field.Kind() == reflect.Struct {
		return nil, s.object(l, n, path, field)
	}
	form := l.empty()
	if !s.object(l, n, path, form.Elem()) {
		return nil, false
	}
	field.Set(form)
	if f, ok := form.Interface().(interface{ base() *object }); ok {
		return f.base(), true
	}
	return nil, true
}

func (s *source) objects(k *Key, n *node, path string, field reflect.Value) {
	if n.Tag != nodeList {
		s.wrongType(n, path, expected(k))
		return
	}
	s.count(k, len(n.Content), n, path)
	unique := &Key{}
	if i := slices.IndexFunc(k.Child.keys, func(k Key) bool { return k.Unique }); i >= 0 {
		unique = &k.Child.keys[i]
	}
	first := map[string]position{}
	for i, item := range n.Content {
		at, entry := index(path, i), reflect.New(field.Type().Elem()).Elem()
		if entry.Kind() == reflect.Struct {
			entry.Set(k.Child.start)
		}
		o, ok := s.within(k.Child, item, at, entry)
		if !ok {
			continue
		}
		field.Set(reflect.Append(field, entry))
		if name := valueOf(item, unique.Name); name.Tag == nodeText {
			if before, again := first[name.Value]; again {
				s.errorf(positionOf(name), CodeDuplicate, join(at, unique.Name), "the entry in line %d has the same %s", before.line, unique.Name)
				o.bad = true
			} else {
				first[name.Value] = positionOf(name)
			}
		}
	}
}

func (s *source) wrongType(n *node, path, want string) {
	hint := ""
	switch {
	case n.Tag == nodeNull:
		s.failed = true // reported by the converter
		return
	case strings.HasPrefix(want, "text") && (n.Tag == nodeInteger || n.Tag == nodeNumber || n.Tag == nodeBoolean):
		hint = "; put it in quotes to make it text"
	}
	s.errorf(positionOf(n), CodeWrongType, path, "expected %s, got %s%s", want, n.Tag, hint)
}
