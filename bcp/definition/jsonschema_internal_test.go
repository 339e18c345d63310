package definition

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonSchema holds keywords, those of draft 7 but for $defs, so that editors of that age
// understand it too.
type jsonSchema map[string]any

// JSONSchema returns the JSON Schema (draft 2020-12) of the mappings of a
// level, made of its keys and the same at every call: of [LevelMesh] for
// mesh.yaml, of [LevelAgent] for the front matter of an agent, of [LevelService] for a
// file of tools. It helps editors and decides nothing: whatever loads fits it, which says the
// keys, what kind of value each has, and in words what the loader takes.
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
	properties := jsonSchema{}
	var required []string
	for i := range l.keys {
		k := &l.keys[i]
		properties[k.Name] = k.schema()
		if k.Required && k.DefaultRule == "" {
			required = append(required, k.Name)
		}
	}
	s := jsonSchema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// schema makes the schema of the key's value.
func (k *Key) schema() jsonSchema {
	s := k.kind()
	if len(k.Words) > 0 && k.Type != TypeWord {
		s = jsonSchema{"anyOf": []jsonSchema{s, {"enum": k.Words}}}
	}
	description := k.Doc + " " + capital(expected(k)) + "."
	switch {
	case k.Required && k.DefaultRule == "":
		description += " Required."
	case k.Required:
		description += " Required, but " + k.DefaultRule + "."
	case k.Default != "":
		description += " Default: " + k.Default + "."
		s["default"] = jsontext.Value(k.Default)
		if plainKind(k.Default) == nodeText {
			s["default"] = k.Default
		}
	default:
		description += " Default: " + k.DefaultRule + "."
	}
	if k.ControllerOnly {
		description += " Controller's entry only."
	}
	s["description"] = description
	return s
}

// kind is the schema of the kind of value that the key has.
func (k *Key) kind() jsonSchema {
	texts := jsonSchema{"type": "array", "items": jsonSchema{"type": "string"}}
	named := func(each jsonSchema) jsonSchema { return jsonSchema{"type": "object", "additionalProperties": each} }
	switch t := k.Type; {
	case t == TypeWord:
		return jsonSchema{"enum": k.Words}
	case t == TypeChoices:
		return jsonSchema{"type": "array", "items": jsonSchema{"enum": k.Words}}
	case t == TypeObject:
		return k.reference()
	case t == TypeObjects:
		return jsonSchema{"type": "array", "items": k.reference()}
	case t == TypeNamedObjects:
		return named(k.reference())
	case t == TypeWordLists, t == TypeNameLists:
		return named(texts)
	case t == TypeClosed:
		return jsonSchema{"type": "object"}
	case t == TypeCalls:
		return jsonSchema{"type": "array", "items": jsonSchema{"type": "object"}}
	case t.commas:
		return jsonSchema{"anyOf": []jsonSchema{texts, {"type": "string"}}}
	case t.parse == nil:
		return texts
	case t.kinds == nil:
		return jsonSchema{"type": "string"}
	}
	s := jsonSchema{"type": map[string]string{nodeInteger: "integer", nodeNumber: "number", nodeBoolean: "boolean"}[k.Type.kinds[len(k.Type.kinds)-1]]}
	if k.bounded() {
		s["minimum"], s["maximum"] = k.Min, k.Max
	}
	return s
}

func (k *Key) reference() jsonSchema { return jsonSchema{"$ref": "#/$defs/" + k.Child.ref} }

func capital(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }
