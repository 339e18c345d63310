package wrap

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// answerOf shows an answer: names, types or formats, words.
func answerOf(s bcp.Spec) string {
	var parts []string
	for _, f := range s.Fields {
		parts = append(parts, f.Name+":"+f.Type.String())
	}
	for _, q := range s.Questions {
		parts = append(parts, fmt.Sprintf("%s:%s:%d", q.ID, q.ExpectedFormat, q.MaxWords))
	}
	return strings.Join(parts, " ")
}

// A tool of which the server says what it returns has an answer for that.
func TestGuessOfWideSchemas(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"properties":{"content":{"type":"string"}}}`: "content:short_text:20",
		`{"properties":{"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},"rows":{"type":"array","items":{"type":"object"}}}}`: "n:integer:1 rows:integer:1 tags:short_list:20",
		`{"properties":{"content":{"type":"string"},"more":{"type":"boolean"}}}`:                                                                      "more:boolean",
		`{"properties":{"ratio":{"type":"number"}}}`:                                                                                                  "worked:boolean",
		`{"properties":{"a-b":{"type":"string"}}}`:                                                                                                    "a-b:short_text:20",
		`{}`: "worked:boolean",
	} {
		var out any
		noError(t, json.Unmarshal([]byte(schema), &out))
		tool, err := Guess(&sdk.Tool{Name: "x", OutputSchema: out})
		failIf(t, err != nil || answerOf(tool.Answer) != want, "%s: %s, %v (%q)", schema, answerOf(tool.Answer), err, tool.Decide)
	}
}

// An answer that is drafted from results takes out of them what it names.
func TestObserved(t *testing.T) {
	t.Parallel()
	text := func(s string) string { return string(must(jsontext.AppendQuote(nil, s))) }
	for name, c := range map[string]struct {
		results []string
		want    string
		values  map[string]any
	}{
		"structured": {[]string{`{"structuredContent":{"title":"One two three","n":7,"ok":true,"tags":["a","b"],"rows":[{},{}],"f":1.5}}`},
			"n:integer:1 ok:boolean:1 rows:integer:1 tags:short_list:5 title:short_text:6", map[string]any{"title": "One two three", "n": int64(7), "ok": true, "tags": "a, b", "rows": int64(2)}},
		"narrow":      {[]string{`{"structuredContent":{"ok":true}}`}, "ok:boolean", map[string]any{"ok": true}},
		"JSON text":   {[]string{`{"content":[{"type":"text","text":` + text(`{"state":"open"}`) + `}]}`}, "state:short_text:5", map[string]any{"state": "open"}},
		"a line":      {[]string{`{"content":[{"type":"text","text":"Paris is sunny"}]}`}, "text:short_text:6", map[string]any{"text": "Paris is sunny"}},
		"lines":       {[]string{`{"content":[{"type":"text","text":"a\nb\nc"}]}`}, "lines:integer:1 text:short_text:5", map[string]any{"text": "a", "lines": int64(3)}},
		"a long line": {[]string{`{"content":[{"type":"text","text":` + text(strings.Repeat("x ", 100)) + `}]}`}, "text:short_text:40", nil},
		"twice":       {[]string{`{"structuredContent":{"a":"x","b":1}}`, `{"structuredContent":{"a":"x x x x x x","b":"now a text"}}`}, "a:short_text:12", map[string]any{"a": "x"}},
		"a failure":   {[]string{`{"isError":true,"content":[{"type":"text","text":"no"}]}`}, "worked:boolean", map[string]any{"worked": false}},
	} {
		var results []*Result
		for _, raw := range c.results {
			results = append(results, must(parseResult(jsontext.Value(raw))))
		}
		before := Tool{Name: "x", InputSchema: jsontext.Value(`{}`), SHA256: "p"}
		tool, err := before.Observed(results)
		if err != nil || answerOf(tool.Answer) != c.want || tool.SHA256 != "p" {
			t.Errorf("%s: %s, %v (%q)", name, answerOf(tool.Answer), err, tool.Decide)
			continue
		}
		for of, want := range c.values {
			got, err := must(constraint.CompileExtraction(tool.From[of])).Value(parseTree(results[0]), map[string]any{})
			failIf(t, err != nil || got != want, "%s: %s is %v, %v", name, of, got, err)
		}
	}
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var failIf, noError, stopIf = bcptest.FailIf, bcptest.NoError, bcptest.StopIf

// What is wrong with a file is found at its line.
func TestPlace(t *testing.T) {
	t.Parallel()
	const head = "{\"server\":[\"x\"],\"reader\":\"r\",\"tools\":[\n" + `{"name":"a","description":"","input_schema":{},"sha256":"",` + "\n"
	for content, want := range map[string][2]int{
		head + `"answer":{"category":1,"fields":[{"name":"ok","type":"boolean"}]},` + "\n" + ` "from":{` + "\n" + `"ok":"no such"}}]}`: {5, 1},
		head + `"answer":{"category":1,"fields":[]},"from":{"ok":"true"}}]}`:                                                           {3, 1},
		head + `"answer":{"category":1,"fields":[{"name":"ok","type":"boolean"}]},` + "\n" + `"from":{"no":"true"}}]}`:                 {4, 9},
		"{\n\"server\":[\"x\"],\n,}":                 {3, 1},
		"{\n\"server\":[\"x\"],\n\"readers\":\"r\"}": {3, 1},
		"[]": {1, 1}, "": {1, 1}, "{}": {1, 1},
	} {
		_, err := Parse([]byte(content))
		line, column := Place([]byte(content), err)
		failIf(t, err == nil || line != want[0] || column != want[1], "%s: %d:%d, %v", content, line, column, err)
	}
}
