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
	if n.Tag != nodeMapping {
		s.wrongType(n, path, expected(k))
		return
	}
	s.count(k, len(n.Content)/2, n, path)
	for name, value := range entries(n) {
		at := join(path, boundedKey(name.Value))
		if !s.entryName(name, at) {
			continue
		}
		entry := reflect.New(field.Type().Elem()).Elem()
		entry.FieldByName("At").Set(reflect.ValueOf(namedAt{positionOf(name), name.Value, at}))
		switch is := entry.FieldByName("Is"); {
		case k.Type == TypeNamedObjects:
			s.within(k.Child, value, at, is)
		case value.Tag != nodeList:
			s.wrongType(value, at, "a list of texts")
		default:
			s.list(distinctTexts, value, at, is)
		}
		field.Set(reflect.Append(field, entry))
	}
}

// distinctTexts are the texts of a name.
var distinctTexts = &Key{Type: &Type{want: "a list of at most {max} texts"}, Max: maxNamedTexts}

// entryName refuses what is no name.
func (s *source) entryName(name *node, at string) bool {
	_, err := bcp.ParseClientID(name.Value)
	if err != nil {
		s.errorf(positionOf(name), CodeBadValue, at, "expected a name of 1 to 64 letters, digits, hyphens and underscores")
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
		s.errorf(positionOf(n), CodeBadValue, path, "expected %s: %s", expected(k), err)
		return
	}
	set(field, typ)
}

// calls reads the examples of a rule.
func (s *source) calls(k *Key, n *node, path string, field reflect.Value) {
	if n.Tag != nodeList {
		s.wrongType(n, path, expected(k))
		return
	}
	if !s.count(k, len(n.Content), n, path) {
		return
	}
	var calls []kernel.Example
	for i, item := range n.Content {
		at := index(path, i)
		if item.Tag != nodeMapping {
			s.wrongType(item, at, "a call such as {args: {to: kim}}")
			continue
		}
		text, ok := s.json(item, at)
		if !ok {
			continue
		}
		var call kernel.Example
		if err := call.UnmarshalJSON(text); err != nil {
			s.errorf(positionOf(item), CodeBadValue, at, "expected a call such as {args: {to: kim}, requester: {name: main}}: %s", err)
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
	switch n.Tag {
	case nodeText:
		token(jsontext.String(n.Value))
	case nodeBoolean:
		token(jsontext.Bool(strings.EqualFold(n.Value, "true")))
	case nodeInteger, nodeNumber:
		if to.WriteValue(jsontext.Value(n.Value)) != nil {
			s.errorf(positionOf(n), CodeBadValue, path, "expected a number as JSON has it, such as 12.5, got %s", quote(n.Value))
		}
	case nodeList:
		token(jsontext.BeginArray)
		for i, item := range n.Content {
			s.writeJSON(to, item, index(path, i))
		}
		token(jsontext.EndArray)
	case nodeMapping:
		token(jsontext.BeginObject)
		for key, value := range entries(n) {
			token(jsontext.String(key.Value))
			s.writeJSON(to, value, join(path, boundedKey(key.Value)))
		}
		token(jsontext.EndObject)
	default:
		s.failed = true // reported by the converter
	}
}

// wordLists checks `vocabularies`: each list is normalised, sorted and free of
// duplicates, since its length is a price (PROTOCOL P3.2).
func (s *source) wordLists(k *Key, n *node, path string, field reflect.Value) {
	if n.Tag != nodeMapping {
		s.wrongType(n, path, expected(k))
		return
	}
	if count := int64(len(n.Content) / 2); count > k.Max {
		s.errorf(positionOf(n), CodeOutOfRange, path, "expected at most %d word lists, got %d", k.Max, count)
	}
	lists, words := map[string][]string{}, 0
	for name, value := range entries(n) {
		at := join(path, boundedKey(name.Value))
		switch words += len(value.Content); {
		case !s.entryName(name, at):
		case value.Tag != nodeList:
			s.wrongType(value, at, "a list of words")
		case len(value.Content) == 0:
			s.errorf(positionOf(value), CodeOutOfRange, at, "expected at least one word")
		case words > MaxVocabularyWords:
			s.errorf(positionOf(value), CodeTooMany, at, "expected at most %d words in all word lists, got %d or more", MaxVocabularyWords, words)
		default:
			lists[name.Value] = s.wordList(value, at)
		}
	}
	set(field, lists)
}

func (s *source) wordList(n *node, path string) []string {
	first, looks := make(map[string]int, len(n.Content)), make(map[string]int, len(n.Content))
	for i, item := range n.Content {
		at := index(path, i)
		if item.Tag != nodeText {
			s.wrongType(item, at, "text that is one word")
			continue
		}
		word, ok := normaliseWord(item.Value)
		if !ok {
			s.errorf(positionOf(item), CodeBadValue, at, "expected one word of at most %d letters, digits and hyphens inside, got %s", MaxWordChars, quote(item.Value))
			continue
		}
		if before, again := first[word]; again {
			s.errorf(positionOf(item), CodeDuplicate, at, "the word is the same as number %d of the list", before+1)
			continue
		}
		if before, again := looks[text.Look(word)]; again {
			s.errorf(positionOf(item), CodeDuplicate, at, "the word looks the same as number %d of the list", before+1)
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
