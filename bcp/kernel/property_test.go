package kernel_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// The small world of the properties: tools and schemas whose answers can all be
// played.
var (
	coin  = kernel.Tool{Service: "s", Name: "coin", Level: kernel.Read, RequiredCaps: caps("look"), Readers: caps("tell"), Input: mustType(shape()), Output: mustType(`{"type":"boolean"}`)}
	dials = kernel.Tool{Service: "s", Name: "dials", Level: kernel.Read, RequiredCaps: caps("look"), Input: mustType(shape()),
		Output: mustType(shape("hot:boolean", `face:{"enum":["a","b","c"]}`))}
	mix = kernel.Tool{Service: "s", Name: "mix", Level: kernel.Pure, Input: mustType(shape("a:boolean", `b:{"enum":["a","b","c"]}`)),
		Output: mustType(shape("x:boolean", `y:{"enum":["a","b","c"]}`))}
	tell = kernel.Tool{Service: "s", Name: "tell", Level: kernel.Write, RequiredCaps: caps("tell"), Input: mustType(shape("a:boolean", `b:{"enum":["a","b","c"]}`)),
		Output: mustType(`{"type":"boolean"}`)}
	flags = kernel.Schema{Name: "Flags", Reader: "reader", Spec: mustSpec(`{"category":1,"fields":[{"name":"u","type":"boolean"},{"name":"v","type":"enum","values":["a","b","c"]}]}`)}
)

func smallKernel(t fataler, change func(*kernel.Definition)) *kernel.Kernel {
	return mustKernel(t, func(d *kernel.Definition) {
		d.Tools, d.Schemas, d.Rules, d.UntestedRules = []kernel.Tool{coin, dials, mix, tell}, []kernel.Schema{flags}, nil, true
		d.Grants = map[string][]kernel.Capability{"all": caps("look", "tell"), "read": caps("look")}
		d.Limits.MaxEffects, d.Limits.MaxParses = 64, 64
		if change != nil {
			change(d)
		}
	})
}

// drawn is a plan that is being drawn, with what its steps give.
type drawn struct {
	t       *rapid.T
	steps   []string
	bools   []string // references to booleans
	choices []string
	any     []string // references to anything
}

func (p *drawn) ref(id, path string) string {
	if path == "" {
		return fmt.Sprintf(`{"ref":%q}`, id)
	}
	return fmt.Sprintf(`{"ref":%q,"path":%q}`, id, path)
}

func (p *drawn) pick(refs []string, literals ...string) string {
	if n := len(refs); n > 0 && rapid.IntRange(0, 7).Draw(p.t, "reference") != 1 {
		return refs[rapid.IntRange(0, n-1).Draw(p.t, "which")]
	}
	return rapid.SampledFrom(literals).Draw(p.t, "literal")
}

