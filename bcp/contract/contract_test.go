package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// builtin returns the bytes of a built-in contract.
func builtin(t testing.TB, name string) []byte {
	t.Helper()
	for _, b := range contract.Builtins() {
		if b.Name == name {
			return []byte(b.Bytes)
		}
	}
	t.Fatalf("no contract %s", name)
	return nil
}

func mustParse(t testing.TB, b []byte) contract.Contract {
	t.Helper()
	c, defects := contract.Parse(b)
	stopIf(t, len(defects) > 0, "%s: %v", b, defects)
	return c
}

// edit returns a built-in contract, decoded, changed and encoded again.
func edit(t testing.TB, name string, change func(c map[string]any)) []byte {
	t.Helper()
	var c map[string]any
	noError(t, json.Unmarshal(builtin(t, name), &c))
	change(c)
	b, err := json.Marshal(c)
	noError(t, err)
	return b
}

// first returns the first invariant of a decoded contract.
func first(c map[string]any) map[string]any {
	return c["contract:invariants"].([]any)[0].(map[string]any)
}

// The draft's two contracts load as they are, and each of their invariants has a
// predicate and a level; so does each of ours.
// covers DUAL-5, DUAL-46, DUAL-47, DUAL-48, DUAL-49, DUAL-50, DUAL-51, DUAL-52, DUAL-53, DUAL-54, DUAL-55, DUAL-56, DUAL-60, DUAL-68
func TestBuiltinContracts(t *testing.T) {
	t.Parallel()
	want := map[string]struct {
		role         contract.Role
		predicates   []string
		levels       []contract.Level
		capabilities []string
		prohibited   []string
	}{
		"planner-v1": {
			contract.Planner,
			[]string{"never_receives(planner, tool_outputs)", "function_of(planner.output, [user_query, tool_signatures])", "conforms(planner.output, plan)"},
			[]contract.Level{contract.Monitored, contract.Architectural, contract.Parser},
			[]string{"generate_plan", "select_tools", "define_schemas_for_processor", "call_print_for_user_output"},
			[]string{"access_tool_outputs", "access_external_data", "communicate_with_processor_directly", "modify_orchestrator_state"},
		},
		"processor-v1": {
			contract.Processor,
			[]string{"has_none(processor, tools)", "conforms(processor.output, schema(planner.request))", "only_messages(processor, planner, [structured_data, not_enough_information])"},
			[]contract.Level{contract.Architectural, contract.Parser, contract.Monitored},
			[]string{"parse_unstructured_to_structured", "signal_insufficient_information"},
			[]string{"call_tools", "see_user_query", "send_arbitrary_text_to_planner", "access_other_tool_outputs"},
		},
		"orchestrator-v1": {
			contract.Orchestrator,
			[]string{"deterministic(orchestrator)", "gated(effects)", "decides_on(orchestrator, metadata)", "only_messages(orchestrator, planner, [plan_request, error])"},
			[]contract.Level{contract.Parser, contract.Architectural, contract.Parser, contract.Parser},
			[]string{"execute_plan", "enforce_policies", "maintain_data_flow_graph", "report_error_types"},
			[]string{"use_model", "decide_on_content", "send_content_to_planner", "make_effect_without_verdict"},
		},
	}
	stopIf(t, len(contract.Builtins()) != len(want), "%d contracts", len(contract.Builtins()))
	for _, b := range contract.Builtins() {
		c, ok := contract.ParseBuiltin(b.Name)
		stopIf(t, !ok, "%s does not load", b.Name)
		w := want[b.Name]
		var predicates []string
		var levels []contract.Level
		for _, i := range c.Invariants {
			predicates, levels = append(predicates, i.Predicate.String()), append(levels, i.Level)
		}
		diff := cmp.Diff([]any{w.role, w.predicates, w.levels, w.capabilities, w.prohibited}, []any{c.Role, predicates, levels, c.Capabilities, c.Prohibited})
		failIf(t, diff != "", "%s (-want +got):\n%s", b.Name, diff)
	}
	_, ok := contract.ParseBuiltin("planner-v2")
	failIf(t, ok, "a contract that is not built in loads")
}

