package definition

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// JSONSchema returns the JSON Schema (draft 2020-12) of the mappings of a
// level, made of its keys and the same at every call: of [LevelMesh] for
// mesh.yaml, of [LevelAgent] for the front matter of an agent, of [LevelService] for a
// file of tools. It helps
// editors and decides nothing: whatever loads fits it, but some of what fits
// does not load, because it takes more than one key, or the mesh, to see.
func JSONSchema(level *Level) ([]byte, error) {
	root := levelSchema(level)
	root.Dialect = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "bcpmesh: " + level.String()
	below := levelsBelow(level)
	for _, l := range levels {
		if slices.Contains(below, l) {
			root.Definitions = append(root.Definitions, property{l.ref, levelSchema(l)})
		}
	}
	b, err := json.Marshal(root, jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// levelsBelow returns the levels that can stand inside a level.
func levelsBelow(level *Level) (below []*Level) {
	for i := range level.keys {
		if child := level.keys[i].Child; child != nil {
			below = append(append(below, child), levelsBelow(child)...)
		}
	}
	return below
}

// jsonSchema holds the keywords that we use: those of draft 7 but for $defs,
// so that editors of that age understand it too.
type jsonSchema struct {
	Dialect       string        `json:"$schema,omitzero"`
	Title         string        `json:"title,omitzero"`
	Description   string        `json:"description,omitzero"`
	Reference     string        `json:"$ref,omitzero"`
	Type          string        `json:"type,omitzero"`
	Words         []string      `json:"enum,omitzero"`
	Word          string        `json:"const,omitzero"`
	Pattern       string        `json:"pattern,omitzero"`
	MinLength     *int64        `json:"minLength,omitzero"`
	MaxLength     *int64        `json:"maxLength,omitzero"`
	Minimum       *int64        `json:"minimum,omitzero"`
	Maximum       *int64        `json:"maximum,omitzero"`
	Items         *jsonSchema   `json:"items,omitzero"`
	MinItems      *int64        `json:"minItems,omitzero"`
	MaxItems      *int64        `json:"maxItems,omitzero"`
	UniqueItems   bool          `json:"uniqueItems,omitzero"`
	AnyOf         []*jsonSchema `json:"anyOf,omitzero"`
	Not           *jsonSchema   `json:"not,omitzero"`
	Required      []string      `json:"required,omitzero"`
	Properties    properties    `json:"properties,omitzero"`
	PropertyNames *jsonSchema   `json:"propertyNames,omitzero"`
	MinProperties *int64        `json:"minProperties,omitzero"`
	MaxProperties *int64        `json:"maxProperties,omitzero"`
	// Additional is false or a schema.
	Additional  any            `json:"additionalProperties,omitzero"`
	If          *jsonSchema    `json:"if,omitzero"`
	Then        *jsonSchema    `json:"then,omitzero"`
	AllOf       []*jsonSchema  `json:"allOf,omitzero"`
	Default     jsontext.Value `json:"default,omitzero"`
	Definitions properties     `json:"$defs,omitzero"`
}

// properties are members of an object in our order.
type properties []property

// property has a schema, or false where the key is not allowed.
type property struct {
	name   string
	schema any
}

// MarshalJSONTo writes the members as an object.
func (p properties) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, member := range p {
		if err := to.WriteToken(jsontext.String(member.name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(to, member.schema); err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}

// levelSchema makes the schema of the mappings of a level.
func levelSchema(level *Level) *jsonSchema {
	s := &jsonSchema{Type: "object", Additional: false}
	var denied properties // in a reader entry
	var demanded []string // in a controller entry
	for i := range level.keys {
		k := &level.keys[i]
		s.Properties = append(s.Properties, property{k.Name, k.schema()})
		switch {
		case k.ControllerOnly:
			denied = append(denied, property{k.Name, false})
		case k.Required && k.DefaultRule != "":
			demanded = append(demanded, k.Name)
		case k.Required:
			s.Required = append(s.Required, k.Name)
		}
	}
	if len(denied) > 0 {
		s.AllOf = append(s.AllOf, &jsonSchema{If: whereRole(bcp.RoleReader), Then: &jsonSchema{Properties: denied}})
	}
	if len(demanded) > 0 {
		s.AllOf = append(s.AllOf, &jsonSchema{If: whereRole(bcp.RoleController), Then: &jsonSchema{Required: demanded}})
	}
	return s
}

func whereRole(role bcp.Role) *jsonSchema {
	return &jsonSchema{Required: []string{"role"}, Properties: properties{{"role", &jsonSchema{Word: role.String()}}}}
}

const controllerOnly = "Controller's entry only."

// schema makes the schema of the key's value.
func (k *Key) schema() *jsonSchema {
	s := k.Type.schema(k)
	if len(k.Words) > 0 && k.Type != TypeWord {
		s = &jsonSchema{AnyOf: []*jsonSchema{s, {Words: k.Words}}}
	}
	s.Description = k.Doc + " " + capital(expected(k)) + "."
	switch {
	case k.Required && k.DefaultRule == "":
		s.Description += " Required."
	case k.Required:
		s.Description += " Required, but " + k.DefaultRule + "."
	case k.Default != "":
		s.Description += " Default: " + k.Default + "."
		s.Default = k.defaultJSON()
	default:
		s.Description += " Default: " + k.DefaultRule + "."
	}
	if k.ControllerOnly {
		s.Description += " " + controllerOnly
	}
	return s
}

// defaultJSON returns the default as the JSON that its YAML reads as.
func (k *Key) defaultJSON() jsontext.Value {
	if plainKind(k.Default) == nodeText {
		// What cannot be quoted is not UTF-8, which no default is.
		quoted, _ := jsontext.AppendQuote(nil, k.Default)
		return quoted
	}
	return jsontext.Value(k.Default)
}

// list is the schema of a list.
func (k *Key) list(item *jsonSchema, unique bool) *jsonSchema {
	return &jsonSchema{Type: "array", Items: item, MinItems: &k.Min, MaxItems: &k.Max, UniqueItems: unique}
}

// named is the schema of a mapping of names to what each has.
func (k *Key) named(each *jsonSchema) *jsonSchema {
	return &jsonSchema{Type: "object", PropertyNames: &jsonSchema{Pattern: patternID}, Additional: each, MinProperties: &k.Min, MaxProperties: &k.Max}
}

func (k *Key) reference() *jsonSchema {
	return &jsonSchema{Reference: "#/$defs/" + k.Child.ref}
}

func capital(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }
