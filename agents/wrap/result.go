package wrap

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
)

// Result is what a tool returned, as its server wrote it.
type Result struct {
	Failed     bool
	Structured jsontext.Value // nil: none
	blocks     []block
}

// block is a part of a result.
type block struct {
	text string // of the server
	note string // of ours, on what is not text
}

// maxBlocks bounds the parts of a result: what is beyond them is counted.
const maxBlocks = 4096

// lenient are the options for JSON of a foreign server: what is no Unicode is replaced, and the last of equal names counts.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// parseResult reads the result of a call. Nothing is dropped without a note that names its kind and size.
func parseResult(raw jsontext.Value) (*Result, error) {
	var in struct {
		Content    jsontext.Value `json:"content"`
		Structured jsontext.Value `json:"structuredContent"`
		IsError    jsontext.Value `json:"isError"`
		Type       string         `json:"resultType"`
		Meta       jsontext.Value `json:"_meta"`
		Others     jsontext.Value `json:",embed"`
	}
	if err := json.Unmarshal(raw, &in, lenient); err != nil {
		return nil, ErrEnded
	}
	r := &Result{Failed: string(in.IsError) == "true"}
	if in.Structured.Kind() != 0 && in.Structured.Kind() != 'n' {
		r.Structured = in.Structured
	}
	if in.Type != "" && in.Type != "complete" {
		r.Failed = true
		r.blocks = append(r.blocks, block{note: "[no result: the server wants more input]"})
	}
	switch in.Content.Kind() {
	case 0, 'n':
	case '[':
		d := jsontext.NewDecoder(bytes.NewBuffer(in.Content), lenient)
		_, _ = d.ReadToken() // it is valid, and begins a list
		more := 0
		for d.PeekKind() != ']' {
			value, err := d.ReadValue()
			if err != nil {
				return nil, ErrEnded
			}
			if len(r.blocks) < maxBlocks {
				r.blocks = append(r.blocks, parseBlock(value))
			} else {
				more++
			}
		}
		if more > 0 {
			r.blocks = append(r.blocks, block{note: fmt.Sprintf("[%d more parts left out]", more)})
		}
	default: // some servers return a part, or a text, in place of a list
		r.blocks = append(r.blocks, parseBlock(in.Content))
	}
	switch {
	case r.Structured != nil || len(r.blocks) > 0:
	case r.Failed:
		r.blocks = []block{{note: "[the tool failed, and its server does not say why]"}}
	case in.Others != nil:
		r.blocks = []block{{note: fmt.Sprintf("[a result without content left out: %d bytes]", len(in.Others))}}
	}
	return r, nil
}

// refusal is the result of a call that a server answered with an error of JSON-RPC.
func refusal(e *jsonrpc.Error) *Result {
	return &Result{Failed: true, blocks: []block{{note: fmt.Sprintf("[the server refused the call with error %d]", e.Code), text: words(e.Message, string(e.Data))}}}
}

func parseBlock(raw jsontext.Value) block {
	var text string
	if raw.Kind() == '"' && json.Unmarshal(raw, &text, lenient) == nil {
		return block{text: text}
	}
	var in struct {
		Kind        string         `json:"type"`
		Text        *string        `json:"text"`
		Data        string         `json:"data"`
		MIMEType    string         `json:"mimeType"`
		URI         string         `json:"uri"`
		Name        string         `json:"name"`
		Title       string         `json:"title"`
		Description string         `json:"description"`
		Size        jsontext.Value `json:"size"`
		Resource    struct {
			URI      string  `json:"uri"`
			MIMEType string  `json:"mimeType"`
			Text     *string `json:"text"`
			Blob     string  `json:"blob"`
		} `json:"resource"`
	}
	if json.Unmarshal(raw, &in, lenient) != nil {
		return block{note: fmt.Sprintf("[a part that is not of MCP left out: %d bytes]", len(raw))}
	}
	switch of := in.Resource; {
	case in.Kind == "text" && in.Text != nil:
		return block{text: *in.Text}
	case in.Kind == "resource" && of.Text != nil:
		return block{note: words("[resource", of.URI, of.MIMEType) + "]", text: *of.Text}
	case in.Kind == "resource":
		// Some servers have each resource in Base64.
		if content, err := base64.StdEncoding.DecodeString(of.Blob); err == nil && len(content) > 0 && utf8.Valid(content) && of.MIMEType != "" && fetch.IsText(of.MIMEType, content) {
			return block{note: words("[resource", of.URI, of.MIMEType) + "]", text: string(content)}
		}
		return block{note: words("[resource", of.URI, of.MIMEType) + fmt.Sprintf(" left out: %d bytes]", decodedLen(of.Blob))}
	case in.Kind == "resource_link":
		size := ""
		if in.Size.Kind() == '0' {
			size = in.Size.String() + " bytes"
		}
		return block{note: words("[link, not followed:", in.URI, in.Name, in.Title, in.Description, in.MIMEType, size) + "]"}
	case in.Kind == "image" || in.Kind == "audio":
		return block{note: words("["+in.Kind, in.MIMEType) + fmt.Sprintf(" left out: %d bytes]", decodedLen(in.Data))}
	}
	return block{note: fmt.Sprintf("[a part of the kind %.64q left out: %d bytes]", in.Kind, len(raw))}
}

