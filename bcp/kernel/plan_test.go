package kernel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// faultOf is what is wrong with a plan.
func faultOf(k *kernel.Kernel, plan string, at kernel.Frame) kernel.Code {
	_, fault := k.ReadPlan([]byte(plan), at)
	return fault.Code
}

// planCase is a plan with the first thing that is wrong with it.
type planCase struct {
	name, plan string
	code       kernel.Code
	step       string
}

// steps makes a plan that ends with the last of the steps given.
func steps(list ...string) string {
	var id struct{ ID string }
	if err := json.Unmarshal([]byte(list[len(list)-1]), &id); err != nil || id.ID == "" {
		id.ID = "x"
	}
	return fmt.Sprintf(`{"steps":[%s],"final":%q}`, strings.Join(list, ","), id.ID)
}

// The steps of most plans.
const (
	constX   = `{"kind":"const","id":"c","value":"x"}`
	inbox    = `{"kind":"tool","id":"inbox","tool":"read_inbox","args":{}}`
	contacts = `{"kind":"tool","id":"contacts","tool":"read_contacts"}`
	parse    = `{"kind":"q_parse","id":"p","source":{"ref":"inbox","path":"latest.body"},"schema_ref":"Summary","instruction":"i"}`
	slots    = `{"kind":"q_parse","id":"s","source":{"ref":"inbox"},"schema_ref":"Slot","instruction":"i"}`
	mergeXY  = `{"kind":"merge","id":"m","inputs":{"a":{"ref":"c"},"b":{"ref":"inbox","path":"latest"}}}`
)

// use is a call that hands a value over as a text.
func use(arg string) string {
	return `{"kind":"tool","id":"use","tool":"send_email","args":{"to":"kim@example.com","body":` + arg + `}}`
}

func event(title, slot string) string {
	return `{"kind":"tool","id":"ev","tool":"create_event","args":{"title":` + title + `,"slot":` + slot + `}}`
}

func sub(rest string) string {
	return `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":"i","grant":["mail.read"]` + rest + `}`
}

func merged(inputs string) string { return `{"kind":"merge","id":"m","inputs":` + inputs + `}` }

func words(list string) string {
	return `{"kind":"tool","id":"n","tool":"count","args":{"words":` + list + `}}`
}

