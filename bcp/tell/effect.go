package tell

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What a person is told of a call that a run of a kernel waits for (the kernel's page,
// K10). The arguments are hostile where content chose them; the step's name is the
// planner's.

// effectFacts returns what the mesh knows about a call, or a question.
func effectFacts(e *bcp.Effect, kernel bcp.AgentName) []ItemFact {
	run := ItemFact{"run", e.Run + " of " + string(kernel) + ", for " + string(e.Requester) + " with the grant " + e.Grant + ", step " + e.Step}
	if len(e.Questions) > 0 {
		return []ItemFact{run, {"answers", string(e.Result)}}
	}
	tool := e.Tool
	if e.Service != "" {
		tool += " of " + string(e.Service)
	}
	if e.Level != "" {
		tool += ", which is a " + e.Level
	}
	if e.Description != "" {
		tool += ": " + e.Description
	}
	facts := []ItemFact{{"tool", tool}, run}
	if len(e.Rules) > 0 {
		facts = append(facts, ItemFact{"rules", strings.Join(e.Rules, ", ")})
	}
	for _, a := range e.Arguments {
		facts = append(facts, ItemFact{"argument", a.Name + ": " + originText(a)})
	}
	if e.Elements > 0 {
		loop := strconv.Itoa(e.Element) + " of " + strconv.Itoa(e.Elements)
		if e.Early {
			loop += ", whose turn has not come: it is not held then if it is approved, alone or with others, and is exactly this"
		}
		facts = append(facts, ItemFact{"loop", loop})
	}
	if e.Changed {
		facts = append(facts, ItemFact{"changed", "the definitions of today have no such call: reject it"})
	}
	if len(e.Result) > 0 && e.Attempt > 0 {
		facts = append(facts, ItemFact{"returns", string(e.Result)})
	}
	if e.Attempt > 0 {
		facts = append(facts, ItemFact{"sent", Count(e.Attempt, "time") + ", without an answer that says what became of it"})
	}
	return facts
}

// originText says who chose an argument.
func originText(a bcp.EffectArgument) string {
	if !a.Tainted {
		if a.ThirdParty {
			return "data of others, which no content chose"
		}
		return "no content chose it"
	}
	bits := "content chose all of it"
	if _, err := strconv.Atoi(a.Influence); err == nil {
		bits = "content chose it, up to " + a.Influence + " bits"
	}
	if a.ThirdParty {
		bits += "; data of others"
	}
	if a.Sealed {
		bits += "; sealed, so that you are the first who reads it"
	}
	return bits
}

// signedCall is what a decision about a call signs.
type signedCall struct {
	Run       string         `json:"run_id"`
	Key       string         `json:"key"`
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"args"`
}

// parseCall reads the call of an item; it is zero if that cannot be read.
func parseCall(v *bcp.ItemView) signedCall {
	var call signedCall
	if json.Unmarshal(v.Content, &call, json.RejectUnknownMembers(true)) != nil {
		return signedCall{}
	}
	return call
}

// is reports whether the call is the one that the facts are about.
func (c signedCall) is(e *bcp.Effect) bool {
	return c.Arguments != nil && c.Run == e.Run && c.Tool == e.Tool
}

// signedQuestion is what an item of a question shows.
type signedQuestion struct {
	Run       string         `json:"run_id"`
	Step      string         `json:"step"`
	Questions []bcp.Question `json:"questions"`
}

// isQuestion reports whether the content of an item is the question that its facts are of.
func isQuestion(v *bcp.ItemView) bool {
	var q signedQuestion
	return json.Unmarshal(v.Content, &q, json.RejectUnknownMembers(true)) == nil && q.Run == v.Effect.Run && q.Step == v.Effect.Step &&
		slices.EqualFunc(q.Questions, v.Effect.Questions, func(a, b bcp.Question) bool { return a.ID == b.ID && QuestionText(&a) == QuestionText(&b) })
}

// QuestionText is a question of a plan with the answers that it takes: the planner's words.
func QuestionText(q *bcp.Question) string {
	takes := q.ExpectedFormat.String()
	if len(q.Values) > 0 {
		takes = strings.Join(q.Values, ", ")
	}
	if q.Min != nil && q.Max != nil {
		takes += " from " + strconv.FormatInt(*q.Min, 10) + " to " + strconv.FormatInt(*q.Max, 10)
	}
	return q.Question + " (" + takes + ")"
}

// callFrame shows a call, argument by argument, or a question.
func callFrame(v *bcp.ItemView) Frame {
	if v.Kind == bcp.ItemQuestion {
		f := Frame{Label: "untrusted: what the plan asks", End: "end of the question"}
		for i := range v.Effect.Questions {
			f.Parts = append(f.Parts, Part{v.Effect.Questions[i].ID, QuestionText(&v.Effect.Questions[i])})
		}
		return f
	}
	f := Frame{Label: "untrusted: the arguments of the call", End: "end of the call"}
	call, arguments := parseCall(v), map[string]jsontext.Value(nil)
	if call.Arguments == nil || json.Unmarshal(call.Arguments, &arguments) != nil {
		f.Parts = []Part{{"as it is", string(v.Content)}}
		return f
	}
	for i := range v.Effect.Arguments {
		name := v.Effect.Arguments[i].Name
		if value, given := arguments[name]; given {
			f.Parts = append(f.Parts, Part{name, plainText(value)})
			delete(arguments, name)
		}
	}
	if len(arguments) > 0 || len(f.Parts) == 0 {
		f.Parts = []Part{{"as it is", string(call.Arguments)}}
	}
	return f
}

// plainText is a JSON text as its characters, and any other value as JSON. A text that
// looks like another value is shown as JSON: two calls never look the same.
func plainText(value jsontext.Value) string {
	var text string
	if value.Kind() == '"' && json.Unmarshal(value, &text) == nil && !jsontext.Value(text).IsValid() {
		return text
	}
	return string(value)
}

// Draft is what a person says that a call returned, or answers, before it is filled in; it is
// empty for other items.
func Draft(v *bcp.ItemView) string {
	switch v.Kind {
	case bcp.ItemInDoubt:
		return `{"result": null}`
	case bcp.ItemQuestion:
		var answers []string
		for i := range v.Effect.Questions {
			id, _ := jsontext.AppendQuote(nil, v.Effect.Questions[i].ID) // which has plain characters
			answers = append(answers, string(id)+`: ""`)
		}
		return `{"answer": {` + strings.Join(answers, ", ") + `}}`
	}
	return ""
}
