package wrap

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Each part of a result is in its text, or named by kind and size.
func TestTextOfResults(t *testing.T) {
	t.Parallel()
	numbers := "[" + strings.Repeat("1,", 69_999) + "1]"
	for _, tt := range []struct{ raw, text, whole string }{
		{`{"content":[{"type":"text","text":"Invoice 12"},{"type":"text","text":"34 euro"}]}`, "Invoice 12\n34 euro", ""},
		{`{"content":[{"type":"text","text":""},{"type":"text","text":"a"}]}`, "a", ""},
		{`{"content":{"type":"text","text":"one"}}`, "one", ""},
		{`{"content":"plain"}`, "plain", ""},
		{`{"content":["a",{"type":"text","text":"b"}]}`, "a\nb", ""},
		{`{"content":[]}`, "", ""},
		{`{}`, "", ""},
		{`{"content":null,"structuredContent":null}`, "", ""},
		{`{"content":[{"type":"text","text":"done"},{"type":"resource","resource":{"uri":"repo://a/b\nc.md","mimeType":"text/plain","text":"# Site"}}]}`,
			"done\n[resource repo://a/b c.md text/plain]\n# Site", ""},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///x","mimeType":"application/pdf","blob":"AAAA"}}]}`, "[resource file:///x application/pdf left out: 3 bytes]", ""},
		{`{"content":[{"type":"resource_link","uri":"file:///x","name":"x","title":"The x","description":"all of it","mimeType":"text/plain","size":12}]}`,
			"[link, not followed: file:///x x The x all of it text/plain 12 bytes]", ""},
		{`{"content":[{"type":"resource_link","uri":"file:///x"}]}`, "[link, not followed: file:///x]", ""},
		{`{"content":[{"type":"image","mimeType":"image/png","data":"AAA="},{"type":"audio","mimeType":"audio/wav","data":"AA=="},{"type":"text","text":"x"}]}`,
			"[image image/png left out: 2 bytes]\n[audio audio/wav left out: 1 bytes]\nx", ""},
		{`{"content":[{"type":"video","data":"AAAA"}]}`, `[a part of the kind "video" left out: 30 bytes]`, ""},
		{`{"content":[{"type":"text"}]}`, `[a part of the kind "text" left out: 15 bytes]`, ""},
		{`{"content":[{"type":"text","text":5},7,[]]}`, "[a part that is not of MCP left out: 24 bytes]\n[a part that is not of MCP left out: 1 bytes]\n[a part that is not of MCP left out: 2 bytes]", ""},
		{`{"content":[{"type":"text","text":"\ud800x"}]}`, "\ufffdx", ""},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain; charset=utf-8","blob":"R3LDvMOfZQ=="}}]}`, "[resource file:///x text/plain; charset=utf-8]\nGrüße", ""},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///x","mimeType":"application/json","blob":"eyJhIjoxfQ=="}}]}`, "[resource file:///x application/json]\n" + `{"a":1}`, ""},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain","blob":"/w=="}}]}`, "[resource file:///x text/plain left out: 1 bytes]", ""},
		{`{"content":[],"isError":true}`, "[the tool failed, and its server does not say why]", ""},
		{`{"task":{"taskId":"1"}}`, "[a result without content left out: 23 bytes]", ""},
		{`{"resultType":"input_required"}`, "[no result: the server wants more input]", ""},
		{`{"resultType":"complete","content":"x"}`, "x", ""},
		{`{"structuredContent":{"id":1234567890123456789,"x":1.50}}`, "", `{"id":1234567890123456789,"x":1.50}`},
		{`{"structuredContent":` + numbers + `}`, "", numbers},
		{`{"content":"3 found","structuredContent":{"n":3}}`, "3 found", "3 found\n" + `{"n":3}`},
		{`{"content":"{ \"b\": 2, \"a\": 1 }","structuredContent":{"a":1,"b":2}}`, `{ "b": 2, "a": 1 }`, ""},
		{`{"content":"{\"a\":12345678901234567}","structuredContent":{"a":12345678901234568}}`, `{"a":12345678901234567}`, `{"a":12345678901234567}` + "\n" + `{"a":12345678901234568}`},
		{`{"content":"5","structuredContent":{"result":5}}`, "5", ""},
		{`{"content":"five","structuredContent":{"result":"five"}}`, "five", ""},
		{`{"content":"five","structuredContent":{"result":"five","more":1}}`, "five", "five\n" + `{"result":"five","more":1}`},
		{`{"content":[{"type":"text","text":"[1]"},{"type":"image","data":""}],"structuredContent":[1]}`, "[1]\n[image left out: 0 bytes]", ""},
	} {
		r, err := parseResult(jsontext.Value(tt.raw))
		if err != nil {
			t.Errorf("%.80s: %v", tt.raw, err)
			continue
		}
		if tt.whole == "" {
			tt.whole = tt.text
		}
		failIf(t, r.Text() != tt.text || r.Whole() != tt.whole, "%.80s: text %.80q, whole %.80q", tt.raw, r.Text(), r.Whole())
	}
	for n, more := range map[int]bool{maxBlocks: false, maxBlocks + 1: true} {
		r, err := parseResult(jsontext.Value(`{"content":["x"` + strings.Repeat(`,"x"`, n-1) + `]}`))
		failIf(t, err != nil || strings.Contains(r.Text(), "[1 more parts left out]") != more, "%d parts: %v", n, err)
	}
}

// Whole numbers in an expression's tree are those that the server wrote.
func TestNumbersOfResultsAreExact(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]any{
		"9007199254740993": int64(9007199254740993), "-9223372036854775808": int64(-9223372036854775808), "18446744073709551615": "18446744073709551615",
		"12.0": 12.0, "1e3": 1000.0, "1.5": 1.5,
	} {
		r := must(parseResult(jsontext.Value(`{"structuredContent":[` + raw + `]}`)))
		got := parseTree(r)["structured"].([]any)[0]
		failIf(t, got != want, "%s is %v (%T)", raw, got, got)
	}
	var schema any
	const text = `{"enum":[9007199254740993,1.50],"minimum":-12345678901234567890}`
	noError(t, json.Unmarshal([]byte(text), &schema, lenient, exactNumbers))
	b, err := json.Marshal(schema, json.Deterministic(true))
	failIf(t, err != nil || string(b) != text, "%s, %v", b, err)
}