// What is wrong with a contract is named, with its place.
// covers DUAL-47, DUAL-48, DUAL-49, DUAL-50, DUAL-51, DUAL-52, DUAL-53, DUAL-54, DUAL-55, DUAL-56
func TestDefects(t *testing.T) {
	t.Parallel()
	invariants := func(n int) []any {
		list := make([]any, n)
		for i := range list {
			list[i] = map[string]any{"id": fmt.Sprintf("i%d", i), "description": "", "formal": "x", "enforcement": "architectural"}
		}
		return list
	}
	set := func(key string, v any) func(map[string]any) { return func(c map[string]any) { c[key] = v } }
	inFirst := func(key string, v any) func(map[string]any) { return func(c map[string]any) { first(c)[key] = v } }
	predicate := func(name string, args ...any) map[string]any {
		return map[string]any{"name": name, "args": append([]any{}, args...)}
	}
	type cases []struct {
		name   string
		change func(map[string]any)
		want   []string // code and place
	}
	table := cases{
		{"nothing", func(map[string]any) {}, nil},
		{"another version", set("contract:version", "2.0"), []string{"unknown_version contract:version"}},
		{"a version that is a number", set("contract:version", 1), []string{"malformed contract:version"}},
		{"a role without contracts", set("contract:role", "tool"), []string{"unknown_role contract:role"}},
		{"an unknown key", set("contract:note", "x"), []string{"unknown_key "}},
		{"no invariants", set("contract:invariants", []any{}), []string{"no_invariants contract:invariants"}},
		{"64 invariants", set("contract:invariants", invariants(64)), nil},
		{"65 invariants", set("contract:invariants", invariants(65)), []string{"too_many_invariants contract:invariants"}},
		{"invariants that are no list", set("contract:invariants", "x"), []string{"malformed contract:invariants"}},
		{"an invariant that is no object", set("contract:invariants", []any{"x"}), []string{"malformed contract:invariants[0]"}},
		{"an unknown key of an invariant", inFirst("note", "x"), []string{"unknown_key contract:invariants[0]"}},
		{"an id with a space", inFirst("id", "a b"), []string{"bad_id contract:invariants[0].id"}},
		{"an empty id", inFirst("id", ""), []string{"bad_id contract:invariants[0].id"}},
		{"an id of 64", inFirst("id", strings.Repeat("a", 64)), nil},
		{"an id of 65", inFirst("id", strings.Repeat("a", 65)), []string{"bad_id contract:invariants[0].id"}},
		{"the same id", inFirst("id", "inv-2"), []string{"duplicate_id contract:invariants[1].id"}},
		{"an empty description", inFirst("description", ""), nil},
		{"a description of 4096", inFirst("description", strings.Repeat("x", 4096)), nil},
		{"a description of 4097", inFirst("description", strings.Repeat("x", 4097)), []string{"malformed contract:invariants[0].description"}},
		{"an enforcement of our own", inFirst("enforcement", "best_effort"), []string{"unknown_enforcement contract:invariants[0].enforcement"}},
		{"a level in place of enforcement", inFirst("enforcement", "monitored"), []string{"unknown_enforcement contract:invariants[0].enforcement"}},
		{"the same predicate", inFirst("predicate", predicate("never_receives", "planner", "tool_outputs")), nil},
		{"another predicate", inFirst("predicate", predicate("never_receives", "planner", "external_data")), []string{"predicate_mismatch contract:invariants[0].predicate"}},
		{"an unknown predicate", inFirst("predicate", predicate("is_safe")), []string{"unknown_predicate contract:invariants[0].predicate"}},
		{"an argument too few", inFirst("predicate", predicate("never_receives", "planner")), []string{"bad_arguments contract:invariants[0].predicate"}},
		{"an argument too many", inFirst("predicate", predicate("never_receives", "planner", "plan", "plan")), []string{"bad_arguments contract:invariants[0].predicate"}},
		{"an unknown argument", inFirst("predicate", predicate("never_receives", "planner", "mail")), []string{"bad_arguments contract:invariants[0].predicate"}},
		{"a word for a set", inFirst("predicate", predicate("function_of", "planner.output", "user_query")), []string{"bad_arguments contract:invariants[0].predicate"}},
		{"a word twice in a set", inFirst("predicate", predicate("function_of", "planner.output", []any{"content", "content"})), []string{"bad_arguments contract:invariants[0].predicate"}},
		{"a predicate that is a text", inFirst("predicate", "gated"), []string{"malformed contract:invariants[0].predicate"}},
		{"a predicate without arguments", inFirst("predicate", map[string]any{"name": "gated"}), []string{"malformed contract:invariants[0].predicate"}},
		{"an unknown word", set("contract:capabilities", []any{"generate_plan", "fly"}), []string{"unknown_word contract:capabilities[1]"}},
		{"a word twice", set("contract:capabilities", []any{"generate_plan", "generate_plan"}), []string{"duplicate_word contract:capabilities[1]"}},
		{"a word in both", set("contract:capabilities", []any{"access_tool_outputs"}), []string{"word_in_both contract:prohibited[0]"}},
		{"no words", func(c map[string]any) { c["contract:capabilities"], c["contract:prohibited"] = []any{}, []any{} }, nil},
		{"words that are no list", set("contract:prohibited", "x"), []string{"malformed contract:prohibited"}},
		{"two defects", func(c map[string]any) { delete(c, "contract:role"); first(c)["id"] = "" }, []string{"missing_key contract:role", "bad_id contract:invariants[0].id"}},
	}
	for _, key := range []string{"contract:version", "contract:role", "contract:invariants", "contract:capabilities", "contract:prohibited"} {
		table = append(table, cases{{"no " + key, func(c map[string]any) { delete(c, key) }, []string{"missing_key " + key}}}...)
	}
	for _, key := range []string{"id", "description", "formal", "enforcement"} {
		table = append(table, cases{{"no " + key, func(c map[string]any) { delete(first(c), key) }, []string{"missing_key contract:invariants[0]." + key}}}...)
	}
	for _, word := range []string{"architectural", "parser_enforced", "schema_validation", "orchestrator_enforced", "runtime_monitored"} {
		table = append(table, cases{{word, inFirst("enforcement", word), nil}}...)
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := edit(t, "planner-v1", c.change)
			got, defects := contract.Parse(b)
			var named []string
			for _, d := range defects {
				named = append(named, string(d.Code)+" "+d.Where)
				failIf(t, d.Code.Text() == string(d.Code), "%+v: no text", d)
			}
			diff := cmp.Diff(c.want, named)
			failIf(t, diff != "", "(-want +got):\n%s", diff)
			failIf(t, len(defects) > 0 && (got.Role != "" || got.Invariants != nil), "a wrong contract is returned: %+v", got)
		})
	}
}

