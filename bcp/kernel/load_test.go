package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// example is a call with a trusted and a tainted argument of send_email.
func example(to string, toLabel, bodyLabel kernel.Label) kernel.Example {
	return kernel.Example{Asker: asked, Control: kernel.Trusted(), Arguments: map[string]kernel.ExampleArgument{
		"to": {Value: val(to), Label: toLabel}, "body": {Value: val(`"x"`), Label: bodyLabel},
	}}
}

// covers KER-30, KER-79, KER-80, KER-81, KER-82, KER-83, KER-84, KER-85, KER-87, KER-88, KER-105, A-GRANT
func TestDefinitions(t *testing.T) {
	t.Parallel()
	own, foreign := example(`"kim@example.com"`, kernel.Trusted(), tainted()), example(`"evil@example.com"`, kernel.Trusted(), tainted())
	with := func(r kernel.Rule, change func(*kernel.Rule)) func(*kernel.Definition) {
		change(&r)
		return func(d *kernel.Definition) { d.Rules = []kernel.Rule{r} }
	}
	when := func(effect kernel.RuleEffect, cel string) func(*kernel.Definition) {
		return with(mailToSelf, func(r *kernel.Rule) { r.Effect, r.When = effect, cel })
	}
	tool := func(change func(*kernel.Tool)) func(*kernel.Definition) {
		return func(d *kernel.Definition) { change(&d.Tools[2]) } // send_email
	}
	described := func(tools int) func(*kernel.Definition) {
		return func(d *kernel.Definition) {
			for i := range tools {
				d.Tools = append(d.Tools, kernel.Tool{Name: fmt.Sprintf("t%d", i), Level: kernel.Pure, Description: strings.Repeat("x", 4000), Input: mustType(shape()), Output: mustType(shape())})
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*kernel.Definition)
		want   kernel.DefectCode
	}{
		{"as it is", nil, ""},
		{"nothing at all", func(d *kernel.Definition) { *d = kernel.Definition{} }, kernel.BadName},
		{"no planner", func(d *kernel.Definition) { d.Planner = "" }, kernel.BadName},
		{"no sub-planner", func(d *kernel.Definition) { d.SubPlanner = "" }, ""},
		{"a sub-planner that is no agent", func(d *kernel.Definition) { d.SubPlanner = "a.b" }, kernel.BadName},
		{"a schema without a Reader", func(d *kernel.Definition) { d.Schemas[0].Reader = "" }, kernel.BadName},

		// Tools.
		{"a tool twice", func(d *kernel.Definition) { d.Tools = append(d.Tools, d.Tools[0]) }, kernel.DuplicateTool},
		{"a tool of other case", func(d *kernel.Definition) { d.Tools = append(d.Tools, d.Tools[0]); d.Tools[5].Name = "Read_Inbox" }, ""},
		{"a tool without a name", tool(func(t *kernel.Tool) { t.Name = "" }), kernel.BadName},
		{"a tool with a dot", func(d *kernel.Definition) { d.Rules, d.Tools[2].Name = nil, "mail.send" }, kernel.BadName},
		{"a tool of 64", func(d *kernel.Definition) { d.Rules, d.Tools[2].Name = nil, strings.Repeat("a", 64) }, ""},
		{"a tool of 65", func(d *kernel.Definition) { d.Rules, d.Tools[2].Name = nil, strings.Repeat("a", 65) }, kernel.BadName},
		{"subjects that there are not", tool(func(t *kernel.Tool) { t.Subjects = 1 << 7 }), kernel.BadType},
		{"an idempotency that there is not", tool(func(t *kernel.Tool) { t.Idempotency = "never" }), kernel.BadType},
		{"a timeout below 0", tool(func(t *kernel.Tool) { t.Timeout = -1 }), kernel.BadLimit},
		{"a write without capability", tool(func(t *kernel.Tool) { t.RequiredCaps = nil }), kernel.WriteWithoutCapability},
		{"a read without capability", func(d *kernel.Definition) { d.Tools[0].RequiredCaps = nil }, ""},
		{"a wildcard", tool(func(t *kernel.Tool) { t.RequiredCaps = caps("*") }), kernel.BadCapability},
		{"a capability of 64", tool(func(t *kernel.Tool) { t.RequiredCaps = caps(kernel.Capability(strings.Repeat("a", 64))) }), kernel.BadCapability},
		{"a reader that is none", func(d *kernel.Definition) { d.Tools[0].Readers = caps("everybody!") }, kernel.BadCapability},
		{"no effect level", tool(func(t *kernel.Tool) { t.Level = "" }), kernel.BadType},
		{"no input schema", func(d *kernel.Definition) { d.Rules, d.Tools[2].Input = nil, nil }, kernel.BadType},
		{"no output schema", tool(func(t *kernel.Tool) { t.Output = nil }), kernel.BadType},
		{"an input that is a text", func(d *kernel.Definition) { d.Rules, d.Tools[2].Input = nil, mustType(`{"type":"string"}`) }, kernel.BadType},
		{"an input that may be null", func(d *kernel.Definition) {
			d.Rules, d.Tools[2].Input = nil, mustType(`{"type":"object","properties":{},"nullable":true}`)
		}, kernel.BadType},
		{"an argument with a hyphen", func(d *kernel.Definition) { d.Rules, d.Tools[2].Input = nil, mustType(shape("reply-to:string")) }, kernel.BadName},
		{"a description too long", tool(func(t *kernel.Tool) { t.Description = strings.Repeat("x", 4097) }), kernel.TooMany},
		{"as many words for planners", described(45), ""},
		{"too many words for planners", described(48), kernel.TooMany},
		{"too many tools", func(d *kernel.Definition) { d.Tools = slices.Repeat(d.Tools, 60) }, kernel.TooMany},

		// Schemas, grants, limits.
		{"a schema twice", func(d *kernel.Definition) { d.Schemas = append(d.Schemas, d.Schemas[0]) }, kernel.DuplicateSchema},
		{"a schema without a name", func(d *kernel.Definition) { d.Schemas[0].Name = "" }, kernel.BadName},
		{"a schema that cannot be asked", func(d *kernel.Definition) { d.Schemas[0].Spec = bcp.Spec{} }, kernel.BadSchema},
		{"a schema without its constraints", func(d *kernel.Definition) {
			d.Schemas[1].Spec.Constraints, d.Schemas[1].Settings.Constraints = []string{"urgent"}, nil
		}, kernel.BadSchema},
		{"a grant of a wildcard", func(d *kernel.Definition) { d.Grants["all"] = caps("*") }, kernel.BadCapability},
		{"a grant with a dot", func(d *kernel.Definition) { d.Grants["a.b"] = nil }, kernel.BadName},
		{"a requester with a grant that is not there", func(d *kernel.Definition) { d.Requesters["kim"] = []string{"root"} }, kernel.UnknownGrantName},
		{"a limit below 0", func(d *kernel.Definition) { d.Limits.MaxEffects = -1 }, kernel.BadLimit},
		{"values too large", func(d *kernel.Definition) { d.Limits.MaxValueBytes = kernel.MaxContent + 1 }, kernel.BadLimit},
		{"too deep", func(d *kernel.Definition) { d.Limits.MaxDepth = kernel.MaxDepth + 1 }, kernel.BadLimit},

		// Rules.
		{"a rule twice", func(d *kernel.Definition) { d.Rules = append(d.Rules, d.Rules[0]) }, kernel.DuplicateRule},
		{"a rule of the kernel with an id of the mesh", func(d *kernel.Definition) {
			r := mailToSelf
			r.Effect, r.When = kernel.Forbid, "args.to.value == requester.address"
			d.MeshRules = []kernel.Rule{r}
		}, kernel.DuplicateRule},
		{"a rule of the mesh that allows", func(d *kernel.Definition) { d.MeshRules, d.Rules = d.Rules, nil }, kernel.RuleEffectWord},
		{"a rule without effect", with(mailToSelf, func(r *kernel.Rule) { r.Effect = "" }), kernel.RuleEffectWord},
		{"a rule with a bad id", with(mailToSelf, func(r *kernel.Rule) { r.ID = "a b" }), kernel.BadName},
		{"a rule for a tool that is not there", with(mailToSelf, func(r *kernel.Rule) { r.Tool = "sendmail" }), kernel.RuleUnknownTool},
		{"a rule for no tool", with(mailToSelf, func(r *kernel.Rule) { r.Tool = "" }), kernel.RuleUnknownTool},
		{"a declassify that reads data", with(mailToSelf, func(r *kernel.Rule) { r.ReadsData = true }), kernel.RuleReadsData},
		{"no condition", when(kernel.Declassify, ""), kernel.RuleType},
		{"no CEL", when(kernel.Declassify, "args.to.value = 1"), kernel.RuleType},
		{"an argument that is not there", when(kernel.Declassify, "!args.cc.tainted"), kernel.RuleType},
		{"a rule for all tools over an argument of one", func(d *kernel.Definition) {
			d.UntestedRules = true
			d.Rules = []kernel.Rule{{ID: "r", Effect: kernel.Forbid, Tool: kernel.AnyTool, When: `args.to.value == "x"`}}
		}, kernel.RuleType},
		{"a rule for all tools over the run", func(d *kernel.Definition) {
			d.UntestedRules = true
			d.Rules = []kernel.Rule{{ID: "r", Effect: kernel.Forbid, Tool: kernel.AnyTool, When: `run.depth > 0`}}
		}, ""},

		// Examples.
		{"no examples", with(mailToSelf, func(r *kernel.Rule) { r.Yes, r.No = nil, nil }), kernel.RuleWithoutExamples},
		{"none for yes", with(mailToSelf, func(r *kernel.Rule) { r.Yes = nil }), kernel.RuleWithoutExamples},
		{"none for no", with(mailToSelf, func(r *kernel.Rule) { r.No = nil }), kernel.RuleWithoutExamples},
		{"an inverted check", with(mailToSelf, func(r *kernel.Rule) { r.When = "args.to.value != requester.address" }), kernel.RuleExample},
		{"swapped arguments", with(mailToSelf, func(r *kernel.Rule) {
			r.When = "!args.to.third_party && !args.body.tainted && args.to.value == requester.address"
		}), kernel.RuleExample},
		{"a check that always holds", with(mailToSelf, func(r *kernel.Rule) { r.When = "true" }), kernel.RuleExample},
		{"a check that never holds", with(mailToSelf, func(r *kernel.Rule) { r.When = "false" }), kernel.RuleExample},
		{"an example the wrong way", with(mailToSelf, func(r *kernel.Rule) { r.Yes, r.No = []kernel.Example{foreign}, []kernel.Example{own} }), kernel.RuleExample},
		{"one of two examples", with(mailToSelf, func(r *kernel.Rule) { r.Yes = []kernel.Example{own, foreign} }), kernel.RuleExample},
		{"an example that cannot be read is no yes", with(mailToSelf, func(r *kernel.Rule) { r.Yes = []kernel.Example{example(`"kim@example.com"`, tainted(), tainted())} }), kernel.RuleExample},
		{"a forbid that fails for an example takes hold of it", with(mailToSelf, func(r *kernel.Rule) {
			r.Effect, r.When = kernel.Forbid, `args.to.value == "evil@example.com"`
			r.Yes, r.No = []kernel.Example{foreign, example(`"kim@example.com"`, tainted(), tainted())}, []kernel.Example{own}
		}), ""},
		{"too many examples", with(mailToSelf, func(r *kernel.Rule) { r.Yes = slices.Repeat(r.Yes, 65) }), kernel.TooMany},
		{"too many rules", func(d *kernel.Definition) { d.Rules = slices.Repeat(d.Rules, 257) }, kernel.TooMany},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := definition()
			d.Tools = slices.Clone(d.Tools)
			if c.change != nil {
				c.change(&d)
			}
			k, defects := kernel.New(d)
			expect(t, k == nil, len(defects) > 0, "a kernel with defects, or none without")
			failIf(t, c.want == "" && len(defects) > 0 || c.want != "" && !slices.ContainsFunc(defects, func(d kernel.Defect) bool { return d.Code == c.want }),
				"got %v, want %q", defects, c.want)
		})
	}
}