// add draws one more step. content says how many parses and reads it may still have.
func (p *drawn) add(content *int, writes bool) {
	id := fmt.Sprintf("s%d", len(p.steps))
	add := func(format string, args ...any) { p.steps = append(p.steps, fmt.Sprintf(format, args...)) }
	kinds := []string{"const", "merge", "mix", "mix"}
	if *content > 0 {
		kinds = append(kinds, "coin", "dials", "parse", "parse", "sub")
	}
	if len(p.steps) == 0 && *content > 0 {
		kinds = []string{"dials", "coin", "dials", "const"}
	}
	if writes {
		kinds = append(kinds, "tell", "tell", "tell")
	}
	kind := rapid.SampledFrom(kinds).Draw(p.t, "kind")
	if len(p.any) == 0 && (kind == "merge" || kind == "parse" || kind == "sub") {
		kind = "const"
	}
	switch kind {
	case "const":
		add(`{"kind":"const","id":%q,"value":"a"}`, id)
		p.choices = append(p.choices, p.ref(id, ""))
	case "merge":
		var inputs []string
		for i := range rapid.IntRange(1, 3).Draw(p.t, "inputs") {
			inputs = append(inputs, fmt.Sprintf(`"i%d":%s`, i, rapid.SampledFrom(p.any).Draw(p.t, "input")))
		}
		if len(p.bools) > 0 {
			inputs = append(inputs, `"flag":`+rapid.SampledFrom(p.bools).Draw(p.t, "flag"))
			p.bools = append(p.bools, p.ref(id, "flag"))
		}
		add(`{"kind":"merge","id":%q,"inputs":{%s}}`, id, strings.Join(inputs, ","))
	case "mix", "tell":
		add(`{"kind":"tool","id":%q,"tool":%q,"args":{"a":%s,"b":%s}}`, id, kind, p.pick(p.bools, "true", "false"), p.pick(p.choices, `"a"`, `"b"`))
		if kind == "tell" {
			p.bools = append(p.bools, p.ref(id, ""))
			break
		}
		p.bools, p.choices = append(p.bools, p.ref(id, "x")), append(p.choices, p.ref(id, "y"))
	case "coin":
		*content--
		add(`{"kind":"tool","id":%q,"tool":"coin"}`, id)
		p.bools = append(p.bools, p.ref(id, ""))
	case "dials":
		*content--
		add(`{"kind":"tool","id":%q,"tool":"dials"}`, id)
		p.bools, p.choices = append(p.bools, p.ref(id, "hot")), append(p.choices, p.ref(id, "face"))
	case "parse":
		*content--
		add(`{"kind":"q_parse","id":%q,"source":%s,"schema_ref":"Flags","instruction":"i%s"}`, id, rapid.SampledFrom(p.any).Draw(p.t, "source"), id)
		p.bools, p.choices = append(p.bools, p.ref(id, "u")), append(p.choices, p.ref(id, "v"))
	case "sub":
		*content--
		add(`{"kind":"subkernel","id":%q,"source":%s,"instruction":"i","grant":["look"],"schema_ref":"Flags"}`, id, rapid.SampledFrom(p.any).Draw(p.t, "source"))
		p.bools, p.choices = append(p.bools, p.ref(id, "u")), append(p.choices, p.ref(id, "v"))
	}
	p.any = append(p.any, p.ref(id, ""))
	if r := rapid.IntRange(0, 1).Draw(p.t, "parts"); r == 1 {
		p.any = append(append(p.any, p.bools...), p.choices...)
	}
}

// drawPlan draws a plan whose final value is that of all its steps.
func drawPlan(t *rapid.T, content int, writes bool) (plan string, ids []string) {
	p := &drawn{t: t}
	if content > 0 { // most plans read something first
		p.add(&content, false)
	}
	for range rapid.IntRange(2, 8).Draw(t, "steps") {
		p.add(&content, writes)
	}
	var inputs []string
	for i := range p.steps {
		id := fmt.Sprintf("s%d", i)
		ids, inputs = append(ids, id), append(inputs, fmt.Sprintf(`%q:{"ref":%q}`, id, id))
	}
	p.steps = append(p.steps, fmt.Sprintf(`{"kind":"merge","id":"all","inputs":{%s}}`, strings.Join(inputs, ",")))
	return `{"steps":[` + strings.Join(p.steps, ",") + `],"final":"all"}`, ids
}

// choices are what content decides in one run: a number for each question, of as many
// as there are answers. They count up until all were played.
type choices struct {
	at, of []int
	asked  int
}

// next answers the next question of a run.
func (c *choices) next(of int) int {
	if c.asked == len(c.at) {
		c.at, c.of = append(c.at, 0), append(c.of, of)
	}
	c.asked++
	return c.at[c.asked-1]
}

// count moves to the next run, and is false after the last.
func (c *choices) count() bool {
	c.asked = 0
	for i := len(c.at) - 1; i >= 0; i-- {
		if c.at[i]++; c.at[i] < c.of[i] {
			return true
		}
		c.at, c.of = c.at[:i], c.of[:i]
	}
	return false
}

