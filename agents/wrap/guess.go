package wrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// outputSchema is the part of a tool's output schema that is used.
type outputSchema struct {
	Properties map[string]struct {
		Type    any    `json:"type"`
		Enum    []any  `json:"enum"`
		Minimum *int64 `json:"minimum"`
		Maximum *int64 `json:"maximum"`
	} `json:"properties"`
}

// Guess makes the entry of a tool, pinned as the server lists it, with the narrowest
// answer that its output schema allows: booleans, choices and bounded numbers. Omitted
// fields are listed in Decide. Without any of these the answer only says whether the tool
// worked.
func Guess(tool *sdk.Tool) (Tool, error) {
	pin, err := Pin(tool)
	if err != nil {
		return Tool{}, err
	}
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil || string(schema) == "null" {
		schema = []byte(`{"type":"object"}`)
	}
	t := Tool{Name: tool.Name, Description: tool.Description, InputSchema: jsontext.Value(schema), SHA256: pin, From: map[string]string{}}
	var out outputSchema
	if b, err := json.Marshal(tool.OutputSchema); err == nil {
		_ = json.Unmarshal(b, &out) // omit what cannot be read
	}
	fields := map[string]bcp.Field{}
	for _, name := range slices.Sorted(maps.Keys(out.Properties)) {
		p := out.Properties[name]
		f := bcp.Field{Name: name}
		switch {
		case !validName(name) || len(name) > 64:
			t.Decide = append(t.Decide, "a property of the result has a name that no answer can have")
			continue
		case p.Type == "boolean":
			f.Type = bcp.TypeBoolean
		case len(p.Enum) > 1 && asTexts(p.Enum) != nil:
			f.Type, f.Values = bcp.TypeEnum, asTexts(p.Enum)
		case p.Type == "integer" && p.Minimum != nil && p.Maximum != nil:
			f.Type, f.Min, f.Max = bcp.TypeInteger, p.Minimum, p.Maximum
		default:
			t.Decide = append(t.Decide, fmt.Sprintf("%s (%v) is left out", name, p.Type))
			continue
		}
		if _, err := bcp.Compile(bcp.Spec{Category: 1, Fields: []bcp.Field{f}}, bcp.Settings{}); err != nil || len(fields) == bcp.MaxFields {
			t.Decide = append(t.Decide, name+" is left out: no answer can have its values or bounds")
			continue
		}
		fields[name] = f
		t.From[name] = "result.structured." + name
	}
	if len(fields) == 0 {
		fields["worked"] = bcp.Field{Name: "worked", Type: bcp.TypeBoolean}
		t.From["worked"] = "!result.error"
		t.Decide = append(t.Decide, "the host hears only whether it worked")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		t.Answer.Fields = append(t.Answer.Fields, fields[name])
	}
	t.Answer.Category = 1
	return t, t.check()
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
			entry.Answer, entry.From, entry.Extract = before.Answer, before.From, before.Extract
			entry.Decide = []string{"the server has changed it: does the answer still fit?"}
		}
		delete(known, tool.Name)
		next.Tools = append(next.Tools, entry)
	}
	d.Gone = slices.Sorted(maps.Keys(known))
	return next, d, nil
}