// The last of equal names counts, whole.
func TestEqualNames(t *testing.T) {
	t.Parallel()
	for _, how := range []json.Options{wholeNumbers, exactNumbers} {
		var v any
		err := json.Unmarshal([]byte(`{"a":1,"a":"x","b":{"x":1},"b":{"y":"z"},"c":[1],"c":{"d":true}}`), &v, lenient, how)
		b, _ := json.Marshal(v, json.Deterministic(true))
		failIf(t, err != nil || string(b) != `{"a":"x","b":{"y":"z"},"c":{"d":true}}`, "%s, %v", b, err)
	}
}

// FuzzResult: whatever parts a server returns, each text is in the whole, and each other part has a note.
func FuzzResult(f *testing.F) {
	for _, content := range []string{`[{"type":"text","text":"a"}]`, `[{"type":"image","data":"AA"},{"type":"x"},5]`, `[{"type":"resource","resource":{"text":"x"}}]`, `"x"`} {
		f.Add(content, `{"a":1}`)
	}
	f.Fuzz(func(t *testing.T, content, structured string) {
		c, s := jsontext.Value(content), jsontext.Value(structured)
		if !c.IsValid(lenient) || !s.IsValid(lenient) {
			return
		}
		r := must(parseResult(jsontext.Value(fmt.Sprintf(`{"content":%s,"structuredContent":%s}`, content, structured))))
		var parts []jsontext.Value
		switch c.Kind() {
		case '[':
			_ = json.Unmarshal(c, &parts, lenient)
		case 'n':
		default:
			parts = []jsontext.Value{c}
		}
		whole, at := r.Whole(), 0
		for _, p := range parts {
			var text string
			var block struct {
				Type     string `json:"type"`
				Text     string `json:"text"`
				Resource struct {
					Text string `json:"text"`
				} `json:"resource"`
			}
			err := json.Unmarshal(p, &block, lenient)
			switch {
			case json.Unmarshal(p, &text, lenient) == nil:
			case err == nil && block.Type == "text" && block.Text != "":
				text = block.Text
			case err == nil && block.Type == "resource" && block.Resource.Text != "":
				text = block.Resource.Text
			case err == nil && block.Type == "text":
				continue // empty, or a note
			default:
				text = "["
			}
			i := strings.Index(whole[at:], text)
			if i < 0 {
				t.Fatalf("%q is not in %q", text, whole[at:])
			}
			at += i + len(text)
		}
		stopIf(t, s.Kind() != 'n' && !strings.Contains(whole, string(r.Structured)) && !r.says(r.Text()),
			"%s is not in %q", s, whole)
		stopIf(t, !utf8.ValidString(r.Text()), "%q is no text", r.Text())
	})
}
