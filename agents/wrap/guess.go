package wrap

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// outputSchema is the part of a tool's output schema that is used.
type outputSchema struct {
	Properties map[string]property `json:"properties"`
}

// property is what is known of a member of a tool's result.
type property struct {
	Type    any    `json:"type"`
	Enum    []any  `json:"enum"`
	Minimum *int64 `json:"minimum"`
	Maximum *int64 `json:"maximum"`
	Items   struct {
		Type any `json:"type"`
	} `json:"items"`
	words int    // of its longest text; 0 is not known
	from  string // its expression, if it is not the member's own
}

// guessedWords is what a text may have of which no length is known.
const guessedWords = 20

// Guess makes the entry of a tool, pinned as the server lists it, with the narrowest
// answer that its output schema allows: booleans, choices and bounded numbers; or, if it
// has none of these, questions for its texts, numbers and lists. Omitted members are listed
// in Decide. Without any, the answer only says whether the tool worked.
func Guess(tool *sdk.Tool) (Tool, error) {
	pin, err := Pin(tool)
	if err != nil {
		return Tool{}, err
	}
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil || string(schema) == "null" {
		schema = []byte(`{"type":"object"}`)
	}
	description, inText := seen(tool.Description)
	clean, inSchema, err := seenSchema(schema)
	if err != nil {
		return Tool{}, err
	}
	t := Tool{Name: tool.Name, Description: description, InputSchema: clean, SHA256: pin, unseen: inText + inSchema}
	var out outputSchema
	if b, err := json.Marshal(tool.OutputSchema); err == nil {
		_ = json.Unmarshal(b, &out) // omit what cannot be read
	}
	t.draft(out.Properties, false)
	t.noteUnseen()
	return t, t.check()
}

// noteUnseen says how many characters were left out of what the server lists.
func (t *Tool) noteUnseen() {
	if t.unseen > 0 {
		t.Decide = append(t.Decide, fmt.Sprintf("%d characters that nobody sees are left out of its description and schema: does the server hide orders?", t.unseen))
	}
}

// draft fills in an answer from what is known of a result: with whole all of it, otherwise
// only what is narrow, if something is.
func (t *Tool) draft(properties map[string]property, whole bool) {
	t.Answer, t.From, t.Decide = bcp.Spec{}, map[string]string{}, nil
	narrow, wide := bcp.Spec{Category: 1}, bcp.Spec{Category: 2}
	var open []string // what only a question asks for
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name]
		f, question, from := p.ask(name)
		one := bcp.Spec{Category: 1, Fields: []bcp.Field{f}}
		if f.Name == "" {
			one = bcp.Spec{Category: 2, Questions: []bcp.Question{question}}
		}
		_, err := bcp.Compile(one, bcp.Settings{})
		switch {
		case !validName(name) || len(name) > 64:
			t.Decide = append(t.Decide, "a property of the result has a name that no answer can have")
			continue
		case from == "":
			t.Decide = append(t.Decide, fmt.Sprintf("%s (%v) is left out", name, p.Type))
			continue
		case err != nil, f.Name != "" && len(narrow.Fields) == bcp.MaxFields, (whole || f.Name == "") && len(wide.Questions) == bcp.MaxQuestions:
			t.Decide = append(t.Decide, name+" is left out: no answer can have its values or bounds")
			continue
		case f.Name != "":
			narrow.Fields = append(narrow.Fields, f)
		default:
			open = append(open, fmt.Sprintf("%s (%v) is left out", name, p.Type))
		}
		if whole || f.Name == "" {
			wide.Questions = append(wide.Questions, question)
		}
		t.From[name] = from
	}
	switch {
	case len(narrow.Fields) > 0 && (!whole || len(open) == 0):
		t.Answer, t.Decide = narrow, append(t.Decide, open...)
		maps.DeleteFunc(t.From, func(name, _ string) bool {
			return !slices.ContainsFunc(narrow.Fields, func(f bcp.Field) bool { return f.Name == name })
		})
	case len(wide.Questions) > 0:
		t.Answer = wide
		t.Decide = append(t.Decide, "words of strangers reach the host: is each needed, and in so many words?")
	default:
		t.Answer = bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "worked", Type: bcp.TypeBoolean}}}
		t.From = map[string]string{"worked": "!result.error"}
		t.Decide = append(t.Decide, "the host hears only whether it worked")
	}
}

