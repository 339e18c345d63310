package mcptool

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonSchema is the part of a JSON Schema that is used.
type jsonSchema struct {
	Type       any                       `json:"type"`
	Properties map[string]jsontext.Value `json:"properties"`
	Required   []string                  `json:"required"`
	Items      jsontext.Value            `json:"items"`
	MaxItems   any                       `json:"maxItems"`
	MaxLength  any                       `json:"maxLength"`
	Minimum    any                       `json:"minimum"`
	Maximum    any                       `json:"maximum"`
	Enum       []any                     `json:"enum"`
}

// maxDepth is how deep values nest.
const maxDepth = 8

func text() map[string]any { return map[string]any{"type": "string"} }

// closed returns the part of a JSON Schema that a kernel can enforce. It contains no
// sentences. Unknown parts become a text, and a property that no plan can name is left
// out.
func closed(schema any) map[string]any {
	b, err := json.Marshal(schema)
	if err != nil {
		return text()
	}
	return closedAt(b, 1)
}

func closedAt(schema jsontext.Value, depth int) map[string]any {
	var s jsonSchema
	if json.Unmarshal(schema, &s) != nil || depth > maxDepth {
		return text()
	}
	kind, nullable := s.Type, false
	if kinds, ok := s.Type.([]any); ok && len(kinds) == 2 && slices.Contains(kinds, any("null")) {
		nullable = true
		if kind = kinds[0]; kind == "null" {
			kind = kinds[1]
		}
	}
	t := map[string]any{"type": kind}
	if nullable {
		t["nullable"] = true
	}
	switch kind {
	case "object":
		properties, required := map[string]any{}, []string{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if !isName(name) {
				continue
			}
			properties[name] = closedAt(s.Properties[name], depth+1)
			if slices.Contains(s.Required, name) {
				required = append(required, name)
			}
		}
		t["properties"], t["required"] = properties, required
	case "array":
		if t["items"] = text(); s.Items != nil {
			t["items"] = closedAt(s.Items, depth+1)
		}
		set(t, "maxItems", s.MaxItems, 0)
	case "string":
		if choices := wordChoices(s.Enum); choices != nil {
			t["enum"] = choices
		} else {
			set(t, "maxLength", s.MaxLength, 1)
		}
	case "integer", "number":
		set(t, "minimum", s.Minimum, -maxBound)
		set(t, "maximum", s.Maximum, -maxBound)
	case "boolean":
	default:
		return text()
	}
	return t
}

// maxBound is the largest number that is written as a bound.
const maxBound = 1<<53 - 1

// set takes a bound over if it is a whole number from least on.
func set(t map[string]any, key string, bound any, least float64) {
	if n, ok := bound.(float64); ok && n == float64(int64(n)) && n >= least && n <= maxBound {
		t[key] = int64(n)
	}
}

// wordChoices returns unique choices that are all words, or nil. Planners read a choice,
// so it must not be a sentence.
func wordChoices(values []any) []string {
	var words []string
	for _, v := range values {
		word, ok := v.(string)
		if !ok || slices.Contains(words, word) || word == "" || len(word) > 64 || strings.ContainsFunc(word, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.:/+", r)
		}) {
			return nil
		}
		words = append(words, word)
	}
	return words
}
