package wrap

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// nested is a schema with one required property.
func nested(schema string) string {
	return `{"type":"object","properties":{"p":` + schema + `},"required":["p"],"$defs":{"Word":{"type":"string","enum":["a","b"]},"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}}},"a/b":{"type":"integer"},"Base":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}}`
}

// Each schema becomes a closed type that loads, as near as one can be, and what differs is said.
//
// covers KER-79
func TestClosed(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string][2]string{ // the type of the property, and a part of the note
		`{"type":"string"}`: {`{"type":"string"}`, ""}, `{"type":"string","maxLength":7}`: {`{"maxLength":7,"type":"string"}`, ""}, `{"type":"string","maxLength":9999999}`: {`{"type":"string"}`, "its maxLength is left out"},
		`{"type":"string","format":"date","pattern":"x","minLength":1}`: {`{"type":"string"}`, "p: not checked here: minLength, pattern, format"},
		`{"type":"boolean"}`: {`{"type":"boolean"}`, ""}, `{"type":"integer","minimum":-3,"maximum":9007199254740993}`: {`{"maximum":9007199254740993,"minimum":-3,"type":"integer"}`, ""},
		`{"type":"integer","minimum":1.0,"maximum":1e2}`: {`{"maximum":100,"minimum":1,"type":"integer"}`, ""}, `{"type":"integer","minimum":1.5}`: {`{"type":"integer"}`, "its minimum is left out"},
		`{"type":"integer","minimum":1,"maximum":0}`: {`{"minimum":1,"type":"integer"}`, "its maximum is left out"}, `{"type":"integer","exclusiveMinimum":0}`: {`{"type":"integer"}`, "not checked here: exclusiveMinimum"},
		`{"type":"integer","maximum":1e99}`: {`{"type":"integer"}`, "its maximum is left out"}, `{"type":"number","multipleOf":0.01}`: {`{"type":"number"}`, "multipleOf"},
		`{"type":["string","null"]}`: {`{"nullable":true,"type":"string"}`, ""}, `{"type":["null","integer"],"minimum":1}`: {`{"minimum":1,"nullable":true,"type":"integer"}`, ""}, `{"type":["integer"]}`: {`{"type":"integer"}`, ""}, `{"type":"string","nullable":true}`: {`{"nullable":true,"type":"string"}`, ""},
		`{"type":["string","integer"]}`: {`{"type":"string"}`, "one of 2 shapes; only the first, of type string"}, `{"type":"null"}`: {`{"type":"string"}`, "no type that is known"},
		`{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}`: {`{"nullable":true,"type":"string"}`, ""}, `{"oneOf":[{"$ref":"#/$defs/Word"},{"type":"null"}]}`: {`{"enum":["a","b"],"nullable":true,"type":"string"}`, ""},
		`{"anyOf":[{"type":"integer","maximum":5}],"minimum":1}`: {`{"maximum":5,"minimum":1,"type":"integer"}`, ""}, `{"anyOf":[{"type":"integer"},{"type":"number"}]}`: {`{"type":"integer"}`, "only the first, of type integer"},
		`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]}`: {`{"properties":{"a":{"type":"string"}},"required":[],"type":"object"}`, "one of 2 shapes"},
		`{"anyOf":[{"type":"null"}]}`: {`{"type":"string"}`, "null alone"}, `{"anyOf":[]}`: {`{"type":"string"}`, "any value"},
		`{"$ref":"#/$defs/Word"}`: {`{"enum":["a","b"],"type":"string"}`, ""}, `{"$ref":"#/$defs/Word","description":"x"}`: {`{"enum":["a","b"],"type":"string"}`, ""}, `{"$ref":"#/$defs/a~1b","minimum":3}`: {`{"minimum":3,"type":"integer"}`, ""},
		`{"$ref":"#/$defs/a%7E1b"}`: {`{"type":"integer"}`, ""}, `{"$ref":"#/$defs/None"}`: {`{"type":"string"}`, "a reference to something else"}, `{"$ref":"https://x.test/s"}`: {`{"type":"string"}`, "a reference to something else"},
		`{"$ref":"#/$defs/Node"}`: {`{"properties":{"next":{"type":"string"}},"required":[],"type":"object"}`, "p.next: it contains itself"},
		`{"allOf":[{"$ref":"#/$defs/Base"},{"properties":{"x":{"type":"boolean"}},"required":["x"]}]}`: {`{"properties":{"id":{"type":"integer"},"x":{"type":"boolean"}},"required":["id","x"],"type":"object"}`, ""},
		`{"allOf":[{"$ref":"#/$defs/Word"}],"default":"a"}`:                                            {`{"enum":["a","b"],"type":"string"}`, ""},
		`{"enum":["a","b"]}`: {`{"enum":["a","b"],"type":"string"}`, ""}, `{"enum":["a",null]}`: {`{"enum":["a"],"nullable":true,"type":"string"}`, ""}, `{"type":"string","enum":["a b"]}`: {`{"type":"string"}`, "its choices are left out"},
		`{"type":"integer","enum":[1,2,3]}`: {`{"type":"integer"}`, "its choices are left out"}, `{"enum":[true,false]}`: {`{"type":"boolean"}`, "its choices are left out"}, `{"enum":[1,"a"]}`: {`{"type":"number"}`, "its choices are left out"},
		`{"enum":[null]}`: {`{"nullable":true,"type":"string"}`, "any value"}, `{"enum":[null,1]}`: {`{"nullable":true,"type":"number"}`, "its choices are left out"},
		`{"const":"x"}`: {`{"enum":["x"],"type":"string"}`, ""}, `{"const":7}`: {`{"type":"number"}`, "its choices are left out"}, `{"type":"string","const":"no word"}`: {`{"type":"string"}`, "its choices are left out"},
		`{"type":"array","items":{"$ref":"#/$defs/Base"},"maxItems":3}`: {`{"items":{"properties":{"id":{"type":"integer"}},"required":["id"],"type":"object"},"maxItems":3,"type":"array"}`, ""}, `{"type":"array"}`: {`{"items":{"type":"string"},"type":"array"}`, "elements of any type"},
		`{"type":"array","prefixItems":[{"type":"integer"}]}`: {`{"items":{"type":"string"},"type":"array"}`, "a type each"}, `{"items":[{"type":"integer"}]}`: {`{"items":{"type":"string"},"type":"array"}`, "a type each"}, `{"type":"array","items":{"type":"integer"},"minItems":1}`: {`{"items":{"type":"integer"},"type":"array"}`, "minItems"},
		`{"type":"object","additionalProperties":{"type":"integer"}}`: {`{"properties":{},"required":[],"type":"object"}`, "p: a map"}, `{"type":"object"}`: {`{"properties":{},"required":[],"type":"object"}`, "members of any name"}, `{"type":"object","additionalProperties":false}`: {`{"properties":{},"required":[],"type":"object"}`, ""},
		`{"type":"object","patternProperties":{"x":{}}}`: {`{"properties":{},"required":[],"type":"object"}`, "p: a map"},
		`{"properties":{"page-size":{"type":"integer"},"a.b":{"type":"string"},"c d":{}},"required":["page-size","c d","none"]}`: {`{"properties":{"page-size":{"type":"integer"}},"required":["page-size"],"type":"object"}`, "p.c d: left out, since no argument can have its name; it is required"},
		`true`: {`{"type":"string"}`, "any value"}, `{}`: {`{"type":"string"}`, "any value"}, `{"type":"file"}`: {`{"type":"string"}`, "no type that is known"}, `{"minimum":1}`: {`{"minimum":1,"type":"number"}`, ""},
		strings.Repeat(`{"type":"array","items":`, 6) + `{"type":"integer"}` + strings.Repeat(`}`, 6): {strings.Repeat(`{"items":`, 5) + `{"type":"string"}` + strings.Repeat(`,"type":"array"}`, 5), "nested too deeply"},
	} {
		drafted, notes := closed(jsontext.Value(nested(schema)), isName)
		b := must(json.Marshal(drafted, json.Deterministic(true)))
		if got := string(b); got != `{"properties":{"p":`+want[0]+`},"required":["p"],"type":"object"}` {
			t.Errorf("%.120s\n is %s\nwant %s", schema, got, want[0])
		}
		if all := strings.Join(notes, "\n"); (want[1] == "") != (all == "") || !strings.Contains(all, want[1]) {
			t.Errorf("%.120s: notes %q, want %q", schema, all, want[1])
		}
		_, err := kernel.ParseType(b)
		failIf(t, err != nil, "%.120s: %v", schema, err)
	}
	// At the top a kernel's argument has no hyphen, and a model's may.
	const top = `{"type":"object","properties":{"page-size":{"type":"integer"}},"required":["page-size"]}`
	if drafted, notes := closed(jsontext.Value(top), isName); len(drafted["properties"].(map[string]any)) != 0 || len(notes) != 1 || !strings.Contains(notes[0], "page-size: left out, since no argument can have its name; it is required") {
		t.Errorf("%v, %v", drafted, notes)
	}
	drafted, notes := closed(jsontext.Value(top), isProperty)
	failIf(t, len(drafted["properties"].(map[string]any)) != 1 || len(notes) != 0, "%v, %v", drafted, notes)
}

// FuzzClosed: whatever a server lists, a draft is a type that loads.
func FuzzClosed(f *testing.F) {
	for _, schema := range []string{`{"type":"object"}`, `{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, `{"allOf":[{"$ref":"#"}]}`, `{"enum":[1,2.5,null]}`, `{"type":"integer","minimum":1e30}`, `{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`} {
		f.Add(schema)
		f.Add(nested(schema))
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if !jsontext.Value(schema).IsValid() {
			return
		}
		drafted, notes := closed(jsontext.Value(schema), isName)
		b := must(json.Marshal(drafted, json.Deterministic(true)))
		_, err := kernel.ParseType(b)
		failIf(t, err != nil || len(notes) > maxNotes+1, "%s\nis %s: %v, %d notes", schema, b, err, len(notes))
	})
}
