package definition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
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
	switch key.Type {
	case TypeInteger, TypeBoolean, TypeBits, TypeUSD:
		w.plain(v, key, n, path)
	case TypeTexts, TypeNames, TypeTools, TypeHosts, TypePrefixes, TypeMailAddresses, TypeChoices:
		w.list(v, key, n, path)
	case TypeObjects:
		w.objects(v, key, n, path)
	case TypeWordLists:
		w.wordLists(v, key, n, path)
	case TypeObject:
		if o := w.object(key.Child, n, path); o != nil {
			v.objects = []*object{o}
		}
	case TypeNamedObjects, TypeNameLists:
		w.named(v, key, n, path)
	case TypeClosed:
		w.closed(v, key, n, path)
	case TypeCalls:
		w.calls(v, key, n, path)
	default:
		if n.kind != nodeText {
			w.wrongType(n, path, expected(key))
			return
		}
		v.text = n.text
		w.text(v, key, n, path)
	}
}

// plain checks numbers and booleans.
func (w *walker) plain(v *value, key *Key, n *node, path string) {
	switch key.Type {
	case TypeBoolean:
		if n.kind != nodeBoolean {
			w.wrongType(n, path, expected(key))
			return
		}
		v.boolean = strings.EqualFold(n.text, "true")
	case TypeInteger:
		if n.kind != nodeInteger {
			w.wrongType(n, path, expected(key))
			return
		}
		number, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil || (key.bounded() && (number < key.Min || number > key.Max)) {
			w.source.errorf(n.position, CodeOutOfRange, path, "expected %s, got %s", expected(key), quote(n.text))
			return
		}
		v.number = number
	case TypeBits:
		if n.kind != nodeInteger && n.kind != nodeNumber {
			w.wrongType(n, path, expected(key))
			return
		}
		bits, err := bcp.ParseBits(n.text)
		if err != nil || bits < bcp.Bits(key.Min)*bcp.Bit {
			w.source.errorf(n.position, CodeOutOfRange, path, "expected %s, got %s", expected(key), quote(n.text))
			return
		}
		v.bits = bits
	case TypeUSD:
		if n.kind != nodeInteger && n.kind != nodeNumber {
			w.wrongType(n, path, expected(key))
			return
		}
		usd, err := cost.ParseUSD(n.text)
		if err != nil || usd < cost.USD(key.Min)*cost.Dollar || usd > cost.USD(key.Max)*cost.Dollar {
			w.source.errorf(n.position, CodeOutOfRange, path, "expected %s, got %s", expected(key), quote(n.text))
			return
		}
		v.number = int64(usd)
	}
}

func (k *Key) bounded() bool { return k.Min != 0 || k.Max != 0 }

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

// expected says what a key may hold, as the end of a message.
func expected(key *Key) string {
	var want string
	switch key.Type {
	case TypeText:
		want = fmt.Sprintf("text of %d to %d characters", key.Min, key.Max)
	case TypeName:
		want = "text that is a name: " + trimName(bcp.ErrAgentName)
	case TypeSubscription:
		want = "text: " + bcp.ErrSubscriptionID.Error()
	case TypeWord:
		return "one of " + strings.Join(key.Words, ", ")
	case TypeInteger:
		want = "a whole number"
		if key.bounded() {
			want = fmt.Sprintf("a whole number from %d to %d", key.Min, key.Max)
		}
	case TypeBoolean:
		want = "true or false"
	case TypeBits:
		want = fmt.Sprintf("a number of bits from %d to %d with at most nine decimals", key.Min, key.Max)
	case TypeUSD:
		want = fmt.Sprintf("a number of US dollars from %d to %d with at most nine decimals", key.Min, key.Max)
	case TypeDuration:
		want = fmt.Sprintf("a duration from %s to %s such as 90s, 15m, 1h30m or 7d", formatDuration(key.Min), formatDuration(key.Max))
	case TypeRate:
		want = fmt.Sprintf("a rate from %d/m to %d/m such as 30/m or 1/s", key.Min, key.Max)
	case TypePushRate:
		want = fmt.Sprintf("a rate of %d to %d in a second, minute, hour or day, such as 5/s, 30/m, 1/h or 10/d", key.Min, key.Max)
	case TypeTimeZone:
		want = "text that is an IANA time zone such as Europe/Berlin"
	case TypeCron:
		want = "text with the five fields minute, hour, day of month, month and day of week"
	case TypeTexts:
		want = fmt.Sprintf("a list of %d to %d texts", key.Min, key.Max)
	case TypeTools:
		want = fmt.Sprintf("a list of at most %d texts, or one text with commas", key.Max)
	case TypeHosts:
		want = fmt.Sprintf("a list of at most %d hosts such as example.com, *.example.com or example.com:8443, or one text with commas", key.Max)
	case TypePrefixes:
		want = fmt.Sprintf("a list of at most %d prefixes of addresses such as 10.1.0.0/16", key.Max)
	case TypeBytes:
		want = fmt.Sprintf("a number of bytes from %s to %s such as 512KiB, 64MiB or 1GiB", formatBytes(key.Min), formatBytes(key.Max))
	case TypeSecretName:
		want = "where the secret is kept, as env:NAME or file:PATH; the secret itself does not belong here"
	case TypeHours:
		want = "text with two times of the day such as 22:00-07:00"
	case TypeServer:
		want = "text that is a host and a port such as smtp.example.org:587"
	case TypeMailAddress:
		want = "text that is a mail address such as desk@example.org"
	case TypeOrganisation:
		want = "text that is the name of an organisation such as org1.example, in lower case"
	case TypeMailAddresses:
		want = fmt.Sprintf("a list of %d to %d mail addresses", key.Min, key.Max)
	case TypeChoices:
		return "a list of one or more of " + strings.Join(key.Words, ", ") + ", or one of them"
	case TypeNames:
		want = fmt.Sprintf("a list of %d to %d names", key.Min, key.Max)
	case TypeWordLists:
		want = "a mapping of names to lists of words"
	case TypeObjects:
		want = fmt.Sprintf("a list of %d to %d entries, each %s", key.Min, key.Max, key.Child)
	case TypeObject:
		want = "a mapping with the keys of " + key.Child.String()
	case TypeNamedObjects:
		want = fmt.Sprintf("a mapping of %d to %d names, each to %s", key.Min, key.Max, key.Child)
	case TypeNameLists:
		want = fmt.Sprintf("a mapping of %d to %d names to lists of texts", key.Min, key.Max)
	case TypeClosed:
		want = "a closed type in JSON Schema: object, array, string, integer, number, boolean or enum"
	case TypeCalls:
		want = fmt.Sprintf("a list of %d to %d calls, such as {args: {to: kim}}", key.Min, key.Max)
	}
	for _, word := range key.Words {
		want += ", or " + word
	}
	return want
}

func trimName(err error) string { return strings.TrimPrefix(err.Error(), "an agent name is ") }