// play plays a run of the small world to its end. Content decides what reads and
// Readers say; a pure tool is a function of its arguments; people agree.
func (g *gateway) play(plan string, c *choices) kernel.Release {
	g.t.Helper()
	boolean, choice := []string{"false", "true"}, []string{"a", "b", "c"}
	both := func(n int, x, y string) string { return fmt.Sprintf(`{%q:%s,%q:%q}`, x, boolean[n%2], y, choice[n/2]) }
	for {
		stopIf(g.t, len(g.todo) == 0, "nothing is released")
		if g.killed && g.todo[0].Kind != kernel.ReleaseOutcome && g.todo[0].Kind != kernel.ReleaseReply {
			g.crash()
		}
		r := g.todo[0]
		switch r.Kind {
		case kernel.ReleasePlan:
			g.plan(plan)
		case kernel.ReleaseSubPlan:
			// The sub-run asks a Reader about what its planner made up of the content.
			g.subPlan(fmt.Sprintf(`{"steps":[{"kind":"const","id":"c","value":"made up %d"},{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Flags","instruction":"i"}],"final":"p"}`, c.next(2)))
		case kernel.ReleaseParse:
			g.answer(both(c.next(6), "u", "v"), "")
		case kernel.ReleaseItem:
			g.person(kernel.Approve, "")
		case kernel.ReleaseCall:
			switch r.Tool.Name {
			case "coin", "tell":
				if g.settled && r.Tool.Name == "tell" {
					g.result("true")
					break
				}
				g.result(boolean[c.next(2)])
			case "dials":
				g.result(both(c.next(6), "hot", "face"))
			case "items":
				lists := []string{"", "f", "t", "ff", "ft", "tf", "tt"}
				list := strings.NewReplacer("f", `{"hot":false},`, "t", `{"hot":true},`).Replace(lists[c.next(7)])
				g.result(`{"list":[` + strings.TrimSuffix(list, ",") + `]}`)
			case "mix":
				h := fnv.New32a()
				h.Write(r.Arguments)
				g.result(both(int(h.Sum32()%6), "x", "y"))
			}
		case kernel.ReleaseOutcome:
			g.todo = g.todo[1:]
			return r
		default:
			g.todo = g.todo[1:]
		}
	}
}

// For every plan, over all that reads and Readers can say: no value takes more values
// than 2 to the power of its influence. This is what the label promises a rule.
// covers KER-1, KER-7, KER-35, KER-58
func TestInfluenceIsABound(t *testing.T) {
	t.Parallel()
	k := smallKernel(t, nil)
	values, tight := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		plan, ids := drawPlan(t, rapid.IntRange(1, 2).Draw(t, "content"), false)
		seen := make([]map[string]bool, len(ids))
		for i := range seen {
			seen[i] = map[string]bool{}
		}
		labels := map[string]kernel.Label{}
		for c := (&choices{}); ; {
			g := newGateway(t, k)
			g.replay = false
			g.begin("all")
			end := g.play(plan, c)
			stopIf(t, end.End.Status != kernel.Committed, "%s: %+v", plan, end.End)
			var final map[string]json.RawMessage
			noError(t, json.Unmarshal(end.Final, &final))
			for i, id := range ids {
				seen[i][string(final[id])] = true
			}
			g.sameLabels(plan, labels, func(s *kernel.StepRecord) string { return s.Path })
			if !c.count() {
				break
			}
		}
		for i, id := range ids {
			label := labels[id]
			width := bounds(t, plan, id, &label, len(seen[i]))
			values++
			if width > 0 && width < 32 && bits.Len(uint(len(seen[i])-1)) == int(width) {
				tight++
			}
		}
	})
	failIf(t, tight == 0, "no bound was reached: the check shows nothing")
	t.Logf("%d values, of %d the bound is reached", values, tight)
}

// sameLabels finds labels of steps that are others in this run than in those before, by what a
// step is known by.
func (g *gateway) sameLabels(plan string, labels map[string]kernel.Label, by func(*kernel.StepRecord) string) {
	g.t.Helper()
	for _, change := range g.changes {
		for i := range change.Steps {
			s := &change.Steps[i]
			if before, known := labels[by(s)]; s.Done && known && spelled(before) != spelled(s.Label) {
				g.t.Fatalf("%s: the label of %s depends on content: %s, %s", plan, by(s), spelled(before), spelled(s.Label))
			} else if s.Done {
				labels[by(s)] = s.Label
			}
		}
	}
}

// bounds checks that a value took no more values than its label says, and returns the bits of that.
func bounds(t fataler, plan, id string, label *kernel.Label, values int) kernel.Width {
	t.Helper()
	width := label.Width()
	if width < 32 && values > 1<<width {
		t.Fatalf("%s: %s took %d values, and its influence is %s bits: %s", plan, id, values, width, spelled(*label))
	}
	return width
}

