package bcp_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Answer is a valid answer to a spec: its values by place, each with what it is
// deliveredForm as.
type Answer struct {
	Category bcp.Category
	Values   []Value
}

// Value is one value of an Answer.
type Value struct {
	Name      string
	Format    bcp.Format // fields have the formats boolean, enum and integer
	Delivered string     // text, or true, false, or a decimal integer
}

// Canonical returns the bytes that must be delivered.
func (a Answer) Canonical() string {
	b := []byte{'{'}
	for _, v := range a.Values {
		b, _ = wire.AppendString(wire.AppendSep(b), v.Name)
		b = append(b, ':')
		if a.Category == 1 && v.Format != bcp.FormatEnum {
			b = append(b, v.Delivered...)
		} else {
			b, _ = wire.AppendString(b, v.Delivered)
		}
	}
	return string(append(b, '}'))
}

// Answers generates valid answers to a generated spec that no anomaly rule
// minds.
func Answers(spec bcp.Spec) *rapid.Generator[Answer] {
	return rapid.Custom(func(t *rapid.T) Answer {
		a := Answer{Category: spec.Category}
		for _, f := range spec.Fields {
			v := Value{Name: f.Name}
			switch f.Type {
			case bcp.TypeBoolean:
				v.Format, v.Delivered = bcp.FormatBoolean, strconv.FormatBool(rapid.Bool().Draw(t, f.Name))
			case bcp.TypeEnum:
				v.Format, v.Delivered = bcp.FormatEnum, rapid.SampledFrom(f.Values).Draw(t, f.Name)
			case bcp.TypeInteger:
				v.Format, v.Delivered = bcp.FormatInteger, integer(t, f.Name, *f.Min, *f.Max)
			}
			a.Values = append(a.Values, v)
		}
		for _, q := range spec.Questions {
			a.Values = append(a.Values, Value{Name: q.ID, Format: q.ExpectedFormat, Delivered: deliveredForm(t, q)})
		}
		if spec.Category == 3 {
			n := rapid.IntRange(1, spec.MaxWords).Draw(t, "words")
			a.Values = []Value{{Name: "summary", Format: bcp.FormatSummary, Delivered: joined(t, n, 0, plainWords, " ", ". ")}}
		}
		return a
	})
}

func integer(t *rapid.T, label string, least, greatest int64) string {
	return strconv.FormatInt(rapid.Int64Range(least, greatest).Draw(t, label), 10)
}

var (
	plainWords = []string{"vendor", "delivery", "budget", "review", "o'clock", "4.2.1", "1,500", "5%", "r&d", "café", "straße", "会", "σίσυφοσ", "привет", "b", "k", "7"}
	asciiWords = []string{"vendor", "delivery", "budget", "review", "o'clock", "4.2.1", "1,500", "5%", "$5", "r&d", "a", "x", "7"}
	latinWords = append([]string{"café", "résumé", "łódź"}, asciiWords...)
	nameWords  = []string{"jane", "smith", "o'brien", "maria", "j", "berg"}
)

func deliveredForm(t *rapid.T, q bcp.Question) string {
	switch q.ExpectedFormat {
	case bcp.FormatDate:
		least, greatest := int64(1), int64(9999)
		if q.Min != nil {
			least, greatest = *q.Min, *q.Max
		}
		month, day := rapid.IntRange(1, 12).Draw(t, "month"), rapid.IntRange(1, 28).Draw(t, "day")
		if rapid.Bool().Draw(t, "without a year") {
			return fmt.Sprintf("--%02d-%02d", month, day)
		}
		return fmt.Sprintf("%04d-%02d-%02d", rapid.Int64Range(least, greatest).Draw(t, "year"), month, day)
	case bcp.FormatTime:
		return fmt.Sprintf("%02d:%02d", rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute"))
	case bcp.FormatEmail:
		return rapid.StringMatching(`[a-z][a-z0-9]{0,5}(\.[a-z0-9]{1,4})?@([a-z][a-z0-9]{0,5}\.){1,2}(com|org|example)`).Draw(t, "email")
	case bcp.FormatInteger:
		least, greatest := bcp.DefaultIntegerMin, bcp.DefaultIntegerMax
		if q.Min != nil {
			least, greatest = *q.Min, *q.Max
		}
		return integer(t, q.ID, least, greatest)
	case bcp.FormatBoolean:
		return strconv.FormatBool(rapid.Bool().Draw(t, q.ID))
	case bcp.FormatEnum:
		return rapid.SampledFrom(q.Values).Draw(t, q.ID)
	case bcp.FormatVocabulary:
		return joined(t, rapid.IntRange(1, q.MaxWords).Draw(t, "words"), 0, Vocabularies()[Vocabulary], " ")
	}
	words, joiners := plainWords, []string{" "}
	switch {
	case q.ExpectedFormat == bcp.FormatPersonName:
		words = nameWords
	case q.Alphabet == "ascii":
		words = asciiWords
	case q.Alphabet == "latin":
		words = latinWords
	}
	if q.ExpectedFormat == bcp.FormatShortList {
		joiners = []string{" ", ", "}
	}
	return joined(t, rapid.IntRange(1, q.MaxWords).Draw(t, "words"), q.MaxChars, words, joiners...)
}

// joined draws a text of at most n words and, unless it is 0, maxChars
// characters. Words that count twice, and those that canonical spelling folds,
// are counted and folded here by hand.
func joined(t *rapid.T, n, maxChars int, words []string, joiners ...string) string {
	text, left, chars := "", n, 0
	for left > 0 {
		word := rapid.SampledFrom(words).Draw(t, "word")
		cost := 1
		if word == "r&d" {
			cost = 2
		}
		word = strings.ReplaceAll(word, "ß", "ss")
		joiner := ""
		if text != "" {
			joiner = rapid.SampledFrom(joiners).Draw(t, "joiner")
			if strings.HasSuffix(text, "7") && joiner == ", " {
				joiner = " " // it would count the items
			}
		}
		more := len([]rune(joiner + word))
		if cost > left || maxChars > 0 && chars+more > maxChars {
			break
		}
		text, left, chars = text+joiner+word, left-cost, chars+more
	}
	if text == "" {
		shortest := slices.MinFunc(words, func(a, b string) int { return len(a) - len(b) })
		return shortest
	}
	return text
}
