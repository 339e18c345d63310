package definition

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// named checks a mapping whose keys are names of the author's choice.
func (w *walker) named(v *value, key *Key, n *node, path string) {
	if n.kind != nodeMapping {
		w.wrongType(n, path, expected(key))
		return
	}
	w.count(key, len(n.entries), n, path)
	for _, e := range n.entries {
		at := join(path, boundedKey(e.key))
		if _, err := bcp.ParseClientID(e.key); err != nil {
			w.source.errorf(e.position, CodeBadValue, at, "expected a name of 1 to 64 letters, digits, hyphens and underscores")
			continue
		}
		entry := named{position: e.position, name: e.key, path: at}
		switch {
		case key.Type == TypeNamedObjects:
			entry.object = w.object(key.Child, e.value, at)
		case e.value.kind != nodeList:
			w.wrongType(e.value, at, "a list of texts")
		default:
			entry.texts = w.distinctTexts(e.value, at)
		}
		v.named = append(v.named, entry)
	}
}

// distinctTexts checks a list of texts without duplicates.
func (w *walker) distinctTexts(n *node, path string) []element {
	if len(n.items) > maxNamedTexts {
		w.source.errorf(n.position, CodeOutOfRange, path, "expected a list of at most %d texts, got %d", maxNamedTexts, len(n.items))
		return nil
	}
	var texts []element
	first := map[string]bool{}
	for i, item := range n.items {
		switch at := index(path, i); {
		case item.kind != nodeText:
			w.wrongType(item, at, "text")
		case first[item.text]:
			w.source.errorf(item.position, CodeDuplicate, at, "%s is listed twice", quote(item.text))
		default:
			first[item.text] = true
			texts = append(texts, element{item.position, item.text})
		}
	}
	return texts
}

// closed reads a type.
func (w *walker) closed(v *value, key *Key, n *node, path string) {
	text, ok := w.json(n, path)
	if !ok {
		return
	}
	typ, err := kernel.ParseType(text)
	if err != nil {
		w.source.errorf(n.position, CodeBadValue, path, "expected %s: %s", expected(key), err)
	}
	v.typ = typ
}

// calls reads the examples of a rule.
func (w *walker) calls(v *value, key *Key, n *node, path string) {
	if n.kind != nodeList {
		w.wrongType(n, path, expected(key))
		return
	}
	if !w.count(key, len(n.items), n, path) {
		return
	}
	for i, item := range n.items {
		at := index(path, i)
		if item.kind != nodeMapping {
			w.wrongType(item, at, "a call such as {args: {to: kim}}")
			continue
		}
		text, ok := w.json(item, at)
		if !ok {
			continue
		}
		call, err := kernel.ParseExample(text)
		if err != nil {
			w.source.errorf(item.position, CodeBadValue, at, "expected a call such as {args: {to: kim}, requester: {name: main}}: %s", err)
		}
		v.calls = append(v.calls, call)
	}
}

// json writes what is there as JSON. It is false after an error.
func (w *walker) json(n *node, path string) (jsontext.Value, bool) {
	outer := w.source.failed
	w.source.failed = false
	text := w.appendJSON(nil, n, path)
	ok := !w.source.failed
	w.source.failed = outer || !ok
	return text, ok
}

func (w *walker) appendJSON(dst []byte, n *node, path string) []byte {
	switch n.kind {
	case nodeText:
		dst, _ = jsontext.AppendQuote(dst, n.text) // the converter lets UTF-8 alone through
	case nodeInteger:
		dst = append(dst, n.text...)
	case nodeBoolean:
		dst = strconv.AppendBool(dst, strings.EqualFold(n.text, "true"))
	case nodeNumber:
		if number := jsontext.Value(n.text); number.Kind() == '0' && number.IsValid() {
			return append(dst, n.text...)
		}
		w.source.errorf(n.position, CodeBadValue, path, "expected a number as JSON has it, such as 12.5, got %s", quote(n.text))
	case nodeList:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = w.appendJSON(dst, item, index(path, i))
		}
		dst = append(dst, ']')
	case nodeMapping:
		dst = append(dst, '{')
		for i, e := range n.entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = jsontext.AppendQuote(dst, e.key)
			dst = w.appendJSON(append(dst, ':'), e.value, join(path, boundedKey(e.key)))
		}
		dst = append(dst, '}')
	default:
		w.source.failed = true // reported by the converter
	}
	return dst
}

// wordLists checks `vocabularies`: each list is normalised, sorted and free of
// duplicates, since its length is a price (PROTOCOL P3.2).
func (w *walker) wordLists(v *value, key *Key, n *node, path string) {
	if n.kind != nodeMapping {
		w.wrongType(n, path, expected(key))
		return
	}
	if count := int64(len(n.entries)); count > key.Max {
		w.source.errorf(n.position, CodeOutOfRange, path, "expected at most %d word lists, got %d", key.Max, count)
	}
	v.lists = map[string][]string{}
	for _, e := range n.entries {
		at := join(path, boundedKey(e.key))
		if _, err := bcp.ParseClientID(e.key); err != nil {
			w.source.errorf(e.position, CodeBadValue, at, "expected a name of 1 to 64 letters, digits, hyphens and underscores")
			continue
		}
		if e.value.kind != nodeList || len(e.value.items) == 0 {
			if e.value.kind == nodeList {
				w.source.errorf(e.value.position, CodeOutOfRange, at, "expected at least one word")
			} else {
				w.wrongType(e.value, at, "a list of words")
			}
			continue
		}
		v.lists[e.key] = w.wordList(e.value, at)
	}
}

func (w *walker) wordList(n *node, path string) []string {
	if w.words += len(n.items); w.words > MaxVocabularyWords {
		w.source.errorf(n.position, CodeTooMany, path, "expected at most %d words in all word lists, got %d or more", MaxVocabularyWords, w.words)
		return nil
	}
	first, looks := make(map[string]int, len(n.items)), make(map[string]int, len(n.items))
	for i, item := range n.items {
		at := index(path, i)
		if item.kind != nodeText {
			w.wrongType(item, at, "text that is one word")
			continue
		}
		word, ok := normaliseWord(item.text)
		if !ok {
			w.source.errorf(item.position, CodeBadValue, at, "expected one word of at most %d letters, digits and hyphens inside, got %s", MaxWordChars, quote(item.text))
			continue
		}
		if before, again := first[word]; again {
			w.source.errorf(item.position, CodeDuplicate, at, "the word is the same as number %d of the list", before+1)
			continue
		}
		if before, again := looks[text.Look(word)]; again {
			w.source.errorf(item.position, CodeDuplicate, at, "the word looks the same as number %d of the list", before+1)
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
	folded := string(result.Text)
	if strings.ContainsFunc(folded, func(r rune) bool {
		return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}) {
		return "", false
	}
	// What the normaliser takes for a separator would be lost silently.
	lost := strings.ContainsFunc(word, func(r rune) bool {
		return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return folded, !lost && strings.Count(folded, "-") == strings.Count(word, "-")
}
