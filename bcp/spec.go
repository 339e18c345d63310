package bcp

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Spec is the shape asked for, of a query or a subscription: the exact objects
// of the seed's "Query Categories", plus the keys of PROTOCOL P1.3. A Spec is
// plain data and may be wrong; [Compile] says so.
type Spec struct {
	Category  Category   `json:"category"`
	Fields    []Field    `json:"fields,omitempty"`    // category 1
	Questions []Question `json:"questions,omitempty"` // category 2
	Directive string     `json:"directive,omitempty"` // category 3
	// MaxWords is the limit of a category 3 summary, and the default of the
	// category 2 questions that have none of their own.
	MaxWords int `json:"max_words,omitzero"`
	// RequiresApproval may be absent or true on category 3, and nothing else:
	// approval cannot be turned off (BCP-59).
	RequiresApproval *bool `json:"requires_approval,omitzero"`
	// Constraints are CEL expressions over the typed answers (PROTOCOL P3.7).
	Constraints []string `json:"constraints,omitempty"`
	// AllowNotEnoughInformation lets a Reader answer a query with
	// not_enough_information; absent means true for a query. A subscription
	// never has it: a Reader that has nothing to say does not push.
	AllowNotEnoughInformation *bool `json:"allow_not_enough_information,omitzero"`
	// Arguments is a JSON object that goes with a query to its Reader, such as those of
	// a tool that it calls; nil for none. Nothing is judged or priced by it. A
	// subscription has none.
	Arguments jsontext.Value `json:"arguments,omitzero"`
}

// Field is one typed primitive of category 1.
type Field struct {
	Name   string   `json:"name"`
	Type   Type     `json:"type"`
	Values []string `json:"values,omitempty"` // enum
	Min    *int64   `json:"min,omitzero"`     // integer, both required
	Max    *int64   `json:"max,omitzero"`
}

// Question is one constrained question of category 2.
type Question struct {
	ID             string `json:"id"`
	Question       string `json:"question"`
	MaxWords       int    `json:"max_words,omitzero"`
	ExpectedFormat Format `json:"expected_format"`

	// Min and Max bound an integer; of a date they bound the year.
	Min *int64 `json:"min,omitzero"`
	Max *int64 `json:"max,omitzero"`
	// Values are the choices of an enum.
	Values []string `json:"values,omitempty"`
	// Vocabulary names a word list of the mesh.
	Vocabulary string `json:"vocabulary,omitempty"`
	// MaxChars bounds the delivered text of a text or e-mail answer, in code
	// points; 0 means no bound of its own (64 for an e-mail).
	MaxChars int `json:"max_chars,omitzero"`
	// Alphabet is "any" (also when empty) or another word of [Alphabets].
	Alphabet string `json:"alphabet,omitempty"`
	// SameAs names another question of the spec whose answer must agree
	// (PROTOCOL P3.8).
	SameAs string `json:"same_as,omitempty"`
}

// Compiler compiles the specs of one mesh's subscriptions, equal ones once: meshes
// are written by programs, and many channels say the same. What it returned is
// shared, as a [Validator] may be. The zero value is ready; it is for one goroutine,
// and for settings with the same vocabularies, rules and constraints.
type Compiler struct {
	known map[string]*Validator // by their specs in canonical JSON, and the settings
}

// Compile is [Compile]. What is refused is refused again each time.
func (c *Compiler) Compile(spec Spec, settings Settings) (*Validator, error) {
	text, err := Encode(spec, JSON)
	if err != nil {
		return nil, err
	}
	of := settings
	of.Vocabularies, of.Rules, of.Constraints = nil, nil, nil
	key := fmt.Sprintf("%s %+v", text, of)
	if v := c.known[key]; v != nil {
		return v, nil
	}
	v, err := Compile(spec, settings)
	if err != nil {
		return nil, err
	}
	if c.known == nil {
		c.known = make(map[string]*Validator)
	}
	c.known[key] = v
	return v, nil
}
