package definition

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// jsonSchema holds keywords, those of draft 7 but for $defs, so that editors of that age
// understand it too.
type jsonSchema map[string]any

// JSONSchema returns the JSON Schema (draft 2020-12) of the mappings of a
// level, made of its keys and the same at every call: of [LevelMesh] for
// mesh.yaml, of [LevelAgent] for the front matter of an agent, of [LevelService] for a
// file of tools. It helps
// editors and decides nothing: whatever loads fits it, but some of what fits
// does not load, because it takes more than one key, or the mesh, to see.
func JSONSchema(level *Level) ([]byte, error) {
	root := level.schema()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "bcpmesh: " + level.String()
	below := jsonSchema{}
	level.addBelow(below)
	root["$defs"] = below
	b, err := json.Marshal(root, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(b, '\n'), err
}

// addBelow adds the levels that can stand inside a level.
func (l *Level) addBelow(to jsonSchema) {
	for i := range l.keys {
		if child := l.keys[i].Child; child != nil {
			to[child.ref] = child.schema()
			child.addBelow(to)
		}
	}
}

// schema makes the schema of the mappings of a level.
func (l *Level) schema() jsonSchema {
	properties, denied := jsonSchema{}, jsonSchema{} // denied: in a reader entry
	var required, demanded []string                  // demanded: in a controller entry
	for i := range l.keys {
		k := &l.keys[i]
		properties[k.Name] = k.schema()
		switch {
		case k.ControllerOnly:
			denied[k.Name] = false
		case k.Required && k.DefaultRule != "":
			demanded = append(demanded, k.Name)
		case k.Required:
			required = append(required, k.Name)
		}
	}
	s := jsonSchema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if l == LevelChannel {
		s["allOf"] = []jsonSchema{
			{"if": whereRole(bcp.RoleReader), "then": jsonSchema{"properties": denied}},
			{"if": whereRole(bcp.RoleController), "then": jsonSchema{"required": demanded}},
		}
	}
	return s
}

func whereRole(role bcp.Role) jsonSchema {
	return jsonSchema{"required": []string{"role"}, "properties": jsonSchema{"role": jsonSchema{"const": role.String()}}}
}

// schema makes the schema of the key's value.
func (k *Key) schema() jsonSchema {
	s := patterned(k.Type.pattern)
	if k.Type.schema != nil {
		s = k.Type.schema(k)
	}
	if len(k.Words) > 0 && k.Type != TypeWord {
		s = anyOf(s, jsonSchema{"enum": k.Words})
	}
	description := k.Doc + " " + capital(expected(k)) + "."
	switch {
	case k.Required && k.DefaultRule == "":
		description += " Required."
	case k.Required:
		description += " Required, but " + k.DefaultRule + "."
	case k.Default != "":
		description += " Default: " + k.Default + "."
		s["default"] = k.defaultJSON()
	default:
		description += " Default: " + k.DefaultRule + "."
	}
	if k.ControllerOnly {
		description += " Controller's entry only."
	}
	s["description"] = description
	return s
}

// defaultJSON returns the default as the JSON that its YAML reads as.
func (k *Key) defaultJSON() any {
	if plainKind(k.Default) == nodeText {
		return k.Default
	}
	return jsontext.Value(k.Default)
}

func anyOf(schemas ...jsonSchema) jsonSchema { return jsonSchema{"anyOf": schemas} }

func patterned(pattern string) jsonSchema { return jsonSchema{"type": "string", "pattern": pattern} }

func numberSchema(k *Key) jsonSchema {
	return jsonSchema{"type": "number", "minimum": k.Min, "maximum": k.Max}
}

func nameSchema() jsonSchema {
	return jsonSchema{"type": "string", "pattern": patternName, "not": jsonSchema{"const": bcp.Gateway}}
}

// list is the schema of a list.
func (k *Key) list(item jsonSchema, unique bool) jsonSchema {
	return jsonSchema{"type": "array", "items": item, "minItems": k.Min, "maxItems": k.Max, "uniqueItems": unique}
}

// named is the schema of a mapping of names to what each has.
func (k *Key) named(each jsonSchema) jsonSchema {
	return jsonSchema{"type": "object", "propertyNames": jsonSchema{"pattern": patternID}, "additionalProperties": each, "minProperties": k.Min, "maxProperties": k.Max}
}

func (k *Key) reference() jsonSchema { return jsonSchema{"$ref": "#/$defs/" + k.Child.ref} }

func capital(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }
