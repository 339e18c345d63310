package definition

import (
	"bytes"
	"reflect"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// named reads a mapping whose keys are names of the author's choice.
func (s *source) named(k *Key, n *node, path string, field reflect.Value) {
	if n.kind != nodeMapping {
		s.wrongType(n, path, expected(k))
		return
	}
	s.count(k, len(n.entries), n, path)
	for _, e := range n.entries {
		at := join(path, boundedKey(e.key))
		if !s.entryName(e, at) {
			continue
		}
		entry := reflect.New(field.Type().Elem()).Elem()
		entry.FieldByName("At").Set(reflect.ValueOf(namedAt{e.position, e.key, at}))
		switch is := entry.FieldByName("Is"); {
		case k.Type == TypeNamedObjects:
			s.within(k.Child, e.value, at, is)
		case e.value.kind != nodeList:
			s.wrongType(e.value, at, "a list of texts")
		default:
			s.list(distinctTexts, e.value, at, is)
		}
		field.Set(reflect.Append(field, entry))
	}
}

// distinctTexts are the texts of a name.
var distinctTexts = &Key{Type: &Type{want: "a list of at most {max} texts"}, Max: maxNamedTexts}

// entryName refuses what is no name.
func (s *source) entryName(e entry, at string) bool {
	_, err := bcp.ParseClientID(e.key)
	if err != nil {
		s.errorf(e.position, CodeBadValue, at, "expected a name of 1 to 64 letters, digits, hyphens and underscores")
	}
	return err == nil
}

// closed reads a type.
func (s *source) closed(k *Key, n *node, path string, field reflect.Value) {
	text, ok := s.json(n, path)
	if !ok {
		return
	}
	typ, err := kernel.ParseType(text)
	if err != nil {
		s.errorf(n.position, CodeBadValue, path, "expected %s: %s", expected(k), err)
		return
	}
	set(field, typ)
}

// calls reads the examples of a rule.
func (s *source) calls(k *Key, n *node, path string, field reflect.Value) {
	if n.kind != nodeList {
		s.wrongType(n, path, expected(k))
		return
	}
	if !s.count(k, len(n.items), n, path) {
		return
	}
	var calls []kernel.Example
	for i, item := range n.items {
		at := index(path, i)
		if item.kind != nodeMapping {
			s.wrongType(item, at, "a call such as {args: {to: kim}}")
			continue
		}
		text, ok := s.json(item, at)
		if !ok {
			continue
		}
		var call kernel.Example
		if err := call.UnmarshalJSON(text); err != nil {
			s.errorf(item.position, CodeBadValue, at, "expected a call such as {args: {to: kim}, requester: {name: main}}: %s", err)
		}
		calls = append(calls, call)
	}
	set(field, calls)
}

// json writes what is there as JSON. It is false after an error.
func (s *source) json(n *node, path string) (jsontext.Value, bool) {
	var text bytes.Buffer
	ok := !s.failing(func() { s.writeJSON(jsontext.NewEncoder(&text), n, path) })
	return text.Bytes(), ok
}

// writeJSON writes a value. Of what the converter lets through only numbers may be none of JSON.
func (s *source) writeJSON(to *jsontext.Encoder, n *node, path string) {
	token := func(t jsontext.Token) { _ = to.WriteToken(t) }
	switch n.kind {
	case nodeText:
		token(jsontext.String(n.text))
	case nodeBoolean:
		token(jsontext.Bool(strings.EqualFold(n.text, "true")))
	case nodeInteger, nodeNumber:
		if to.WriteValue(jsontext.Value(n.text)) != nil {
			s.errorf(n.position, CodeBadValue, path, "expected a number as JSON has it, such as 12.5, got %s", quote(n.text))
		}
	case nodeList:
		token(jsontext.BeginArray)
		for i, item := range n.items {
			s.writeJSON(to, item, index(path, i))
		}
		token(jsontext.EndArray)
	case nodeMapping:
		token(jsontext.BeginObject)
		for _, e := range n.entries {
			token(jsontext.String(e.key))
			s.writeJSON(to, e.value, join(path, boundedKey(e.key)))
		}
		token(jsontext.EndObject)
	default:
		s.failed = true // reported by the converter
	}
}

// wordLists checks `vocabularies`: each list is normalised, sorted and free of
// duplicates, since its length is a price (PROTOCOL P3.2).
func (s *source) wordLists(k *Key, n *node, path string, field reflect.Value) {
	if n.kind != nodeMapping {
		s.wrongType(n, path, expected(k))
		return
	}
	if count := int64(len(n.entries)); count > k.Max {
		s.errorf(n.position, CodeOutOfRange, path, "expected at most %d word lists, got %d", k.Max, count)
	}
	lists, words := map[string][]string{}, 0
	for _, e := range n.entries {
		at := join(path, boundedKey(e.key))
		switch words += len(e.value.items); {
		case !s.entryName(e, at):
		case e.value.kind != nodeList:
			s.wrongType(e.value, at, "a list of words")
		case len(e.value.items) == 0:
			s.errorf(e.value.position, CodeOutOfRange, at, "expected at least one word")
		case words > MaxVocabularyWords:
			s.errorf(e.value.position, CodeTooMany, at, "expected at most %d words in all word lists, got %d or more", MaxVocabularyWords, words)
		default:
			lists[e.key] = s.wordList(e.value, at)
		}
	}
	set(field, lists)
}

func (s *source) wordList(n *node, path string) []string {
	first, looks := make(map[string]int, len(n.items)), make(map[string]int, len(n.items))
	for i, item := range n.items {
		at := index(path, i)
		if item.kind != nodeText {
			s.wrongType(item, at, "text that is one word")
			continue
		}
		word, ok := normaliseWord(item.text)
		if !ok {
			s.errorf(item.position, CodeBadValue, at, "expected one word of at most %d letters, digits and hyphens inside, got %s", MaxWordChars, quote(item.text))
			continue
		}
		if before, again := first[word]; again {
			s.errorf(item.position, CodeDuplicate, at, "the word is the same as number %d of the list", before+1)
			continue
		}
		if before, again := looks[text.Look(word)]; again {
			s.errorf(item.position, CodeDuplicate, at, "the word looks the same as number %d of the list", before+1)
			continue
		}
		first[word], looks[text.Look(word)] = i, i
	}
	return sortedKeys(first)
}

// normaliseWord folds a word with the normaliser of answers (PROTOCOL P3.4), so
// that what an answer says in any spelling is found in the list.
func normaliseWord(word string) (string, bool) {
	result, err := text.Normalise(nil, []byte(word), text.Options{Alphabet: text.Any, Looks: text.LooksAlone, MaxWords: MaxWordChars})
	if err != nil || result.Chars > MaxWordChars {
		return "", false
	}
	separates := func(r rune) bool {
		return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}
	folded := string(result.Text)
	// What the normaliser takes for a separator would be lost silently.
	if strings.ContainsFunc(folded, separates) || strings.ContainsFunc(word, separates) {
		return "", false
	}
	return folded, strings.Count(folded, "-") == strings.Count(word, "-")
}