// ask returns the field for a member of a result if one is narrow enough, the question for it,
// and the expression for both; none if nothing can be asked.
func (p property) ask(name string) (f bcp.Field, q bcp.Question, from string) {
	from = cmp.Or(p.from, "result.structured."+name)
	if strings.ContainsAny(name, "-./") { // it is no identifier
		from = cmp.Or(p.from, "result.structured['"+name+"']")
	}
	q = bcp.Question{ID: name, Question: "What is " + name + "?", MaxWords: 1}
	switch {
	case p.Type == "boolean":
		f = bcp.Field{Name: name, Type: bcp.TypeBoolean}
		q.ExpectedFormat = bcp.FormatBoolean
	case len(p.Enum) > 1 && asTexts(p.Enum) != nil:
		f = bcp.Field{Name: name, Type: bcp.TypeEnum, Values: asTexts(p.Enum)}
		q.ExpectedFormat, q.Values = bcp.FormatEnum, f.Values
	case p.Type == "integer" && p.Minimum != nil && p.Maximum != nil:
		f = bcp.Field{Name: name, Type: bcp.TypeInteger, Min: p.Minimum, Max: p.Maximum}
		q.ExpectedFormat, q.Min, q.Max = bcp.FormatInteger, p.Minimum, p.Maximum
	case p.Type == "integer":
		q.ExpectedFormat, q.Min, q.Max = bcp.FormatInteger, p.Minimum, p.Maximum
	case p.Type == "string":
		q.ExpectedFormat, q.MaxWords = bcp.FormatShortText, cmp.Or(p.words, guessedWords)
	case p.Type == "array" && p.Items.Type == "string":
		q.ExpectedFormat, q.MaxWords = bcp.FormatShortList, cmp.Or(p.words, guessedWords)
		from += ".join(', ')"
	case p.Type == "array":
		q.ExpectedFormat, q.Question = bcp.FormatInteger, "How many "+name+" are there?"
		from = "size(" + from + ")"
	default:
		from = ""
	}
	return f, q, from
}

// asTexts returns choices that are all text, otherwise nil.
func asTexts(values []any) []string {
	var texts []string
	for _, v := range values {
		s, ok := v.(string)
		if !ok {
			return nil
		}
		texts = append(texts, s)
	}
	return texts
}

// Difference lists the new, changed and removed tools of a server, by name.
type Difference struct{ New, Changed, Gone []string }

// Update returns a file with the tools as the server lists them now. An entry with a
// valid pin is unchanged; a changed tool gets a new pin and description for the host, and
// keeps its answer if possible.
func Update(f *File, listed []*sdk.Tool) (*File, Difference, error) {
	next := &File{Server: f.Server, Reader: f.Reader}
	var d Difference
	known := map[string]*Tool{}
	for i := range f.Tools {
		known[f.Tools[i].Name] = &f.Tools[i]
	}
	for _, tool := range listed {
		entry, err := Guess(tool)
		if err != nil {
			return nil, d, fmt.Errorf("tool %q: %w", tool.Name, err)
		}
		switch before := known[tool.Name]; {
		case before == nil:
			d.New = append(d.New, tool.Name)
		case before.SHA256 == entry.SHA256:
			entry = *before
		default:
			d.Changed = append(d.Changed, tool.Name)
			entry.Answer, entry.From = before.Answer, before.From
			entry.Decide = []string{"the server has changed it: does the answer still fit?"}
			entry.noteUnseen()
		}
		delete(known, tool.Name)
		next.Tools = append(next.Tools, entry)
	}
	d.Gone = slices.Sorted(maps.Keys(known))
	return next, d, nil
}