// checkOrder checks the order of one run: a call is recorded before it is sent, every call has
// a verdict that allows it, or a person's, nothing is called that the grant does not allow, and
// no limit is passed.
func checkOrder(t fataler, g *gateway) {
	t.Helper()
	sends, allowed := 0, map[string]kernel.Ruling{}
	for i := range g.changes {
		c := &g.changes[i]
		for _, s := range c.Steps {
			if s.Judged != nil {
				allowed[s.Path] = s.Judged.Ruling
			}
		}
		if w := c.Wait; w != nil && w.Kind == kernel.WaitTool {
			sends++
			ruling, judged := allowed[w.Step]
			stopIf(t, !judged || ruling == kernel.Deny, "%s is called without leave", w.Step)
		}
		if got, want := c.Totals, g.changes[0].Start.Limits; got.Effects > want.MaxEffects || got.Parses > want.MaxParses || got.Steps > want.MaxSteps || got.Plans > want.MaxPlans {
			t.Fatalf("beyond a limit: %+v", got)
		}
	}
	calls := 0
	for _, r := range g.sent {
		if r.Kind == kernel.ReleaseCall {
			calls++
			stopIf(t, !r.Allowed(g.kernels[0].Gate()) || r.Allowed(kernel.Gate{}),
				"the gate does not allow %s, or no gate does: %+v", r.Tool.Name, r.Call)
			stopIf(t, !g.changes[0].Start.Grant.HoldsAll(r.Tool.RequiredCaps), "%s is not granted", r.Tool.Name)
		}
	}
	stopIf(t, calls != sends, "%d calls were sent, %d recorded", calls, sends)
}

// What pre-flight is certain of comes true: a call that it denies is never allowed,
// and one that it allows is never denied. What all is known of is certain. Each run keeps the
// order, and the records of the first make the same state.
// covers KER-12, KER-15, KER-21, KER-24, KER-25, KER-32, KER-46, KER-47
func TestPreflightIsRight(t *testing.T) {
	t.Parallel()
	rules := []string{"true", "true", "args.a.influence <= 1", "!args.a.tainted", "!args.b.tainted && args.b.value == \"a\"", "args.a.value", "args.b.influence <= 2 && !args.a.tainted", "run.depth == 0 && args.b.value != \"c\""}
	certain := map[kernel.Ruling]int{}
	property := func(t *rapid.T) {
		var list []kernel.Rule
		for i := range rapid.SampledFrom([]int{1, 2, 3, 0}).Draw(t, "rules") {
			r := kernel.Rule{ID: fmt.Sprintf("r%d", i), Tool: "tell", When: rapid.SampledFrom(rules).Draw(t, "rule")}
			r.Effect = rapid.SampledFrom([]kernel.RuleEffect{kernel.Ask, kernel.Declassify, kernel.Forbid, kernel.Ask}).Draw(t, "effect")
			r.ReadsData = r.Effect != kernel.Declassify && rapid.Bool().Draw(t, "reads data")
			list = append(list, r)
		}
		k := smallKernel(t, func(d *kernel.Definition) { d.Rules = list })
		plan, _ := drawPlan(t, rapid.IntRange(0, 2).Draw(t, "content"), true)
		at := frame(k, "all")
		if rapid.Bool().Draw(t, "a task of a Controller") {
			at.Query = tainted(kernel.Influence{Origin: "task", Bits: 1})
		}
		checked, fault := k.ReadPlan([]byte(plan), at)
		stopIf(t, fault.Code != "", "%s: %+v", plan, fault)
		forecasts := map[string]kernel.Forecast{}
		blocked := false
		for _, f := range checked.Preflight() {
			forecasts[f.Step] = f
			blocked = blocked || f.Certain && f.Verdict.Ruling == kernel.Deny
			if f.Certain {
				certain[f.Verdict.Ruling]++
			}
			known := !slices.ContainsFunc(f.Arguments, func(a kernel.Argument) bool { return a.Value == nil })
			stopIf(t, known && !f.Certain && !strings.Contains(plan, "subkernel"),
				"%s: all is known of %s, and it is not certain", plan, f.Step)
		}
		for c := (&choices{}); ; {
			g := newGateway(t, k)
			g.replay, g.task = len(c.at) == 0, at.Query
			g.begin("all")
			end := g.play(plan, c)
			checkOrder(t, g)
			stopIf(t, blocked && (end.End.Status != kernel.Blocked || g.calls() != ""),
				"%s: a call is certain to be denied, and the run is %s after %q", plan, end.End.Status, g.calls())
			for _, change := range g.changes {
				for _, s := range change.Steps {
					f, foreseen := forecasts[s.Path]
					if s.Judged == nil || !foreseen || !f.Certain {
						continue
					}
					stopIf(t, s.Judged.Ruling != f.Verdict.Ruling || s.Judged.Ruling != kernel.Deny && !sameVerdict(*s.Judged, f.Verdict),
						"%s with %v: %s was foreseen as %+v and is %+v", plan, list, s.Path, f.Verdict, *s.Judged)
				}
			}
			if blocked || !c.count() {
				return
			}
		}
	}
	rapid.Check(t, property)
	for rounds := 1; rounds < 10 && len(certain) < 3; rounds++ { // what is drawn is chance
		rapid.Check(t, property)
	}
	for _, r := range []kernel.Ruling{kernel.Deny, kernel.NeedPerson, kernel.Allow} {
		failIf(t, certain[r] == 0, "nothing was certain to be %s: the check shows nothing", r.Word())
	}
}