// words joins what there is of these texts, each of them on one line.
func words(texts ...string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strings.Fields(text)...)
	}
	return strings.Join(all, " ")
}

// decodedLen is how many bytes a text in Base64 is of.
func decodedLen(text string) int { return len(strings.TrimRight(text, "=")) * 3 / 4 }

// Readable reports whether a result has any text or structure.
func (r *Result) Readable() bool {
	return r.Structured != nil || len(r.blocks) == 0 || slices.ContainsFunc(r.blocks, func(b block) bool { return b.text != "" })
}

// Text is all text of a result, each part on lines of its own, with a note for each part that is not text.
func (r *Result) Text() string {
	var lines []string
	for _, b := range r.blocks {
		for _, line := range [2]string{b.note, b.text} {
			if line != "" {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Whole is [Result.Text], and the structured content unless the text says the same.
func (r *Result) Whole() string {
	text := r.Text()
	switch {
	case r.Structured == nil || r.says(text):
		return text
	case text == "":
		return string(r.Structured)
	}
	return text + "\n" + string(r.Structured)
}

// says reports whether a text, or one part of the result, is the structured content, or the one value of its member "result",
// in which servers wrap what is no object.
func (r *Result) says(text string) bool {
	values := []jsontext.Value{r.Structured}
	var wrapped struct {
		Result jsontext.Value `json:"result"`
		Others jsontext.Value `json:",embed"`
	}
	if json.Unmarshal(r.Structured, &wrapped, lenient) == nil && len(wrapped.Result) > 0 && len(wrapped.Others) == 0 {
		values = append(values, wrapped.Result)
	}
	var forms, words []string
	for _, v := range values {
		var said string
		if form := canonical(v); form != "" {
			forms = append(forms, form)
		}
		if v.Kind() == '"' && json.Unmarshal(v, &said, lenient) == nil {
			words = append(words, said)
		}
	}
	same := func(text string) bool {
		return text != "" && (slices.Contains(words, text) || slices.Contains(forms, canonical(jsontext.Value(text))))
	}
	return same(text) || slices.ContainsFunc(r.blocks, func(b block) bool { return same(b.text) })
}

// canonical is JSON without white space and with its members in order, or empty.
func canonical(v jsontext.Value) string {
	v = bytes.Clone(v)
	if v.Format(jsontext.ReorderRawObjects(true), lenient) != nil {
		return ""
	}
	return string(v)
}

// exactNumbers has numbers in values of any type stay as they are written: a float64 cannot hold whole numbers beyond 2^53.
var exactNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, into *any) error {
	*into = nil // what an equal name had
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	*into = jsontext.Value(bytes.Clone(raw))
	return err
}))

// head is what a message of JSON-RPC is, before it is read whole: the last of each name, in any case.
type head struct {
	ID      jsontext.Value `json:"id"`
	Method  jsontext.Value `json:"method"`
	Version jsontext.Value `json:"jsonrpc"`
	Error   jsontext.Value `json:"error"`
}

// parseHead reads the head of a line.
func parseHead(line []byte) (h head, err error) {
	if json.Unmarshal(line, &h, lenient, json.MatchCaseInsensitiveNames(true)) != nil {
		return head{}, errNoAnswer
	}
	for _, value := range []jsontext.Value{h.ID, h.Method} {
		if kind := value.Kind(); len(value) > maxHead || kind == '{' || kind == '[' {
			return head{}, errNoAnswer
		}
	}
	return h, nil
}

// maxHead bounds an id or a method, in bytes.
const maxHead = 256
