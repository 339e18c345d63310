package lint

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Specs as one line of YAML, as a definition has them.

// writeSpec returns the keys of a spec, without braces around them.
func writeSpec(s *bcp.Spec) string {
	line := "category: " + strconv.Itoa(int(s.Category))
	switch s.Category {
	case 1:
		line += ", fields: [" + joined(s.Fields, writeField) + "]"
	case 2:
		line += ", questions: [" + joined(s.Questions, writeQuestion) + "]"
	default:
		line += ", directive: " + strconv.Quote(s.Directive) + ", max_words: " + strconv.Itoa(s.MaxWords)
	}
	if len(s.Constraints) > 0 {
		line += ", constraints: [" + joined(s.Constraints, func(c *string) string { return strconv.Quote(*c) }) + "]"
	}
	if s.AllowNotEnoughInformation != nil {
		line += ", allow_not_enough_information: " + strconv.FormatBool(*s.AllowNotEnoughInformation)
	}
	return line
}

func writeField(f *bcp.Field) string {
	return "{name: " + scalar(f.Name) + ", type: " + f.Type.String() + writeValues(f.Values) + writeNumber("min", f.Min) + writeNumber("max", f.Max) + "}"
}

func writeQuestion(q *bcp.Question) string {
	line := "{id: " + scalar(q.ID) + ", question: " + strconv.Quote(q.Question)
	if q.MaxWords != 0 {
		line += ", max_words: " + strconv.Itoa(q.MaxWords)
	}
	line += ", expected_format: " + q.ExpectedFormat.String() + writeValues(q.Values) + writeNumber("min", q.Min) + writeNumber("max", q.Max)
	if q.Vocabulary != "" {
		line += ", vocabulary: " + scalar(q.Vocabulary)
	}
	if q.MaxChars != 0 {
		line += ", max_chars: " + strconv.Itoa(q.MaxChars)
	}
	if q.Alphabet != "" {
		line += ", alphabet: " + scalar(q.Alphabet)
	}
	if q.SameAs != "" {
		line += ", same_as: " + scalar(q.SameAs)
	}
	return line + "}"
}

func writeValues(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return ", values: [" + joined(values, func(v *string) string { return scalar(*v) }) + "]"
}

func writeNumber(key string, n *int64) string {
	if n == nil {
		return ""
	}
	return ", " + key + ": " + strconv.FormatInt(*n, 10)
}

func joined[T any](things []T, write func(*T) string) string {
	var parts []string
	for i := range things {
		parts = append(parts, write(&things[i]))
	}
	return strings.Join(parts, ", ")
}

// scalar returns a text as YAML that nobody can read as anything else: words
// of letters as they are, all others in quotes.
func scalar(s string) string {
	notText := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	plain := s != "" && (s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z' && !slices.Contains(notText, strings.ToLower(s))
	for i := range len(s) {
		c := s[i]
		plain = plain && (c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}
