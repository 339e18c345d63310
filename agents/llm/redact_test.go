package llm

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// No secret that redaction knows is in the text of a request, whoever wrote it, and nothing else changes.
//
// covers ALF-88
func TestRequestsAreRedacted(t *testing.T) {
	t.Parallel()
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	text := "before " + secret + " after"
	request := &Request{
		Model: "m", System: []Part{FromOperator("rules"), FromProgram(text)}, Tools: []Tool{{Name: "t", Description: FromProgram(text)}}, Force: "t", MaxTokens: 7,
		Turns: []Turn{
			{Role: User, Parts: []Part{FromOperator(text), fenced(t, text)}},
			{Role: Model, Parts: []Part{NewSaid(text)}, Calls: []Call{{ID: "c", Name: "t", Arguments: jsontext.Value(`{"a":"` + text + `"}`)}}},
			{Role: User, Results: []Result{{Call: "c", Parts: []Part{fenced(t, text), Constant("fine")}, Failed: true}}},
		},
	}
	before, err := request.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	clean := request.Redacted(guard.Keys)
	after, err := clean.MarshalJSON()
	if err != nil || clean.Check() != nil {
		t.Fatal(err, clean.Check())
	}
	if strings.Count(string(before), secret) != 7 || string(after) != strings.ReplaceAll(string(before), secret, "[REDACTED:github-token]") {
		t.Errorf("%s", after)
	}
	if again, err := request.MarshalJSON(); err != nil || string(again) != string(before) {
		t.Error("the request itself is changed")
	}
	if clean.Redacted(guard.Keys) != clean {
		t.Error("a request without secrets is copied")
	}
}
