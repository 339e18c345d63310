package simulate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf

// played is what simulate prints of a case.
func played(t *testing.T, line string) map[string]jsontext.Value {
	t.Helper()
	s := &simulation{contexts: map[string][]string{}}
	result, err := s.line([]byte(line))
	stopIf(t, err != nil, "%v\n%s", err, line)
	b, err := json.Marshal(result)
	bcptest.NoError(t, err)
	var out map[string]jsontext.Value
	bcptest.NoError(t, json.Unmarshal(b, &out))
	return out
}

// The gate's order, in cases that also hold what no definition could: rules that do not compile, values that are none,
// arguments without a label.
//
// covers KER-31, KER-105
func TestGateCases(t *testing.T) {
	t.Parallel()
	const (
		clean   = `{"sources": ["user_query"], "readers": null, "subjects": [], "influence": {}}`
		tainted = `{"sources": ["tool_read"], "readers": [], "subjects": ["user"], "influence": {"a": 3}}`
	)
	arg := func(value, label string) string {
		return fmt.Sprintf(`{"x": {"value": %s, "label": %s}}`, value, label)
	}
	rule := func(effect, when string) string {
		return fmt.Sprintf(`{"id": %q, "effect": %q, "tool": "w", "when": %q}`, effect, effect, when)
	}
	for _, c := range []struct {
		name, typ, args, grant, rules string
		want, code, ids               string
	}{
		{"tainted", "string", arg(`"a"`, tainted), `"w"`, "", "deny", "not_declassified", ""},
		{"without a label it is tainted", "string", `{"x": {"value": "a"}}`, `"w"`, "", "deny", "not_declassified", ""},
		{"a wildcard grants nothing", "string", arg(`"a"`, clean), `"*", "w.>", "W", ""`, "", "deny", "no_capability", ""},
		{"a forbid rule that does not compile denies", "string", arg(`"a"`, clean), `"w"`, rule("forbid", "args.z.value == 1"), "deny", "forbidden", "forbid"},
		{"a declassify rule that does not compile says nothing", "string", arg(`"a"`, tainted), `"w"`, rule("declassify", "nonsense("), "deny", "not_declassified", ""},
		{"a declassify rule that reads data says nothing", "string", arg(`"a"`, tainted), `"w"`, strings.Replace(rule("declassify", "true"), "}", `, "reads": "data"}`, 1), "deny", "not_declassified", ""},
		{"a text for a number", "number", arg(`"1.5"`, clean), `"w"`, "", "deny", "bad_arguments", ""},
		{"17 digits", "number", arg(`0.12345678901234567`, clean), `"w"`, "", "deny", "bad_arguments", ""},
		{"a float", "number", arg(`1e300`, clean), `"w"`, "", "deny", "bad_arguments", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tool := fmt.Sprintf(`{"name": "w", "effect_level": "write", "required_caps": ["w"], "input_schema": {"type": "object", "properties": {"x": {"type": %q}}}}`, c.typ)
			out := played(t, fmt.Sprintf(`{"id": 1, "kind": "gate", "input": {"tool": %s, "args": %s, "grant": [%s], "rules": [%s], "requester": {"name": "u", "address": "u@x"}}}`, tool, c.args, c.grant, c.rules))
			got, want := fmt.Sprintf("%s %s %s", out["verdict"], out["code"], out["rules"]), fmt.Sprintf(`"%s" "%s" [%s]`, c.want, c.code, quotedOr(c.ids))
			failIf(t, got != want, "%s, want %s", got, want)
		})
	}
}

func quotedOr(id string) string {
	if id == "" {
		return ""
	}
	return `"` + id + `"`
}

// Somebody answers what a run asks, refuses, or says nothing.
//
// covers K3
func TestQuestionCases(t *testing.T) {
	t.Parallel()
	const plan = `{"steps": [{"kind": "ask_requester", "id": "q", "questions": [{"id": "day", "question": "Which?", "expected_format": "enum", "values": ["a", "b"]}]}], "final": "q"}`
	for _, tt := range []struct{ name, limits, people, status, code, value string }{
		{"answered", `{"max_questions": 1}`, `{"step": "q", "decision": "answer", "result": {"day": "a"}}`, `"committed"`, `null`, `{"day":"a"}`},
		{"no choice", `{"max_questions": 1}`, `{"step": "q", "decision": "answer", "result": {"day": "z"}}`, `"blocked"`, `"approval_expired"`, `null`},
		{"refused", `{"max_questions": 1}`, `{"step": "q", "decision": "reject"}`, `"blocked"`, `"approval_rejected"`, `null`},
		{"approved", `{"max_questions": 1}`, `{"step": "q", "decision": "approve"}`, `"blocked"`, `"approval_expired"`, `null`},
		{"nobody", `{"max_questions": 1}`, ``, `"blocked"`, `"approval_expired"`, `null`},
		{"off", `{"max_plans": 1}`, ``, `"plan_rejected"`, `"unknown_kind"`, `null`},
	} {
		got := played(t, fmt.Sprintf(`{"id": 1, "kind": "run", "input": {"grant": [], "requester": {"name": "kim"}, "limits": %s, "query": {"text": "x"}, "planner": [{"plan": %s}], "people": [%s]}}`, tt.limits, plan, tt.people))
		failIf(t, string(got["status"]) != tt.status || string(got["code"]) != tt.code || string(got["final_value"]) != tt.value,
			"%s: %s %s %s", tt.name, got["status"], got["code"], got["final_value"])
	}
}

// covers KER-31
func TestExamplesAreStrict(t *testing.T) {
	t.Parallel()
	s := &simulation{contexts: map[string][]string{}}
	for examples, want := range map[string]error{`{"yes": [], "no": []}`: nil, `{"yes": [], "no": [], "may": []}`: errExamples, `[]`: errExamples} {
		_, err := s.line([]byte(`{"id": 1, "kind": "load", "input": {"rules": [{"id": "a", "effect": "forbid", "tool": "r", "when": "true", "examples": ` + examples + `}]}}`))
		failIf(t, err != want, "%s: %v", examples, err)
	}
}