// planCases are plans for the kernel of most tests, right and wrong.
func planCases() []planCase {
	big := strings.Repeat("x", kernel.MaxPlanText)
	wide := strings.Repeat("é", kernel.MaxPlanText)
	name64 := strings.Repeat("a", 64)
	return []planCase{
		{"the example", mailPlan, "", ""},
		{"one constant", steps(constX), "", ""},
		{"final is not the last step", `{"steps":[` + constX + `,{"kind":"const","id":"b","value":2}],"final":"c"}`, "", ""},
		{"a run id is taken and ignored", `{"steps":[` + constX + `],"final":"c","run_id":"mine"}`, "", ""},
		{"all five kinds", steps(constX, inbox, parse, mergeXY, sub("")), "", ""},

		// The whole.
		{"free text", `Sure! Here is the plan.`, kernel.Malformed, ""},
		{"nothing", "", kernel.Malformed, ""},
		{"trailing text", steps(constX) + " ok", kernel.Malformed, ""},
		{"a key twice", strings.Replace(steps(constX), `"value"`, `"value":1,"value"`, 1), kernel.Malformed, ""},
		{"steps twice", `{"steps":[],"steps":[` + constX + `],"final":"c"}`, kernel.Malformed, ""},
		{"another key", `{"steps":[` + constX + `],"final":"c","comment":"x"}`, kernel.Malformed, ""},
		{"a key of other case", `{"Steps":[` + constX + `],"final":"c"}`, kernel.Malformed, ""},
		{"no steps", `{"final":"c"}`, kernel.Malformed, ""},
		{"no key final", `{"steps":[` + constX + `]}`, kernel.Malformed, ""},
		{"steps are an object", `{"steps":{"a":` + constX + `},"final":"c"}`, kernel.Malformed, ""},
		{"final is a number", `{"steps":[` + constX + `],"final":1}`, kernel.Malformed, ""},
		{"a run id that is a number", `{"steps":[` + constX + `],"final":"c","run_id":7}`, kernel.Malformed, ""},
		{"nesting", `{"steps":[{"kind":"const","id":"c","value":` + strings.Repeat("[", 9) + strings.Repeat("]", 9) + `}],"final":"c"}`, kernel.Malformed, ""},
		{"a number beyond 64 bits", steps(`{"kind":"const","id":"c","value":9223372036854775808}`), kernel.Malformed, ""},
		{"a fraction of 16 digits", steps(`{"kind":"const","id":"c","value":1.234567890123456}`), kernel.Malformed, ""},
		{"64 KiB", strings.Replace(steps(constX), "{", "{"+strings.Repeat(" ", kernel.MaxPlanBytes-len(steps(constX))), 1), "", ""},
		{"one byte more", strings.Replace(steps(constX), "{", "{"+strings.Repeat(" ", kernel.MaxPlanBytes-len(steps(constX))+1), 1), kernel.TooLarge, ""},
		{"size is looked at first", strings.Repeat("x", kernel.MaxPlanBytes+1), kernel.TooLarge, ""},
		{"256 steps", manySteps(kernel.MaxPlanSteps), "", ""},
		{"257 steps", manySteps(kernel.MaxPlanSteps + 1), kernel.TooLarge, ""},

		// Kinds, keys, ids.
		{"no kind", steps(`{"id":"c","value":1}`), kernel.UnknownKind, "c"},
		{"a kind that looks like one", steps(`{"kind":"сonst","id":"c","value":1}`), kernel.UnknownKind, "c"},
		{"a kind that is a number", steps(`{"kind":1,"id":"c","value":1}`), kernel.UnknownKind, "c"},
		{"a kind of the past", steps(`{"kind":"q_llm","id":"b"}`), kernel.UnknownKind, "b"},
		{"a step that is a text", `{"steps":["const"],"final":"c"}`, kernel.Malformed, ""},
		{"no id", `{"steps":[{"kind":"const","value":1}],"final":"c"}`, kernel.Malformed, ""},
		{"an id that is a number", `{"steps":[{"kind":"const","id":1,"value":1}],"final":"1"}`, kernel.Malformed, ""},
		{"no value", steps(`{"kind":"const","id":"c"}`), kernel.Malformed, "c"},
		{"a value and more", steps(`{"kind":"const","id":"c","value":1,"label":"trusted"}`), kernel.Malformed, "c"},
		{"a label of its own", steps(`{"kind":"tool","id":"inbox","tool":"read_inbox","label":{}}`), kernel.Malformed, "inbox"},
		{"a condition", steps(`{"kind":"tool","id":"inbox","tool":"read_inbox","when":{"ref":"c"}}`), kernel.Malformed, "inbox"},
		{"no tool", steps(`{"kind":"tool","id":"inbox","args":{}}`), kernel.Malformed, "inbox"},
		{"a tool from a value", steps(constX, `{"kind":"tool","id":"t","tool":{"ref":"c"},"args":{}}`), kernel.Malformed, "t"},
		{"arguments in a list", steps(`{"kind":"tool","id":"t","tool":"read_inbox","args":[]}`), kernel.Malformed, "t"},
		{"no arguments at all", steps(`{"kind":"tool","id":"t","tool":"read_inbox"}`), "", ""},
		{"a schema from a value", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":{"ref":"c"},"instruction":"i"}`), kernel.Malformed, "p"},
		{"a parse without schema", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"instruction":"i"}`), kernel.Malformed, "p"},
		{"a parse whose schema is null", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":null,"instruction":"i"}`), kernel.Malformed, "p"},
		{"a parse without instruction", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Slot"}`), kernel.Malformed, "p"},
		{"a parse with an instruction of blanks", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Slot","instruction":" \n"}`), kernel.Malformed, "p"},
		{"a parse with an instruction that shows nothing", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Slot","instruction":"\u200b\u2060"}`), kernel.Malformed, "p"},
		{"a sub-run with an instruction of blanks", steps(constX, `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":" ","grant":["mail.read"]}`), kernel.Malformed, "d"},
		{"a parse without source", steps(`{"kind":"q_parse","id":"p","schema_ref":"Slot","instruction":"i"}`), kernel.Malformed, "p"},
		{"a merge of literals", steps(merged(`{"a":1}`)), kernel.Malformed, "m"},
		{"a merge of a list", steps(constX, merged(`[{"ref":"c"}]`)), kernel.Malformed, "m"},
		{"a merge without inputs", steps(`{"kind":"merge","id":"m"}`), kernel.Malformed, "m"},
		{"a sub-run without grant", steps(constX, `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":"i"}`), kernel.Malformed, "d"},
		{"a grant that is a text", steps(constX, `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":"i","grant":"mail.read"}`), kernel.Malformed, "d"},
		{"a wildcard", steps(constX, `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":"i","grant":["mail.*"]}`), kernel.Malformed, "d"},
		{"no capabilities", steps(constX, `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":"i","grant":[]}`), "", ""},
		{"a sub-run's schema that is null", steps(constX, sub(`,"schema_ref":null`)), "", ""},
		{"a sub-run's schema without a name", steps(constX, sub(`,"schema_ref":""`)), kernel.Malformed, "d"},
		{"a plan in a plan", steps(constX, sub(`,"plan":{"steps":[],"final":"a"}`)), kernel.Malformed, "d"},
		{"a constant of a list", steps(`{"kind":"const","id":"c","value":[1,"a",null,true]}`), "", ""},
		{"a constant of an empty list", steps(`{"kind":"const","id":"c","value":[]}`), "", ""},
		{"a constant of lists", steps(`{"kind":"const","id":"c","value":[[1]]}`), kernel.Malformed, "c"},
		{"a constant of an object", steps(`{"kind":"const","id":"c","value":{"a":1}}`), kernel.Malformed, "c"},
		{"a constant from a value", steps(constX, `{"kind":"const","id":"d","value":{"ref":"c"}}`), kernel.Malformed, "d"},
		{"a constant with a fraction", steps(`{"kind":"const","id":"c","value":98.7}`), "", ""},
		{"a text of 4096 characters", steps(`{"kind":"const","id":"c","value":"` + wide + `"}`), "", ""},
		{"one character more", steps(`{"kind":"const","id":"c","value":"` + big + `x"}`), kernel.Malformed, "c"},
		{"one character more, in a list", steps(`{"kind":"const","id":"c","value":["` + big + `x"]}`), kernel.Malformed, "c"},
		{"an instruction too long", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Slot","instruction":"`+big+`x"}`), kernel.Malformed, "p"},
		{"an argument too long", steps(use(`"` + big + `x"`)), kernel.Malformed, "use"},

		{"an empty id", `{"steps":[{"kind":"const","id":"","value":1}],"final":""}`, kernel.BadID, ""},
		{"an id with a dot", steps(`{"kind":"const","id":"a.b","value":1}`), kernel.BadID, ""},
		{"an id with a slash", steps(`{"kind":"const","id":"a/b","value":1}`), kernel.BadID, ""},
		{"an id with a blank", steps(`{"kind":"const","id":"a b","value":1}`), kernel.BadID, ""},
		{"an id with a NUL", `{"steps":[{"kind":"const","id":"a\u0000","value":1}],"final":"c"}`, kernel.BadID, ""},
		{"an id of 64", steps(`{"kind":"const","id":"` + name64 + `","value":1}`), "", ""},
		{"an id of 65", steps(`{"kind":"const","id":"` + name64 + `a","value":1}`), kernel.BadID, ""},
		{"an id of digits and signs", steps(`{"kind":"const","id":"-0_9","value":1}`), "", ""},
		{"an id twice", steps(constX, constX), kernel.DuplicateID, "c"},
		{"an id twice, of other kinds", steps(inbox, `{"kind":"const","id":"inbox","value":1}`), kernel.DuplicateID, "inbox"},
		{"ids of other case", steps(constX, `{"kind":"const","id":"C","value":1}`), "", ""},

		// References.
		{"a step before it", steps(constX, use(`{"ref":"c"}`)), "", ""},
		{"with its kind", steps(constX, use(`{"ref":"c","kind":"ref"}`)), "", ""},
		{"with another kind", steps(constX, use(`{"ref":"c","kind":"value"}`)), kernel.Malformed, "use"},
		{"with a default", steps(constX, use(`{"ref":"c","default":"x"}`)), kernel.Malformed, "use"},
		{"without ref", steps(constX, use(`{"path":"a"}`)), kernel.Malformed, "use"},
		{"a reference from a value", steps(constX, use(`{"ref":{"ref":"c"}}`)), kernel.Malformed, "use"},
		{"a path from a value", steps(inbox, use(`{"ref":"inbox","path":{"ref":"c"}}`)), kernel.Malformed, "use"},
		{"null is no path", steps(constX, use(`{"ref":"c","path":null}`)), "", ""},
		{"a path of nothing", steps(inbox, use(`{"ref":"inbox","path":""}`)), kernel.BadPath, "use"},
		{"a dot", steps(inbox, use(`{"ref":"inbox","path":"."}`)), kernel.BadPath, "use"},
		{"two dots", steps(inbox, use(`{"ref":"inbox","path":"latest..body"}`)), kernel.BadPath, "use"},
		{"a path of 1024", steps(inbox, use(`{"ref":"inbox","path":"`+strings.Repeat("a.", 511)+`aa"}`)), kernel.PathMissing, "use"},
		{"a path of 1025", steps(inbox, use(`{"ref":"inbox","path":"`+strings.Repeat("a.", 512)+`a"}`)), kernel.BadPath, "use"},
		{"a segment of 64", steps(inbox, use(`{"ref":"inbox","path":"`+name64+`"}`)), kernel.PathMissing, "use"},
		{"a segment of 65", steps(inbox, use(`{"ref":"inbox","path":"`+name64+`a"}`)), kernel.BadPath, "use"},
		{"a name of 64", steps(constX, merged(`{"`+name64+`":{"ref":"c"}}`)), "", ""},
		{"a name of 65", steps(constX, merged(`{"`+name64+`a":{"ref":"c"}}`)), kernel.Malformed, "m"},
		{"a bad path is found before a step that is not there", steps(use(`{"ref":"nowhere","path":""}`)), kernel.BadPath, "use"},
		{"a later step", `{"steps":[` + use(`{"ref":"c"}`) + `,` + constX + `],"final":"use"}`, kernel.UnknownRef, "use"},
		{"itself", steps(use(`{"ref":"use"}`)), kernel.UnknownRef, "use"},
		{"no step", steps(use(`{"ref":"nowhere"}`)), kernel.UnknownRef, "use"},
		{"an id that is none", steps(constX, use(`{"ref":"c.x"}`)), kernel.UnknownRef, "use"},
		{"a later step in a list", steps(words(`["a",{"ref":"later"}]`)), kernel.UnknownRef, "n"},
		{"a merge of itself", steps(merged(`{"a":{"ref":"m"}}`)), kernel.UnknownRef, "m"},
		{"a parse of a later step", `{"steps":[` + parse + `,` + inbox + `],"final":"p"}`, kernel.UnknownRef, "p"},
		{"a sub-run of a later step", `{"steps":[` + sub("") + `,` + constX + `],"final":"d"}`, kernel.UnknownRef, "d"},
		{"a reference is looked at before the tool", steps(`{"kind":"tool","id":"t","tool":"no_tool","args":{"a":{"ref":"nowhere"}}}`), kernel.UnknownRef, "t"},

		{"a property", steps(inbox, use(`{"ref":"inbox","path":"latest.body"}`)), "", ""},
		{"a property that is not there", steps(inbox, use(`{"ref":"inbox","path":"latest.cc"}`)), kernel.PathMissing, "use"},
		{"a property of a text", steps(inbox, use(`{"ref":"inbox","path":"latest.body.length"}`)), kernel.PathMissing, "use"},
		{"a property of a constant", steps(constX, use(`{"ref":"c","path":"x"}`)), kernel.PathMissing, "use"},
		{"an index into a list", steps(contacts, use(`{"ref":"contacts","path":"contacts.0.name"}`)), "", ""},
		{"an index far away", steps(contacts, use(`{"ref":"contacts","path":"contacts.999999.name"}`)), "", ""},
		{"a name into a list", steps(contacts, use(`{"ref":"contacts","path":"contacts.last.name"}`)), kernel.PathMissing, "use"},
		{"a negative index", steps(contacts, use(`{"ref":"contacts","path":"contacts.-1.name"}`)), kernel.PathMissing, "use"},
		{"an index of two spellings", steps(contacts, use(`{"ref":"contacts","path":"contacts.00.name"}`)), kernel.PathMissing, "use"},
		{"an index into an object", steps(inbox, use(`{"ref":"inbox","path":"latest.0"}`)), kernel.PathMissing, "use"},
		{"an index into a constant", steps(`{"kind":"const","id":"l","value":["a","b"]}`, use(`{"ref":"l","path":"1"}`)), "", ""},
		{"an index beyond a constant", steps(`{"kind":"const","id":"l","value":["a","b"]}`, use(`{"ref":"l","path":"2"}`)), kernel.PathMissing, "use"},
		{"an answer of a schema", steps(inbox, parse, use(`{"ref":"p","path":"text"}`)), "", ""},
		{"what a schema does not ask", steps(inbox, parse, use(`{"ref":"p","path":"note"}`)), kernel.PathMissing, "use"},
		{"an input of a merge", steps(constX, inbox, mergeXY, use(`{"ref":"m","path":"a"}`)), "", ""},
		{"through an input of a merge", steps(constX, inbox, mergeXY, use(`{"ref":"m","path":"b.body"}`)), "", ""},
		{"what a merge does not have", steps(constX, inbox, mergeXY, use(`{"ref":"m","path":"z"}`)), kernel.PathMissing, "use"},
		{"what an input of a merge does not have", steps(constX, inbox, mergeXY, use(`{"ref":"m","path":"b.z"}`)), kernel.PathMissing, "use"},
		{"into a sub-run without a schema", steps(constX, sub(""), use(`{"ref":"d","path":"x"}`)), kernel.PathMissing, "use"},
		{"into a sub-run with one", steps(constX, sub(`,"schema_ref":"Slot"`), event(`"t"`, `{"ref":"d","path":"slot"}`)), "", ""},
		{"a merge of merges", steps(constX, inbox, mergeXY, `{"kind":"merge","id":"mm","inputs":{"x":{"ref":"m"}}}`, use(`{"ref":"mm","path":"x.b.subject"}`)), "", ""},

		// Tools and arguments.
		{"a tool that is not there", steps(`{"kind":"tool","id":"t","tool":"delete_all","args":{}}`), kernel.UnknownTool, "t"},
		{"a subject as a tool", steps(`{"kind":"tool","id":"t","tool":"bcp.v1.call.mail.send_email","args":{}}`), kernel.UnknownTool, "t"},
		{"an argument too many", steps(`{"kind":"tool","id":"t","tool":"read_inbox","args":{"folder":"x"}}`), kernel.ExtraArgument, "t"},
		{"an argument that is no name", steps(`{"kind":"tool","id":"t","tool":"read_inbox","args":{"a b":"x"}}`), kernel.Malformed, "t"},
		{"an argument too few", steps(`{"kind":"tool","id":"t","tool":"send_email","args":{"to":"a"}}`), kernel.MissingArgument, "t"},
		{"one too many is found before one too few", steps(`{"kind":"tool","id":"t","tool":"send_email","args":{"to":"a","cc":"b"}}`), kernel.ExtraArgument, "t"},
		{"a number as a text", steps(use(`5`)), kernel.TypeMismatch, "use"},
		{"a boolean as a text", steps(use(`true`)), kernel.TypeMismatch, "use"},
		{"a list as a text", steps(use(`["a"]`)), kernel.TypeMismatch, "use"},
		{"an object as a text", steps(inbox, use(`{"ref":"inbox","path":"latest"}`)), kernel.TypeMismatch, "use"},
		{"an answer as a text", steps(inbox, parse, use(`{"ref":"p"}`)), kernel.TypeMismatch, "use"},
		{"a merge as a text", steps(constX, inbox, mergeXY, use(`{"ref":"m"}`)), kernel.TypeMismatch, "use"},
		{"a boolean answer as a text", steps(inbox, slots, use(`{"ref":"s","path":"urgent"}`)), kernel.TypeMismatch, "use"},
		{"a choice as a text", steps(inbox, slots, use(`{"ref":"s","path":"slot"}`)), "", ""},
		{"a choice as itself", steps(inbox, slots, event(`"t"`, `{"ref":"s","path":"slot"}`)), "", ""},
		{"a text as a choice", steps(inbox, event(`"t"`, `{"ref":"inbox","path":"latest.body"}`)), "", ""},
		{"a literal of a choice", steps(event(`"t"`, `"mon"`)), "", ""},
		{"a literal that is no choice", steps(event(`"t"`, `"sun"`)), kernel.TypeMismatch, "ev"},
		{"a constant that is no choice", steps(constX, event(`"t"`, `{"ref":"c"}`)), kernel.TypeMismatch, "ev"},
		{"a list of texts", steps(constX, words(`["a",{"ref":"c"}]`)), "", ""},
		{"a list of a number", steps(words(`["a",1]`)), kernel.TypeMismatch, "n"},
		{"a list of lists", steps(words(`[["a"]]`)), kernel.TypeMismatch, "n"},
		{"lists of three levels", steps(words(`[[["a"]]]`)), kernel.TypeMismatch, "n"},
		{"lists of four levels", steps(words(`[[[["a"]]]]`)), kernel.Malformed, "n"},
		{"a constant list", steps(`{"kind":"const","id":"l","value":["a","b"]}`, words(`{"ref":"l"}`)), "", ""},
		{"a constant list of numbers", steps(`{"kind":"const","id":"l","value":[1]}`, words(`{"ref":"l"}`)), kernel.TypeMismatch, "n"},
		{"what a sub-run may return", steps(constX, sub(""), use(`{"ref":"d"}`)), "", ""},

		{"a schema that is not there", steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Else","instruction":"i"}`), kernel.UnknownSchema, "p"},
		{"a sub-run's schema that is not there", steps(constX, sub(`,"schema_ref":"Else"`)), kernel.UnknownSchema, "d"},
		{"a merge of nothing", steps(merged(`{}`)), kernel.EmptyMerge, "m"},
		{"a merge with a bad name", steps(constX, merged(`{"a.b":{"ref":"c"}}`)), kernel.Malformed, "m"},
		{"a merge with a digit first", steps(constX, merged(`{"0":{"ref":"c"}}`)), kernel.Malformed, "m"},
		{"asked for more", steps(constX, `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":"i","grant":["fs.write","mail.read","mail.read"]}`), "", ""},

		{"no final", `{"steps":[` + constX + `],"final":"d"}`, kernel.NoFinal, ""},
		{"a final with a path", `{"steps":[` + constX + `],"final":"c.x"}`, kernel.NoFinal, ""},
		{"no steps at all", `{"steps":[],"final":"c"}`, kernel.NoFinal, ""},

		// The first step that is wrong is told, and of it the first thing.
		{"the first step first", `{"steps":[` + use(`{"ref":"nowhere"}`) + `,{"kind":"loop","id":"b"}],"final":"c"}`, kernel.UnknownRef, "use"},
		{"a step before the final", `{"steps":[{"kind":"loop","id":"b"}],"final":"c"}`, kernel.UnknownKind, "b"},
		{"the document before the steps", `{"steps":[{"kind":"loop","id":"b"}],"final":"c"} x`, kernel.Malformed, ""},
		{"the form before the id", `{"steps":[{"kind":"const","id":"a.b"}],"final":"c"}`, kernel.Malformed, ""},
	}
}

// covers KER-18, KER-43, KER-44, KER-46, KER-63, KER-64, KER-65, KER-66, KER-67, KER-68, KER-69, KER-70, KER-71, KER-72, KER-73, KER-74, KER-75, KER-76, KER-77, KER-88, KER-107
func TestPlans(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, nil)
	for _, c := range planCases() {
		t.Run(c.name, func(t *testing.T) {
			_, fault := k.ReadPlan([]byte(c.plan), frame(k, "all"))
			failIf(t, fault.Code != c.code || fault.Step != c.step,
				"got %q at %q, want %q at %q", fault.Code, fault.Step, c.code, c.step)
		})
	}
}

func manySteps(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"kind":"const","id":"c%d","value":%d}`, i, i)
	}
	return steps(list...)
}

// A tool that the grant does not allow to call is as none: there is nothing to be
// found out.
// covers KER-32, KER-33, KER-85, A-GRANT
func TestPlanHasOnlyGrantedTools(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, nil)
	for _, plan := range []string{steps(contacts), steps(use(`"x"`)), steps(`{"kind":"tool","id":"t","tool":"nothing","args":{}}`)} {
		expect(t, faultOf(k, plan, frame(k, "read")), kernel.UnknownTool, "%s", plan)
	}
	expect(t, faultOf(k, steps(inbox), frame(k, "read")), "", "a granted tool")
	expect(t, faultOf(k, steps(inbox), kernel.Frame{Query: kernel.Trusted()}), kernel.UnknownTool, "the zero grant")
}

// Without a sub-planner there are no sub-runs.
func TestPlanWithoutSubPlanner(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, func(d *kernel.Definition) { d.SubPlanner = "" })
	_, fault := k.ReadPlan([]byte(steps(constX, sub(""))), frame(k, "all"))
	failIf(t, fault.Code != kernel.UnknownKind || fault.Step != "d", "got %+v", fault)
}

// What only some Readers may be given, others are not asked about.
func TestPlanKeepsContentFromOtherParsers(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, func(d *kernel.Definition) {
		d.Tools[0].Parsers = []string{"localreader"}
		local := withConstraints(slot)
		local.Name, local.Reader = "Local", bcp.AgentName("localreader")
		d.Schemas = append(d.Schemas, local)
	})
	local := strings.ReplaceAll(slots, `"Slot"`, `"Local"`)
	again := `{"kind":"q_parse","id":"again","source":{"ref":"s","path":"slot"},"schema_ref":"Slot","instruction":"i"}`
	for plan, want := range map[string]kernel.Code{
		steps(inbox, local): "", steps(inbox, slots): kernel.UnknownSchema, steps(inbox, local, again): kernel.UnknownSchema,
		steps(inbox, strings.ReplaceAll(sub(""), `{"ref":"c"}`, `{"ref":"inbox"}`)):              kernel.UnknownSchema,
		steps(constX, inbox, mergeXY, strings.ReplaceAll(sub(""), `{"ref":"c"}`, `{"ref":"m"}`)): kernel.UnknownSchema,
	} {
		expect(t, faultOf(k, plan, frame(k, "all")), want, "%s", plan)
	}
}

// Merges of merges double; nothing that doubles is followed for long.
func TestPlanOfDoublingMerges(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, nil)
	list := []string{`{"kind":"const","id":"m0","value":"xxxxxxxx"}`}
	for i := range 200 {
		list = append(list, fmt.Sprintf(`{"kind":"merge","id":"m%d","inputs":{"a":{"ref":"m%d"},"b":{"ref":"m%d"}}}`, i+1, i, i))
	}
	list = append(list, words(`[{"ref":"m200"},{"ref":"m200"}]`))
	expect(t, faultOf(k, steps(list...), frame(k, "all")), kernel.TypeMismatch, "in a list")
	list[len(list)-1] = `{"kind":"subkernel","id":"d","source":{"ref":"m200"},"instruction":"i","grant":[]}`
	expect(t, faultOf(k, steps(list...), frame(k, "all")), "", "as content")
}

// A sub-run may be granted as many capabilities as there may be tools.
// covers KER-34
func TestGrantOfASubRunIsBounded(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, nil)
	for n, want := range map[int]kernel.Code{kernel.MaxTools: "", kernel.MaxTools + 1: kernel.Malformed} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"c%d"`, i))
		}
		plan := steps(constX, `{"kind":"subkernel","id":"d","source":{"ref":"c"},"instruction":"i","grant":[`+strings.Join(names, ",")+`]}`)
		expect(t, faultOf(k, plan, frame(k, "all")), want, "%d", n)
	}
}
