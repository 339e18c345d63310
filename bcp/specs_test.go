package bcp_test

import (
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Vocabulary is the word list that generated specs name.
const Vocabulary = "colours"

// Vocabularies is what a [bcp.Settings] needs for generated specs.
func Vocabularies() map[string][]string {
	return map[string][]string{Vocabulary: {"amber", "blue", "green", "red", "violet"}}
}

// Specs generates specs that [bcp.Compile] accepts, of every category and
// format, without constraints.
func Specs() *rapid.Generator[bcp.Spec] {
	return rapid.Custom(func(t *rapid.T) bcp.Spec {
		switch rapid.IntRange(1, 3).Draw(t, "category") {
		case 1:
			return bcp.Spec{Category: 1, Fields: rapid.SliceOfNDistinct(fields(), 1, 6, fieldName).Draw(t, "fields")}
		case 2:
			return bcp.Spec{Category: 2, Questions: rapid.SliceOfNDistinct(questions(), 1, 4, questionID).Draw(t, "questions")}
		default:
			return bcp.Spec{Category: 3, Directive: "Summarize.", MaxWords: rapid.IntRange(1, 60).Draw(t, "max_words")}
		}
	})
}

func fieldName(f bcp.Field) string     { return f.Name }
func questionID(q bcp.Question) string { return q.ID }
func names() *rapid.Generator[string]  { return rapid.StringMatching(`[a-z][a-z0-9_-]{0,11}`) }
func values() *rapid.Generator[[]string] {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"low", "high", "Not started", "50%", "café", "日本", `"quoted"`, `back\slash`, "a/b", "C++", "C#", "été 2026", "-", "<b>", "null", "0",
	}), 1, 6, rapid.ID[string])
}

func fields() *rapid.Generator[bcp.Field] {
	return rapid.Custom(func(t *rapid.T) bcp.Field {
		f := bcp.Field{Name: names().Draw(t, "name")}
		switch f.Type = bcp.Type(rapid.IntRange(1, 3).Draw(t, "type")); f.Type {
		case bcp.TypeEnum:
			f.Values = values().Draw(t, "values")
		case bcp.TypeInteger:
			f.Min, f.Max = bounds(t, rapid.Int64())
		}
		return f
	})
}

func bounds(t *rapid.T, of *rapid.Generator[int64]) (least, greatest *int64) {
	a, b := of.Draw(t, "min"), of.Draw(t, "max")
	a, b = min(a, b), max(a, b)
	return &a, &b
}

func questions() *rapid.Generator[bcp.Question] {
	return rapid.Custom(func(t *rapid.T) bcp.Question {
		q := bcp.Question{ID: names().Draw(t, "id"), Question: "What?", MaxWords: rapid.IntRange(1, 12).Draw(t, "max_words")}
		q.ExpectedFormat = bcp.Format(rapid.IntRange(int(bcp.FormatPersonName), int(bcp.FormatVocabulary)).Draw(t, "format"))
		switch q.ExpectedFormat {
		case bcp.FormatShortText, bcp.FormatShortList, bcp.FormatPersonName:
			q.Alphabet = rapid.SampledFrom([]string{"", "any", "ascii", "latin"}).Draw(t, "alphabet")
			q.MaxChars = rapid.SampledFrom([]int{0, 1, 2, 5, 12, 40}).Draw(t, "max_chars")
		case bcp.FormatDate:
			q.MaxWords = max(4, q.MaxWords) // so that every layout fits
			if rapid.Bool().Draw(t, "bounded") {
				q.Min, q.Max = bounds(t, rapid.Int64Range(1, 9999))
			}
		case bcp.FormatInteger:
			if rapid.Bool().Draw(t, "bounded") {
				q.Min, q.Max = bounds(t, rapid.Int64())
			}
		case bcp.FormatEnum:
			q.MaxWords = max(2, q.MaxWords)
			q.Values = values().Draw(t, "values")
		case bcp.FormatVocabulary:
			q.Vocabulary = Vocabulary
		}
		return q
	})
}
