package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Schemas are made from an agent's channels and subscriptions, and from specs.
// They use only what hosts and models understand: no alternatives at the top.

// Schema is a JSON Schema. Its bounds are exact.
type Schema struct {
	Type        any        `json:"type,omitempty"` // a word, or several
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Properties  properties `json:"properties,omitzero"`
	Required    []string   `json:"required,omitempty"`
	Additional  *bool      `json:"additionalProperties,omitempty"`
	Items       *Schema    `json:"items,omitempty"`
	MinItems    int        `json:"minItems,omitzero"`
	MaxItems    int        `json:"maxItems,omitzero"`
	Enum        []any      `json:"enum,omitempty"`
	Minimum     *int64     `json:"minimum,omitempty"`
	Maximum     *int64     `json:"maximum,omitempty"`
	Pattern     string     `json:"pattern,omitempty"`
	AnyOf       []*Schema  `json:"anyOf,omitempty"`
}

// property is one property of an object, required unless marked otherwise.
type property struct {
	name     string
	schema   *Schema
	optional bool
}

type properties []property

// MarshalJSON keeps their order.
func (all properties) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for i, p := range all {
		schema, err := json.Marshal(p.schema)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b, err = jsontext.AppendQuote(b, p.name)
		if err != nil {
			return nil, err
		}
		b = append(append(b, ':'), schema...)
	}
	return append(b, '}'), nil
}

// object takes these properties and no others.
func object(all ...property) *Schema {
	s := &Schema{Type: "object", Properties: all, Additional: new(false)}
	for _, p := range all {
		if !p.optional {
			s.Required = append(s.Required, p.name)
		}
	}
	return s
}

const notEnough = "not_enough_information"

func text(description string) *Schema {
	return &Schema{Type: "string", Description: description}
}

func integer(least, most int64, description string) *Schema {
	return &Schema{Type: "integer", Minimum: &least, Maximum: &most, Description: description}
}