// Nothing that content says is seen by the planner, or is in the open part of a
// record: codes carry no data.
// covers KER-3, KER-4, KER-5, KER-9, KER-10, KER-16, KER-17, KER-19, KER-55, KER-58, C-21, C-22, A-CANARY
func TestCanaries(t *testing.T) {
	t.Parallel()
	const canary = "XYZZY-forward-everything"
	plans := []string{mailPlan, readParse, steps(contacts, event(`{"ref":"contacts","path":"contacts.0.name"}`, `{"ref":"contacts","path":"contacts.0.email"}`)),
		steps(inbox, strings.ReplaceAll(sub(""), `{"ref":"c"}`, `{"ref":"inbox"}`)), steps(inbox, strings.ReplaceAll(sub(`,"schema_ref":"Slot"`), `{"ref":"c"}`, `{"ref":"inbox"}`))}
	k := mustKernel(t, nil)
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		g := begun(t, k)
		for range 40 {
			if len(g.todo) == 0 {
				break
			}
			r := g.todo[0]
			switch r.Kind {
			case kernel.ReleasePlan:
				g.plan(rapid.SampledFrom(plans).Draw(t, "plan"))
			case kernel.ReleaseSubPlan:
				g.subPlan(rapid.SampledFrom([]string{steps(inbox), steps(`{"kind":"const","id":"c","value":"` + canary + `"}`), `{"steps":[{"kind":"` + canary + `"}],"final":"` + canary + `"}`, `"` + canary + `"`}).Draw(t, "sub-plan"))
			case kernel.ReleaseParse:
				if strings.Contains(string(r.Content), canary) {
					read++
				}
				g.answer(rapid.SampledFrom([]string{`{"text":"` + canary + `"}`, `{"` + canary + `":"x"}`, canary, `{"urgent":true,"slot":"` + canary + `","n":1}`}).Draw(t, "answer"),
					rapid.SampledFrom([]bcp.Code{"", "", bcp.Rejected, bcp.NotEnoughInformation}).Draw(t, "code"))
			case kernel.ReleaseCall:
				results := []string{`"result":` + strings.ReplaceAll(mail, "at 3pm", canary), `"result":{"contacts":[{"name":"` + canary + `","email":"` + canary + `"}]}`, `"error":"` + canary + `"`, `"result":{"` + canary + `":1}`, `"result":` + sent}
				g.outcome(g.next(kernel.ReleaseCall), rapid.SampledFrom(results).Draw(t, "outcome"))
			default:
				g.todo = g.todo[1:]
			}
		}
		for _, r := range g.sent {
			stopIf(t, r.Kind == kernel.ReleasePlan && strings.Contains(string(r.Body), canary), "the planner is given %s", r.Body)
			stopIf(t, (r.Kind == kernel.ReleaseParse || r.Kind == kernel.ReleaseSubPlan) && strings.Contains(string(r.Body)+r.Instruction, "Do it."),
				"a Reader is given the task: %s", r.Body)
		}
		for _, record := range g.records {
			stopIf(t, strings.Contains(string(record[0]), canary), "the open record has it: %s", record[0])
		}
		stopIf(t, strings.Contains(g.events(), canary), "the events have it: %s", g.events())
	})
	failIf(t, read == 0, "no Reader was given it: the check shows nothing")
}
