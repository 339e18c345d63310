package wrap

import (
	"encoding/json"
	"strings"
)

// Observed returns the entry of a tool with an answer drafted from what it returned, in
// place of the one that it had: texts with twice the words that were seen, numbers and
// lists; of a text that is no JSON its first line, and how many lines it has. It is a
// draft: a tool may return something else next time.
func (t *Tool) Observed(results []*Result) (Tool, error) {
	seen := map[string]property{}
	for _, r := range results {
		if r.Failed {
			continue
		}
		tree := parseTree(r)
		members, structured := tree["structured"].(map[string]any)
		if !structured {
			text := tree["text"].(string)
			first, _, several := strings.Cut(text, "\n")
			members = map[string]any{"text": first}
			if several {
				members["lines"] = int64(strings.Count(text, "\n") + 1)
			}
		}
		for name, value := range members {
			p := observe(value)
			if before, known := seen[name]; known && before.Type != p.Type {
				p.Type = nil // it is now this and now that
			} else {
				p.words = max(p.words, before.words)
			}
			if !structured {
				p.from = map[string]string{"text": `result.text.split('\n')[0]`, "lines": `size(result.text.split('\n'))`}[name]
			}
			seen[name] = p
		}
	}
	next := *t
	next.draft(seen, true)
	return next, next.check()
}

// mostObserved bounds the words of a drafted text.
const mostObserved = 40

// observe says what a value is. A number that was seen bounds no other.
func observe(value any) (p property) {
	words := func(text string) int { return min(max(5, 2*len(strings.Fields(text))), mostObserved) }
	switch v := value.(type) {
	case bool:
		p.Type = "boolean"
	case int64:
		p.Type = "integer"
	case string:
		p.Type, p.words = "string", words(v)
	case []any:
		p.Type = "array"
		var texts []string
		for _, e := range v {
			if text, ok := e.(string); ok {
				texts = append(texts, text)
			}
		}
		if len(texts) == len(v) && len(v) > 0 {
			p.Items.Type, p.words = "string", words(strings.Join(texts, " "))
		}
	case map[string]any:
		p.Type = "object"
	case float64, json.Number:
		p.Type = "number"
	}
	return p
}
