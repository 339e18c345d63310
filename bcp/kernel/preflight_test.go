package kernel_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// What is certain before a plan runs, and what is not.
func TestPreflight(t *testing.T) {
	t.Parallel()
	const (
		coinStep  = `{"kind":"tool","id":"c","tool":"coin"}`
		dialsStep = `{"kind":"tool","id":"d","tool":"dials"}`
	)
	tellStep := func(a, b string) string {
		return `{"kind":"tool","id":"t","tool":"tell","args":{"a":` + a + `,"b":` + b + `}}`
	}
	delegated := `{"kind":"subkernel","id":"s","source":{"ref":"c"},"instruction":"i","grant":[],"schema_ref":"Flags"}`
	open := strings.Replace(delegated, `,"schema_ref":"Flags"`, "", 1)
	about := func(effect kernel.RuleEffect, when string, data bool) []kernel.Rule {
		return []kernel.Rule{{ID: "r", Effect: effect, Tool: "tell", When: when, ReadsData: data}}
	}
	both := func(a, b []kernel.Rule) []kernel.Rule {
		b[0].ID = "q"
		return append(a, b...)
	}
	flows := tellStep(`{"ref":"c"}`, `"a"`)                // what coin says may flow into tell
	bound := tellStep("true", `{"ref":"d","path":"face"}`) // what dials says may not
	for _, c := range []struct {
		name    string
		steps   []string
		rules   []kernel.Rule
		want    kernel.Ruling
		code    kernel.Code
		certain bool
	}{
		{"all is known", []string{tellStep("true", `"a"`)}, nil, kernel.Allow, kernel.Permitted, true},
		{"a value is not known", []string{coinStep, flows}, nil, kernel.Allow, kernel.Permitted, false},
		{"where it comes from is known", []string{dialsStep, bound}, nil, kernel.Deny, kernel.NotDeclassified, true},
		{"a rule about what is known", []string{coinStep, flows}, about(kernel.Forbid, `args.b.value == "a"`, false), kernel.Deny, kernel.Forbidden, true},
		{"a rule about what is not known", []string{coinStep, flows}, about(kernel.Forbid, "args.a.value", true), kernel.Allow, kernel.Permitted, false},
		{"a rule that may not read it", []string{coinStep, flows}, about(kernel.Forbid, "args.a.value", false), kernel.Deny, kernel.Forbidden, true},
		{"a rule that does not depend on it", []string{coinStep, flows}, about(kernel.Forbid, `args.a.value || args.b.value == "a"`, true), kernel.Deny, kernel.Forbidden, true},
		{"a rule by influence", []string{dialsStep, bound}, about(kernel.Declassify, "args.b.influence <= 2", false), kernel.Allow, kernel.Declassified, false},
		{"too much influence", []string{dialsStep, bound}, about(kernel.Declassify, "args.b.influence <= 1", false), kernel.Deny, kernel.NotDeclassified, true},
		{"a person", []string{dialsStep, bound}, about(kernel.Ask, "args.b.tainted", false), kernel.NeedPerson, kernel.NeedsPerson, false},
		{"perhaps a person", []string{dialsStep, bound}, about(kernel.Ask, `args.b.value == "a"`, true), kernel.Deny, kernel.NotDeclassified, false},
		{"perhaps forbidden, and else denied", []string{dialsStep, bound}, about(kernel.Forbid, `args.b.value == "a"`, true), kernel.Deny, kernel.NotDeclassified, true},
		{"perhaps forbidden, and else allowed", []string{dialsStep, bound}, both(about(kernel.Forbid, `args.b.value == "a"`, true), about(kernel.Declassify, "true", false)), kernel.Allow, kernel.Declassified, false},
		{"a sub-run adds to the label: perhaps third party", []string{coinStep, delegated, tellStep(`{"ref":"s","path":"u"}`, `"a"`)}, about(kernel.Forbid, "args.a.third_party", false), kernel.Deny, kernel.NotDeclassified, false},
		{"a sub-run with a schema has its bits", []string{coinStep, delegated, tellStep(`{"ref":"s","path":"u"}`, `"a"`)}, about(kernel.Declassify, "args.a.influence == 1", false), kernel.Allow, kernel.Declassified, false},
		{"a sub-run with a schema has no more", []string{coinStep, delegated, tellStep(`{"ref":"s","path":"u"}`, `"a"`)}, about(kernel.Forbid, "args.a.influence > 1", false), kernel.Deny, kernel.NotDeclassified, false},
		{"without one nothing is known", []string{coinStep, open, tellStep(`{"ref":"s"}`, `"a"`)}, about(kernel.Declassify, "args.a.influence == 0", false), kernel.Deny, kernel.NotDeclassified, false},
		{"but that it is tainted", []string{coinStep, open, tellStep(`{"ref":"s"}`, `"a"`)}, about(kernel.Forbid, "args.a.tainted", false), kernel.Deny, kernel.Forbidden, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := smallKernel(t, func(d *kernel.Definition) { d.Rules = c.rules })
			checked, fault := k.ReadPlan([]byte(steps(c.steps...)), frame(k, "all"))
			stopIf(t, fault.Code != "", "%v", fault)
			list := checked.Preflight()
			got := list[len(list)-1]
			if got.Verdict.Ruling != c.want || got.Verdict.Code != c.code || got.Certain != c.certain {
				t.Errorf("got %s %s, certain %t; want %s %s, %t", got.Verdict.Ruling.Word(), got.Verdict.Code, got.Certain, c.want.Word(), c.code, c.certain)
			}
		})
	}
}