// Contracts are read by PROTOCOL P2.2, and bounded before they are read.
// covers P2.2, DUAL-46
func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	text := string(builtin(t, "planner-v1"))
	for name, b := range map[string]string{
		"nothing":             "",
		"a list":              "[" + text + "]",
		"null":                "null",
		"more after it":       text + "{}",
		"a repeated key":      strings.Replace(text, `"contract:version"`, `"contract:role": "planner", "contract:version"`, 1),
		"a null":              strings.Replace(text, `"1.0"`, `null`, 1),
		"bytes, not UTF-8":    strings.Replace(text, `Planner`, "\xff", 1),
		"a key in upper case": strings.Replace(text, `"contract:role"`, `"Contract:role"`, 1),
	} {
		_, defects := contract.Parse([]byte(b))
		failIf(t, len(defects) == 0, "%s: accepted", name)
	}
	pad := func(n int) []byte { return append([]byte(text), bytes.Repeat([]byte(" "), n-len(text))...) }
	_, defects := contract.Parse(pad(contract.MaxContract))
	failIf(t, len(defects) > 0, "64 KiB: %v", defects)
	_, defects = contract.Parse(pad(contract.MaxContract + 1))
	failIf(t, len(defects) != 1 || defects[0].Code != contract.TooLarge, "a byte more: %v", defects)
}

// A formula is looked up in NFC and without its white space; any other formula says
// nothing, and a predicate beside it says what it means.
// covers DUAL-52
func TestFormulas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ formal, want string }{
		{"plan = f(user_query, tool_signatures)", "function_of(planner.output, [user_query, tool_signatures])"},
		{" plan =\n f( user_query,\ttool_signatures ) ", "function_of(planner.output, [user_query, tool_signatures])"},
		{"plan = f(tool_signatures, user_query)", "unverified"},
		{"processor.tools = ∅", "has_none(processor, tools)"},
		{"processor.tools = ø", "unverified"},
		{"planner is nice", "unverified"},
		{"", "unverified"},
	} {
		b := edit(t, "planner-v1", func(m map[string]any) { first(m)["formal"] = c.formal })
		expect(t, mustParse(t, b).Invariants[0].Predicate.String(), c.want, "%q", c.formal)
	}
	b := edit(t, "planner-v1", func(m map[string]any) {
		first(m)["formal"], first(m)["predicate"] = "planner is nice", map[string]any{"name": "function_of", "args": []any{"planner.output", []any{"tool_signatures", "user_query"}}}
	})
	expect(t, mustParse(t, b).Invariants[0].Predicate.String(), "function_of(planner.output, [user_query, tool_signatures])", "beside a formula that says nothing")
}

// Whatever is done to a contract, the reader does not panic, and
// nothing that it accepts breaks a rule of the format.
// covers DUAL-46
func TestParseProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.SampledFrom(contract.Builtins()).Draw(t, "contract").Bytes)
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			from := rapid.IntRange(0, len(text)).Draw(t, "from")
			to := min(len(text), from+rapid.IntRange(0, 12).Draw(t, "length"))
			piece := rapid.SampledFrom([]string{"", `"`, "{", "]", ",", "null", `"planner"`, `"inv-1"`, `"x":1,`, "\\u0000", "\xff", "architectural"}).Draw(t, "piece")
			text = append(append(append([]byte{}, text[:from]...), piece...), text[to:]...)
		}
		checkParsed(t, text)
	})
}

// checkParsed checks what holds of every text.
func checkParsed(t fataler, b []byte) {
	c, defects := contract.Parse(b)
	if len(defects) > 0 {
		stopIf(t, c.Role != "" || c.Invariants != nil || c.Capabilities != nil || c.Prohibited != nil,
			"a wrong contract is returned")
		return
	}
	ids := map[string]bool{}
	for _, i := range c.Invariants {
		stopIf(t, i.Level == contract.Declared || ids[i.ID], "invariant %q is accepted", i.ID)
		ids[i.ID] = true
	}
	n := len(c.Invariants)
	stopIf(t, n < 1 || n > 64, "%d invariants", n)
	r := contract.Verify(c, contract.Facts{})
	stopIf(t, r.OK, "a contract holds without facts")
}

func FuzzParse(f *testing.F) {
	for _, b := range contract.Builtins() {
		f.Add([]byte(b.Bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkParsed(t, b) })
}