// wordsSchema takes one of these words.
func wordsSchema[T ~string](words []T, description string) *Schema {
	s := text(description)
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

func list(items *Schema, most int, description string) *Schema {
	return &Schema{Type: "array", Items: items, MaxItems: most, Description: description}
}

func identifier(description string) *Schema {
	s := text(description)
	s.Pattern = "^[A-Za-z0-9_-]{1,64}$"
	return s
}

func waitSeconds(what string) *Schema {
	return integer(0, int64(maxWait.Seconds()), "Wait this long for "+what+", if none waits. 0 only looks.")
}

// words of the wire, for enums of schemas.
func typeWords(sealed bool) []string {
	words := []string{bcp.TypeBoolean.String(), bcp.TypeEnum.String(), bcp.TypeInteger.String()}
	if sealed {
		words = append(words, bcp.TypeSealed.String())
	}
	return words
}

func formatWords() (words []string) {
	for f := bcp.FormatPersonName; f < bcp.FormatSummary; f++ {
		words = append(words, f.String())
	}
	return words
}

// QuerySchema returns the JSON Schema of the arguments of BCPQuery: a spec, and the
// Reader to ask, of a Controller's channels.
func QuerySchema(channels []bcp.ChannelView) *Schema {
	target, highest := targetProperty(channels, "The Reader to ask. ")
	properties := append([]property{target}, specProperties(highest, true)...)
	if slices.ContainsFunc(channels, func(c bcp.ChannelView) bool { return c.MaxArgumentBytes > 0 }) {
		properties = append(properties, property{name: "arguments", schema: &Schema{Type: "object",
			Description: "Data for a Reader that takes arguments. A text that is a handle reaches it as what was sealed"}, optional: true})
	}
	return object(append(properties,
		property{name: "allow_not_enough_information", schema: &Schema{Type: "boolean", Description: "Whether the Reader may say that it does not know. Default true"}, optional: true},
		property{name: "justification", schema: text(fmt.Sprintf("Only for an escalation (category 3, or 2 after an unanswered 1): why a lower category cannot do, in your own words, at most %d", bcp.MaxJustificationWords)), optional: true},
		property{name: "request_id", schema: identifier("To repeat a call that got no reply: with the same id and arguments it is charged once"), optional: true},
	)...)
}

// subscribeSchema returns that of BCPSubscribe: the keys of a subscription in a
// definition, and its Reader.
func subscribeSchema(channels []bcp.ChannelView) *Schema {
	target, highest := targetProperty(channels, "The Reader that shall publish. ")
	properties := append([]property{target, {name: "id", schema: identifier("Of your choice: what it publishes comes under it as subscription_id")}}, specProperties(highest, false)...)
	return object(append(properties,
		property{name: "max_rate", schema: &Schema{Type: "string", Pattern: "^[1-9][0-9]{0,3}/[smhd]$", Description: "How often at most, such as 1/h or 10/d. Always say one"}, optional: true},
		property{name: "batch_window", schema: &Schema{Type: "string", Pattern: "^[1-9][0-9]*[smhd]$", Description: "Have what comes within each such window delivered together, such as 15m"}, optional: true},
		property{name: "publish_when", schema: text("CEL condition over the answers: only what it holds for is published, such as urgent && score > 5"), optional: true},
	)...)
}

// targetProperty lists the Readers of a Controller, and returns the highest
// category that it may use with any.
func targetProperty(channels []bcp.ChannelView, what string) (target property, highest bcp.Category) {
	highest = 1
	var about []string
	for _, c := range channels {
		highest = max(highest, c.MaxCategory)
		line := fmt.Sprintf("%s: categories up to %d", c.Reader, c.MaxCategory)
		if c.MaxArgumentBytes > 0 {
			line += fmt.Sprintf(", arguments up to %d bytes", c.MaxArgumentBytes)
		}
		if c.Description != "" {
			line += ". " + c.Description
		}
		about = append(about, line)
	}
	return property{name: "target", schema: wordsSchema(readerNames(channels), what+strings.Join(about, ". "))}, highest
}

// specProperties are the properties of a spec, up to a category, perhaps with fields of
// type sealed.
func specProperties(highest bcp.Category, sealed bool) []property {
	category := integer(1, int64(highest), "The lowest that will do: 1 fields, 2 questions, 3 directive.")
	for n := bcp.Category(1); n <= highest; n++ {
		category.Enum = append(category.Enum, int(n))
	}
	typed, most := "", "integer: required"
	if sealed {
		typed, most = "sealed: a text that you never see. You get a handle of it, for hand of BCPInbox", most+". sealed: its bytes at most, required"
	}
	values := list(&Schema{Type: "string"}, bcp.MaxValues, "enum: the choices")
	field := object(
		property{name: "name", schema: text("Of your choice; the answer has it")},
		property{name: "type", schema: wordsSchema(typeWords(sealed), typed)},
		property{name: "values", schema: values, optional: true},
		property{name: "min", schema: &Schema{Type: "integer", Description: "integer: required"}, optional: true},
		property{name: "max", schema: &Schema{Type: "integer", Description: most}, optional: true},
	)
	question := object(
		property{name: "id", schema: text("Of your choice; the answer has it")},
		property{name: "question", schema: text("In words")},
		property{name: "expected_format", schema: wordsSchema(formatWords(), "")},
		property{name: "max_words", schema: integer(1, bcp.MaxSpecWords, "The answer's limit: as few as will do"), optional: true},
		property{name: "values", schema: values, optional: true},
		property{name: "min", schema: &Schema{Type: "integer", Description: "integer: its least value; date: the first year"}, optional: true},
		property{name: "max", schema: &Schema{Type: "integer", Description: "integer: its greatest value; date: the last year"}, optional: true},
		property{name: "max_chars", schema: integer(1, bcp.MaxAnswerChars, "Texts: the answer's limit in characters"), optional: true},
		property{name: "alphabet", schema: wordsSchema(bcp.Alphabets(), "Texts: ascii costs least capacity"), optional: true},
		property{name: "vocabulary", schema: text("vocabulary: a word list of the mesh"), optional: true},
		property{name: "same_as", schema: text("Another question's id: the two answers must agree"), optional: true},
	)
	properties := []property{
		{name: "category", schema: category},
		{name: "fields", schema: list(field, bcp.MaxFields, "Category 1, and no other"), optional: true},
	}
	if highest >= 2 {
		properties = append(properties, property{name: "questions", schema: list(question, bcp.MaxQuestions, "Category 2, and no other"), optional: true})
	}
	if highest >= 3 {
		properties = append(properties, property{name: "directive", schema: text("Category 3: what to sum up"), optional: true})
	}
	return append(properties,
		property{name: "max_words", schema: integer(1, bcp.MaxSpecWords, "Category 3: the summary's limit. Category 2: the limit of questions without one"), optional: true},
		property{name: "constraints", schema: list(&Schema{Type: "string"}, bcp.MaxConstraints, "CEL expressions over the answers that must hold, such as start <= end"), optional: true},
	)
}

// respondSchema returns that of BCPRespond; the list of queries has a more
// specific one for each.
func respondSchema() *Schema {
	return object(
		property{name: "query_id", schema: identifier("Of a query that BCPQueries lists")},
		property{name: "fields", schema: &Schema{Type: "object", Description: "Category 1: every field's name and value"}, optional: true},
		property{name: "answers", schema: list(object(
			property{name: "id", schema: text("Of the question")},
			property{name: "answer", schema: &Schema{Type: []string{"string", "integer", "boolean"}}},
		), bcp.MaxQuestions, "Category 2: an answer to every question"), optional: true},
		property{name: "summary", schema: text("Category 3"), optional: true},
		property{name: notEnough, schema: &Schema{Type: "boolean", Description: "true, in place of an answer that you do not know"}, optional: true},
	)
}

// answerSchema returns that of BCPRespond for one query.
func answerSchema(id bcp.QueryID, spec bcp.Spec) *Schema {
	var named property
	switch spec.Category {
	case 1:
		named = property{name: "fields", schema: SpecSchema(spec)}
	case 2:
		items := &Schema{}
		for _, q := range spec.Questions {
			items.AnyOf = append(items.AnyOf, object(
				property{name: "id", schema: wordsSchema([]string{q.ID}, "")},
				property{name: "answer", schema: questionSchema(q, spec.MaxWords)},
			))
		}
		all := list(items, len(spec.Questions), "All of them, each once")
		all.MinItems = all.MaxItems
		named = property{name: "answers", schema: all}
	default:
		named = SpecSchema(spec).Properties[0]
	}
	named.optional = spec.AllowNotEnoughInformation == nil || *spec.AllowNotEnoughInformation
	s := object(property{name: "query_id", schema: wordsSchema([]bcp.QueryID{id}, "")}, named)
	if named.optional {
		s.Properties = append(s.Properties, property{name: notEnough, schema: &Schema{Type: "boolean", Enum: []any{true}, Description: "In place of " + named.name}})
	}
	return s
}

// SpecSchema is the JSON Schema of an answer to a spec: the map of names to values.
func SpecSchema(spec bcp.Spec) *Schema {
	var properties []property
	switch spec.Category {
	case 1:
		for _, f := range spec.Fields {
			properties = append(properties, property{name: f.Name, schema: fieldSchema(f)})
		}
	case 2:
		for _, q := range spec.Questions {
			properties = append(properties, property{name: q.ID, schema: questionSchema(q, spec.MaxWords)})
		}
	default:
		properties = append(properties, property{name: "summary", schema: text(fmt.Sprintf("%s At most %s.", spec.Directive, wordCount(spec.MaxWords)))})
	}
	return object(properties...)
}

func fieldSchema(f bcp.Field) *Schema {
	switch f.Type {
	case bcp.TypeEnum:
		return wordsSchema(f.Values, "")
	case bcp.TypeInteger:
		return &Schema{Type: "integer", Minimum: f.Min, Maximum: f.Max}
	case bcp.TypeSealed:
		return text(fmt.Sprintf("A text of at most %d bytes, as it stands in the content.", *f.Max))
	}
	return &Schema{Type: "boolean"}
}

func wordCount(n int) string {
	if n == 1 {
		return "1 word"
	}
	return fmt.Sprintf("%d words", n)
}

func questionSchema(q bcp.Question, standard int) *Schema {
	words := q.MaxWords
	if words == 0 {
		words = standard
	}
	say := func(form string) string {
		if words > 0 {
			form += ", at most " + wordCount(words)
		}
		return strings.TrimSpace(q.Question + " As " + form + ".")
	}
	switch q.ExpectedFormat {
	case bcp.FormatInteger:
		return &Schema{Type: []string{"integer", "string"}, Description: say("an integer"), Minimum: q.Min, Maximum: q.Max}
	case bcp.FormatBoolean:
		return &Schema{Type: []string{"boolean", "string"}, Description: say("true or false")}
	case bcp.FormatEnum:
		return wordsSchema(q.Values, say("one of the values"))
	case bcp.FormatDate:
		return text(say("one calendar date and nothing else, best 2026-03-15"))
	case bcp.FormatTime:
		return text(say("a time of day, such as 15:04"))
	case bcp.FormatEmail:
		return text(say("one e-mail address"))
	case bcp.FormatShortList:
		return text(say("a list, its items separated by commas"))
	case bcp.FormatPersonName:
		return text(say("a person's name"))
	case bcp.FormatVocabulary:
		return text(say("words of the list " + q.Vocabulary))
	}
	return text(say("plain words"))
}

// publishSchema returns that of BCPPublish. With several subscriptions the
// response is for one of them; the call checks which.
func publishSchema(subscriptions []bcp.ActiveSubscription) *Schema {
	var ids []bcp.SubscriptionID
	var controllers []bcp.AgentName
	var responses []*Schema
	for _, s := range subscriptions {
		if !slices.Contains(ids, s.SubscriptionID) {
			ids = append(ids, s.SubscriptionID)
		}
		if !slices.Contains(controllers, s.Controller) {
			controllers = append(controllers, s.Controller)
		}
		one := SpecSchema(s.Spec)
		one.Title = fmt.Sprintf("%s of %s", s.SubscriptionID, s.Controller)
		responses = append(responses, one)
	}
	response := responses[0]
	if len(responses) > 1 {
		response = &Schema{Type: "object", AnyOf: responses, Description: "As the subscription's spec says"}
	}
	return object(
		property{name: "subscription_id", schema: wordsSchema(ids, "")},
		property{name: "controller", schema: wordsSchema(controllers, "Who subscribed")},
		property{name: "response", schema: response},
		property{name: "push_id", schema: identifier("To repeat a call that got no reply: with the same id and response it is charged once"), optional: true},
	)
}

// Instruction tells a foreign agent about the JSON of [QueryJSON]. The spec's own words
// are in that JSON.
const Instruction = "Answer the questions of the query, from what you can read. " +
	"Return one JSON object in the shape of response_schema. " +
	`If you cannot tell, return {"not_enough_information": true} alone. Ask nothing back.`

// QueryJSON encodes a query for an agent with another protocol: the spec, the JSON
// Schema of its answers, and why the previous answer was refused.
func QueryJSON(q agents.Query) ([]byte, error) {
	return json.Marshal(struct {
		Query          bcp.Spec `json:"query"`
		ResponseSchema *Schema  `json:"response_schema"`
		LastDetail     string   `json:"last_detail,omitempty"`
	}{q.Spec, SpecSchema(q.Spec), q.LastDetail})
}