// All that is wrong is told at once, each with its place.
func TestDefinitionTellsAll(t *testing.T) {
	t.Parallel()
	d := definition()
	d.Tools = slices.Clone(d.Tools)
	d.Tools[0].RequiredCaps, d.Tools[2].Level, d.Schemas[0].Spec = caps("*"), "", bcp.Spec{}
	d.Rules = append(d.Rules, d.Rules[0])
	_, defects := kernel.New(d)
	var told []string
	for _, defect := range defects {
		told = append(told, defect.String())
	}
	for _, want := range []string{`tool "read_inbox"`, `tool "send_email"`, `schema "Summary"`, `rule "mail-to-self"`} {
		failIf(t, !strings.Contains(strings.Join(told, "\n"), want), "nothing about %s in %q", want, told)
	}
}

// Only closed types are types: a schema that leaves something open is refused, since
// nothing could be said of a value of it.
// covers KER-80, KER-81
func TestTypesAreClosed(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		"", "null", "{}", "true", `"string"`, `{"type":"any"}`, `{"type":["string","null"]}`, `{"type":"null"}`, `{"type":"object","additionalProperties":true}`,
		`{"type":"object","patternProperties":{}}`, `{"type":"string","pattern":"a*"}`, `{"type":"string","format":"ipv4"}`, `{"type":"integer","format":"email"}`, `{"type":"string","minLength":3,"maxLength":2}`, `{"type":"string","critical":"yes"}`,
		`{"type":"string","maxLength":0}`,
		`{"type":"string","maxLength":-1}`, `{"type":"string","maxLength":"5"}`, `{"type":"string","minimum":0}`, `{"type":"integer","minimum":2,"maximum":1}`,
		`{"type":"integer","minimum":0.5}`, `{"type":"array"}`, `{"type":"array","items":{}}`, `{"type":"array","items":[{"type":"string"}]}`,
		`{"type":"array","items":{"type":"string"},"maxItems":-1}`, `{"type":"object","properties":[]}`, `{"type":"object","properties":{"a b":{"type":"string"}}}`,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":"a"}`,
		`{"enum":[]}`, `{"enum":["a","a"]}`, `{"enum":[1]}`, `{"enum":"a"}`, `{"type":"enum"}`, `{"type":"boolean","enum":["a"]}`, `{"anyOf":[{"type":"string"}]}`,
		`{"$ref":"#/x"}`, `{"type":"string","nullable":"yes"}`, `{"type":"string","description":1}`, `{"type":"string","type":"string"}`, `{"const":1.5}`, `{"const":true}`, `{"const":"a","maxLength":1}`, `{"const":"a","type":"integer"}`,
	} {
		_, err := kernel.ParseType([]byte(schema))
		failIf(t, err == nil, "%s is taken", schema)
	}
	for schema, values := range map[string][2][]string{
		`{"type":"boolean"}`:                                       {{"true", "false"}, {`"true"`, "1", "null", "[]", "{}"}},
		`{"type":"integer"}`:                                       {{"0", "-5", "9223372036854775807"}, {`"0"`, "1.0", "true", "null"}},
		`{"type":"integer","minimum":1,"maximum":3}`:               {{"1", "3"}, {"0", "4", "-1"}},
		`{"type":"number"}`:                                        {{"0", "1.5", "-98.70", "999999999999999"}, {`"1"`, "true", "1000000000000000", "null"}},
		`{"type":"number","minimum":-1,"maximum":1}`:               {{"-1", "1", "0.99", "-0.5", "1.0"}, {"1.01", "-1.01", "2"}},
		`{"type":"string"}`:                                        {{`""`, `"é"`}, {"1", "null", `["a"]`}},
		`{"type":"string","maxLength":2,"nullable":true}`:          {{`""`, `"éé"`, "null"}, {`"abc"`, `"ééé"`}},
		`{"enum":["a","b"]}`:                                       {{`"a"`, `"b"`}, {`"A"`, `""`, `"a "`, "null", "0"}},
		`{"type":"string","enum":["a"]}`:                           {{`"a"`}, {`"b"`}},
		`{"type":"array","items":{"type":"integer"}}`:              {{"[]", "[1,2]"}, {`[1,"2"]`, "[null]", "1", "{}"}},
		`{"type":"array","items":{"type":"integer"},"maxItems":1}`: {{"[]", "[1]"}, {"[1,2]"}},
		`{"type":"string","minLength":2}`:                          {{`"éé"`}, {`"é"`, `""`}},
		`{"type":"string","format":"email","critical":true}`: {{`"kim@example.org"`, `"k.i+m@a-b.example.org"`}, {`""`, `"kim"`, `"Kim@example.org"`, `"kim@example"`, `"a@example.org,b@example.org"`, `"a@example.org b@example.org"`,
			`"kim@example.org "`, `"<kim@example.org>"`, `"Kim <kim@example.org>"`, `"kim@example.org\n"`, `"\"a@b.org,c\"@example.org"`, `"a@b.org;c@example.org"`, `"kim@evil@example.org"`, `"kim@ex\u0430mple.org"`}},
		`{"type":"string","format":"date","description":"when"}`: {{`"2026-02-28"`}, {`"2026-02-29"`, `"26-02-28"`, `"2026-2-8"`, `"2026-02-28T00:00:00Z"`, `""`}},
		`{"type":"string","format":"uri"}`:                       {{`"https://example.org/a?b=c#d"`, `"urn:x"`}, {`"example.org"`, `"HTTPS://example.org"`, `"https://example.org/a b"`, `"https:"`, `":x"`, `"https://ex\u0430mple.org"`}},
		`{"type":"number","minimum":0.5,"maximum":99.95}`:        {{"0.5", "1", "99.95", "99"}, {"0.49", "99.96", "100", "-1"}},
		`{"const":"a"}`:                     {{`"a"`}, {`"b"`, `""`}},
		`{"const":3,"type":"integer"}`:      {{"3"}, {"4", `"3"`}},
		`{"type":"object","properties":{}}`: {{"{}"}, {`{"a":1}`, "[]", "null"}},
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}`: {{`{"a":1}`, `{"b":"x","a":1}`}, {`{"b":"x"}`, `{"a":1,"c":2}`, `{"a":"1"}`, `{"A":1}`, `{"a":1,"b":null}`}},
	} {
		typ := mustType(schema)
		for i, ok := range []bool{true, false} {
			for _, v := range values[i] {
				expect(t, typ.Has(val(v)), ok, "%s has %s: %t", schema, v, !ok)
			}
		}
		if again := mustType(string(typ.AppendJSONSchema(nil))); string(again.AppendJSONSchema(nil)) != string(typ.AppendJSONSchema(nil)) {
			t.Errorf("%s does not come back from its own spelling %s", schema, typ.AppendJSONSchema(nil))
		}
	}
	failIf(t, (*kernel.Type)(nil).Has(val("1")) || new(kernel.Type).Has(val("1")) || mustType(`{"type":"integer"}`).Has(nil),
		"what is no type has a value")
}

// The same definition has the same defects, in the same order.
func TestDefectsAreInOrder(t *testing.T) {
	t.Parallel()
	d := kernel.Definition{Name: "A", Planner: "B", SubPlanner: "C",
		Requesters: map[bcp.AgentName][]string{"a": {"x"}, "b": {"y"}, "c": {"z"}}, Grants: map[string][]kernel.Capability{"G ": nil, "H ": nil, "I ": nil},
		Limits: kernel.Limits{MaxSteps: -1, MaxEffects: -1, MaxParses: -1, MaxDepth: -1, MaxPlans: -1}}
	_, want := kernel.New(d)
	stopIf(t, len(want) < 10, "defects %v", want)
	for range 20 {
		_, got := kernel.New(d)
		stopIf(t, !slices.Equal(got, want), "%v\nand then %v", want, got)
	}
}
