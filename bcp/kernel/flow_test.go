package kernel_test

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// items is a list that content makes.
var items = kernel.Tool{Service: "s", Name: "items", Level: kernel.Read, RequiredCaps: caps("look"), Input: mustType(shape()),
	Output: mustType(shape(`list:{"type":"array","maxItems":2,"items":` + shape("hot:boolean") + `}`))}

// steered is the small world in which content may steer.
func steered(t fataler, change func(*kernel.Definition)) *kernel.Kernel {
	return smallKernel(t, func(d *kernel.Definition) {
		for i := range d.Tools {
			d.Tools[i].Idempotency = kernel.ByKey // a call is made again after a crash
		}
		d.Tools = append(d.Tools, items)
		d.Rules = []kernel.Rule{{ID: "all", Effect: kernel.Declassify, Tool: kernel.AnyTool, When: "true", ControlBits: kernel.MaxControlBits}}
		d.Limits.ControlBits = 40
		if change != nil {
			change(d)
		}
	})
}

// flowPlan draws plans with steps in steps.
type flowPlan struct {
	drawn
	ids     int
	content int
	faces   []string // references to enums
	lists   []string
	values  map[string][]string // of those enums that have not three
}

// inside draws steps in a step, of which nothing is seen outside.
func (p *flowPlan) inside(level int, more ...string) string {
	was, outer := *p, p.steps
	p.steps, p.bools, p.faces, p.any = nil, slices.Clone(p.bools), slices.Clone(p.faces), slices.Clone(p.any)
	for range rapid.IntRange(1, 2).Draw(p.t, "steps") {
		p.add(level)
	}
	inner := strings.Join(append(p.steps, more...), ",")
	p.steps, p.bools, p.faces, p.any, p.lists = outer, was.bools, was.faces, was.any, was.lists
	return "[" + inner + "]"
}

func (p *flowPlan) add(level int) {
	p.ids++
	id := fmt.Sprintf("s%d", p.ids)
	add := func(format string, args ...any) { p.steps = append(p.steps, fmt.Sprintf(format, args...)) }
	kinds := []string{"tell", "tell", "tell"}
	if p.content > 0 {
		kinds = append(kinds, "coin")
	}
	if p.content > 1 {
		kinds = append(kinds, "dials", "items", "parse")
	}
	if level < 3 {
		kinds = append(kinds, "when", "when", "each", "each")
	}
	kind := rapid.SampledFrom(kinds).Draw(p.t, "kind")
	switch {
	case len(p.steps) == 0 && level == 0:
		kind = rapid.SampledFrom([]string{"items", "dials"}).Draw(p.t, "first")
	case kind == "when" && len(p.bools)+len(p.faces) == 0, kind == "each" && len(p.lists) == 0, kind == "parse" && len(p.any) == 0:
		kind = "tell"
	}
	switch kind {
	case "tell":
		add(`{"kind":"tool","id":%q,"tool":"tell","args":{"a":%s,"b":%q}}`, id, p.pick(p.bools, "true"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(p.t, "constant"))
	case "coin":
		p.content--
		add(`{"kind":"tool","id":%q,"tool":"coin"}`, id)
		p.bools, p.any = append(p.bools, p.ref(id, "")), append(p.any, p.ref(id, ""))
	case "dials":
		p.content -= 2
		add(`{"kind":"tool","id":%q,"tool":"dials"}`, id)
		p.bools, p.faces, p.any = append(p.bools, p.ref(id, "hot")), append(p.faces, p.ref(id, "face")), append(p.any, p.ref(id, ""))
	case "items":
		p.content -= 2
		add(`{"kind":"tool","id":%q,"tool":"items"}`, id)
		p.lists, p.any = append(p.lists, p.ref(id, "list")), append(p.any, p.ref(id, ""))
	case "parse":
		p.content -= 2
		add(`{"kind":"q_parse","id":%q,"source":%s,"schema_ref":"Flags","instruction":"i"}`, id, rapid.SampledFrom(p.any).Draw(p.t, "source"))
		p.bools, p.faces = append(p.bools, p.ref(id, "u")), append(p.faces, p.ref(id, "v"))
	case "when":
		p.when(id, level)
	case "each":
		p.each(id, level)
	}
}

func (p *flowPlan) when(id string, level int) {
	refs, values := p.bools, []string{"true", "false"}
	if len(p.faces) > 0 && (len(refs) == 0 || rapid.Bool().Draw(p.t, "by a choice")) {
		refs, values = p.faces, []string{"a", "b", "c"}
	}
	on := rapid.SampledFrom(refs).Draw(p.t, "on")
	if few := p.values[on]; few != nil {
		values = few
	}
	var yields []string
	yield := fmt.Sprintf("y%d", p.ids)
	branch := func() string {
		yields = append(yields, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(p.t, "yield"))
		return p.inside(level+1, fmt.Sprintf(`{"kind":"const","id":%q,"value":%q}`, yield, yields[len(yields)-1]))
	}
	var cases []string
	for _, value := range values[:rapid.IntRange(1, len(values)).Draw(p.t, "cases")] {
		cases = append(cases, fmt.Sprintf("%q:%s", value, branch()))
	}
	end := ""
	if len(cases) == len(values) || rapid.Bool().Draw(p.t, "else") {
		if len(cases) < len(values) {
			end = `,"else":` + branch()
		}
		end += fmt.Sprintf(`,"yields":{"y":{"ref":%q}}`, yield)
		slices.Sort(yields)
		p.faces, p.values[p.ref(id, "y")] = append(p.faces, p.ref(id, "y")), slices.Compact(yields)
	}
	p.steps = append(p.steps, fmt.Sprintf(`{"kind":"when","id":%q,"on":%s,"cases":{%s}%s}`, id, on, strings.Join(cases, ","), end))
	p.any = append(p.any, p.ref(id, ""))
}

func (p *flowPlan) each(id string, level int) {
	as := fmt.Sprintf("e%d", p.ids)
	over := rapid.SampledFrom(p.lists).Draw(p.t, "over")
	bools := p.bools
	p.bools = append(slices.Clone(bools), p.ref(as, "hot"))
	content := p.content
	p.content = min(content, 1) // for each element
	do := p.inside(level + 1)
	p.bools, p.content = bools, content-2*(min(content, 1)-p.content)
	p.steps = append(p.steps, fmt.Sprintf(`{"kind":"each","id":%q,"over":%s,"as":%q,"max":%d,"on_more":%q,"do":%s,"collect":{"hot":%s}}`,
		id, over, as, rapid.IntRange(1, 3).Draw(p.t, "max"), rapid.SampledFrom([]string{"stop", "first"}).Draw(p.t, "on more"), do, p.ref(as, "hot")))
	p.any = append(p.any, p.ref(id, ""))
}

// plan draws one.
func (p *flowPlan) plan() (plan string, ids []string) {
	for range rapid.IntRange(3, 6).Draw(p.t, "steps") {
		p.add(0)
	}
	var inputs []string
	for _, step := range p.steps {
		var s struct{ ID string }
		if err := json.Unmarshal([]byte(step), &s); err != nil {
			p.t.Fatalf("%v: %s", err, step)
		}
		ids, inputs = append(ids, s.ID), append(inputs, fmt.Sprintf(`%q:{"ref":%q}`, s.ID, s.ID))
	}
	p.steps = append(p.steps, fmt.Sprintf(`{"kind":"merge","id":"all","inputs":{%s}}`, strings.Join(inputs, ",")))
	return `{"steps":[` + strings.Join(p.steps, ",") + `],"final":"all"}`, ids
}

// trace is what a run did: its calls in order, with what the plan says of them.
func (g *gateway) trace() string {
	var calls []string
	for _, r := range g.sent {
		if r.Kind != kernel.ReleaseCall {
			continue
		}
		var args struct{ B string }
		err := json.Unmarshal(r.Arguments, &args)
		noError(g.t, err)
		calls = append(calls, r.Tool.Name+" "+args.B)
	}
	return strings.Join(calls, ", ")
}

// effects are the keys of its calls, each once.
func (g *gateway) effects() string {
	var keys []string
	for _, r := range g.sent {
		if key := r.Wait.Step + " " + fmt.Sprintf("%x", r.Wait.Key[:4]); r.Kind == kernel.ReleaseCall && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, ", ")
}

// mostRuns is how many answers of one plan are played: few have more.
const mostRuns = 200

// For one plan, whatever all reads and Readers say, there are at most 2^control traces of
// calls; what each run paid for its own is a prefix code; no value takes more values than 2
// to the power of its influence; and labels do not depend on content.
// covers KER-1, KER-35, KER-58
func TestSteeringIsPriced(t *testing.T) {
	t.Parallel()
	k := steered(t, nil)
	plans, steers, tight := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := &flowPlan{drawn: drawn{t: t}, content: 4, values: map[string][]string{}}
		plan, ids := p.plan()
		at := frame(k, "all")
		at.ControlBits = 40
		checked, fault := k.ReadPlan([]byte(plan), at)
		if fault.Code == kernel.ControlTooWide {
			return
		} else if fault.Code != "" {
			t.Fatalf("%s: %+v", plan, fault)
		}
		worst := checked.Worst()
		paid, values, labels := map[string]bcp.Bits{}, map[string]map[string]bool{}, map[string]kernel.Label{}
		runs := 0
		for c := (&choices{}); ; {
			g := newGateway(t, k)
			g.settled = true     // nothing reads it: each call would double the runs of a plan, and tell nothing more apart
			g.replay = runs == 1 // records make the same state, and are decided again as they were
			g.begin("all")
			end := g.play(plan, c)
			if runs == 1 { // killed after each line
				again := begun(t, k)
				again.killed, again.settled = true, true
				if end := again.play(plan, &choices{at: c.at, of: c.of}); string(end.Final) != string(g.sent[len(g.sent)-1].Final) || again.effects() != g.effects() {
					t.Fatalf("%s: killed, it ends as %+v after\n%s, and without after\n%s", plan, end.End, again.effects(), g.effects())
				}
			}
			stopIf(t, end.End.Status != kernel.Committed && end.End.Code != kernel.LimitElements, "%s: %+v", plan, end.End)
			trace, spent := g.trace()+" "+string(end.End.Status), g.changes[len(g.changes)-1].Totals.Control
			if before, seen := paid[trace]; !seen || spent < before {
				paid[trace] = spent
			}
			stopIf(t, spent > worst, "%s: paid %d, and the worst is %d", plan, spent, worst)
			var final map[string]json.RawMessage
			if err := json.Unmarshal(end.Final, &final); err != nil && end.End.Status == kernel.Committed {
				t.Fatal(err)
			}
			for id, value := range final {
				if values[id] == nil {
					values[id] = map[string]bool{}
				}
				values[id][string(value)] = true
			}
			g.sameLabels(plan, labels, func(s *kernel.StepRecord) string { return s.Path + " " + string(s.Kind) })
			if runs++; !c.count() || runs == mostRuns {
				break
			}
		}
		plans++
		bits, sum := float64(worst)/float64(bcp.Bit), 0.0
		for _, spent := range paid {
			sum += math.Exp2(-float64(spent) / float64(bcp.Bit))
		}
		switch n := float64(len(paid)); {
		case n > math.Exp2(bits)*(1+1e-6), sum > 1+1e-6:
			t.Fatalf("%s: %d traces, and control is %.3f bits; their weights add up to %.6f: %v", plan, len(paid), bits, sum, paid)
		case n > 1:
			steers++
			if n > math.Exp2(bits)*0.99 {
				tight++
			}
		}
		for _, id := range ids {
			label, known := labels[id+" end"]
			for _, kind := range []string{"tool", "q_parse"} {
				if !known {
					label, known = labels[id+" "+kind]
				}
			}
			bounds(t, plan, id, &label, len(values[id]))
		}
	})
	failIf(t, plans >= 50 && (steers == 0 || tight == 0),
		"of %d plans %d were steered, %d as much as they paid for: the check shows nothing", plans, steers, tight)
	t.Logf("%d plans, %d steered, %d as much as they paid for", plans, steers, tight)
}

const (
	look    = `{"kind":"tool","id":"look","tool":"coin"}`
	list    = `{"kind":"tool","id":"list","tool":"items"}`
	face    = `{"kind":"tool","id":"dials","tool":"dials"}`
	telling = `{"kind":"tool","id":"tell","tool":"tell","args":{"a":true,"b":"a"}}`
)

func when(on, more, steps string) string {
	return fmt.Sprintf(`{"kind":"when","id":"w","on":{"ref":%s},"cases":{%s}%s}`, on, steps, more)
}

func each(more, steps string) string {
	return fmt.Sprintf(`{"kind":"each","id":"loop","over":{"ref":"list","path":"list"},"as":"e","do":[%s],%s}`, steps, more)
}

// What is wrong with a when or an each is said before anything runs, at its step; a limit
// holds at it, and not one past it.
// covers KER-32, KER-53
func TestSteeringIsChecked(t *testing.T) {
	t.Parallel()
	loop := func(n int) string { return each(fmt.Sprintf(`"max":%d`, n), telling) }
	once, three := when(`"look"`, "", `"true":[`+telling+`]`), `"max":1,"on_more":"first"`
	nested := telling
	for level := range 4 {
		nested = strings.ReplaceAll(fmt.Sprintf(`{"kind":"when","id":"w%d","on":{"ref":"look"},"cases":{"true":[%s]}}`, level, nested), "\n", "")
	}
	enum := func(values int) *kernel.Kernel {
		var words []string
		for i := range values {
			words = append(words, fmt.Sprintf("%q", fmt.Sprintf("v%d", i)))
		}
		return steered(t, func(d *kernel.Definition) {
			d.Tools = append(d.Tools, kernel.Tool{Service: "s", Name: "pick", Level: kernel.Read, RequiredCaps: caps("look"), Input: mustType(shape()), Output: mustType(`{"enum":[` + strings.Join(words, ",") + `]}`)})
		})
	}
	pick := `{"kind":"tool","id":"look","tool":"pick"}`
	doubled := look // as wide as 2^40 values
	for i := range 40 {
		of := "look"
		if i > 0 {
			of = fmt.Sprintf("m%d", i-1)
		}
		doubled += fmt.Sprintf(`,{"kind":"merge","id":"m%d","inputs":{"x":{"ref":%q},"y":{"ref":%[2]q}}}`, i, of)
	}
	bare := func(bits int) func(*kernel.Definition) {
		return func(d *kernel.Definition) { d.Limits.ControlBits = bits }
	}
	two := strings.ReplaceAll(strings.ReplaceAll(once, `"w"`, `"w2"`), `"tell","tool"`, `"tell2","tool"`)
	for name, test := range map[string]struct {
		kernel *kernel.Kernel
		plan   string
		code   kernel.Code
		step   string
	}{
		"not asked for":                   {steered(t, bare(0)), steps(look, once), kernel.ControlNotAllowed, "w"},
		"not asked for, and wrong":        {steered(t, bare(0)), steps(look, when(`"look"`, "", `"true":[{"kind":"x","id":"y"}]`)), kernel.ControlNotAllowed, "y"},
		"not asked for, and deep":         {steered(t, bare(0)), steps(look, strings.Replace(nested, `"w3"`, `"w"`, 1)), kernel.ControlNotAllowed, "w0"},
		"one bit":                         {steered(t, bare(1)), steps(look, once), "", ""},
		"two, of one":                     {steered(t, bare(1)), steps(look, once, two), kernel.ControlTooWide, ""},
		"two":                             {steered(t, bare(2)), steps(look, once, two), "", ""},
		"three levels":                    {steered(t, nil), steps(look, nested[len(`{"kind":"when","id":"w3","on":{"ref":"look"},"cases":{"true":[`):len(nested)-3]), "", ""},
		"four levels":                     {steered(t, nil), steps(look, nested), kernel.Malformed, "w0"},
		"by a choice of sixteen":          {enum(16), steps(pick, when(`"look"`, "", `"v1":[]`)), "", ""},
		"by one of seventeen":             {enum(17), steps(pick, when(`"look"`, "", `"v1":[]`)), kernel.TypeMismatch, "w"},
		"by an object":                    {steered(t, nil), steps(face, when(`"dials"`, "", `"true":[]`)), kernel.TypeMismatch, "w"},
		"a case that is no value":         {steered(t, nil), steps(look, when(`"look"`, "", `"yes":[]`)), kernel.TypeMismatch, "w"},
		"no case":                         {steered(t, nil), steps(look, when(`"look"`, "", ``)), kernel.Malformed, "w"},
		"over no list":                    {steered(t, nil), steps(strings.ReplaceAll(look, `"look"`, `"list"`), strings.Replace(loop(1), `,"path":"list"`, "", 1)), kernel.TypeMismatch, "loop"},
		"64 elements":                     {steered(t, nil), steps(list, loop(64)), "", ""},
		"65 elements":                     {steered(t, nil), steps(list, loop(65)), kernel.Malformed, "loop"},
		"seen outside":                    {steered(t, nil), steps(look, once, mergeOf("tell")), kernel.UnknownRef, "m"},
		"seen outside by a path":          {steered(t, nil), steps(look, once, mergeOf("w/true/tell")), kernel.UnknownRef, "m"},
		"returned by a path":              {steered(t, nil), strings.Replace(steps(look, once), `"final":"w"`, `"final":"w/true/tell"`, 1), kernel.NoFinal, ""},
		"an element outside":              {steered(t, nil), steps(list, loop(1), mergeOf("e")), kernel.UnknownRef, "m"},
		"an id that is seen":              {steered(t, nil), steps(look, telling, once), kernel.DuplicateID, "tell"},
		"the same id in two cases":        {steered(t, nil), steps(look, when(`"look"`, "", `"true":[`+telling+`],"false":[`+telling+`]`)), "", ""},
		"yields of two types":             {steered(t, nil), steps(look, when(`"look"`, `,"yields":{"y":{"ref":"c"}}`, `"true":[{"kind":"const","id":"c","value":1}],"false":[{"kind":"const","id":"c","value":true}]`)), kernel.TypeMismatch, "w"},
		"yields that one case has not":    {steered(t, nil), steps(look, when(`"look"`, `,"yields":{"y":{"ref":"c"}}`, `"true":[{"kind":"const","id":"c","value":1}]`)), kernel.UnknownRef, "w"},
		"yields of merges of merges":      {steered(t, nil), steps(doubled, when(`"look"`, `,"yields":{"y":{"ref":"m39"}}`, `"true":[]`)), kernel.TypeMismatch, "w"},
		"yields of such a few":            {steered(t, nil), steps(doubled, when(`"look"`, `,"yields":{"y":{"ref":"m9"}}`, `"true":[]`)), "", ""},
		"a type that an element has not":  {steered(t, nil), steps(list, each(three, strings.Replace(telling, `"b":"a"`, `"b":{"ref":"e","path":"hot"}`, 1))), kernel.TypeMismatch, "tell"},
		"steps beyond those of one plan":  {steered(t, nil), steps(list, each(three, strings.Repeat(telling+",", 256)+telling)), kernel.TooLarge, ""},
		"constants, for nothing":          {steered(t, bare(1)), steps(`{"kind":"const","id":"list","value":["a","b","c"]}`, strings.Replace(strings.Replace(loop(9), `,"path":"list"`, "", 1), `"b":"a"`, `"b":{"ref":"e"}`, 1)), "", ""},
		"one constant is of another type": {steered(t, bare(1)), steps(`{"kind":"const","id":"list","value":["a","b","d"]}`, strings.Replace(strings.Replace(loop(9), `,"path":"list"`, "", 1), `"b":"a"`, `"b":{"ref":"e"}`, 1)), kernel.TypeMismatch, "tell"},
	} {
		at := frame(test.kernel, "all")
		at.ControlBits = test.kernel.Definition().Limits.ControlBits
		checked, fault := test.kernel.ReadPlan([]byte(test.plan), at)
		failIf(t, fault.Code != test.code || fault.Step != test.step || (checked == nil) != (test.code != ""),
			"%s: got %+v, want %s %s: %s", name, fault, test.code, test.step, test.plan)
		failIf(t, test.code == kernel.ControlTooWide && fault.Bits != 2*bcp.Bit, "%s: the figure is %s", name, fault.Bits)
	}
}

func mergeOf(id string) string {
	return fmt.Sprintf(`{"kind":"merge","id":"m","inputs":{"x":{"ref":%q}}}`, id)
}

// A call that content steers to needs a rule that says how many bits it takes, also if its
// arguments are constants; a path that is certain to be denied is told before the first
// call; what was paid is in the records, and the requester is charged with it.
// covers KER-31, KER-32, KER-44, KER-106
func TestSteeredCallsNeedARule(t *testing.T) {
	t.Parallel()
	rule := func(effect kernel.RuleEffect, when string, bits int) func(*kernel.Definition) {
		return func(d *kernel.Definition) {
			d.Rules = []kernel.Rule{{ID: "r", Effect: effect, Tool: "tell", When: when, ControlBits: bits}}
			d.GrantControl = map[string]int{"read": 0}
		}
	}
	plan := steps(look, face, when(`"look"`, "", `"true":[{"kind":"when","id":"v","on":{"ref":"dials","path":"face"},"cases":{"a":[`+telling+`],"b":[]}}]`))
	for name, test := range map[string]struct {
		rule func(*kernel.Definition)
		told kernel.Code
	}{
		"no rule":                                {rule(kernel.Forbid, "false", 0), kernel.DeniedPath},
		"a rule that does not say":               {rule(kernel.Declassify, "true", 0), kernel.DeniedPath},
		"a rule for too few bits":                {rule(kernel.Declassify, "true", 2), kernel.DeniedPath},
		"a rule for as many":                     {rule(kernel.Declassify, "true", 3), ""},
		"a rule that reads how many":             {rule(kernel.Declassify, "control.bits <= 3 && control.tainted && args.b.value == 'a'", 3), ""},
		"a rule about where constants come from": {rule(kernel.Declassify, "!args.b.tainted", 3), kernel.DeniedPath},
		"a rule about another constant":          {rule(kernel.Declassify, "args.b.value == 'b'", 3), kernel.DeniedPath},
		"a rule that forbids by control":         {rule(kernel.Forbid, "control.bits > 2", 0), kernel.DeniedPath},
		"a person":                               {rule(kernel.Ask, "control.tainted", 0), ""},
	} {
		g := begun(t, steered(t, test.rule))
		c := g.plan(plan)
		if told := c.Told; test.told != "" {
			failIf(t, told == nil || told.Code != test.told || told.Step != "tell" || told.Control != nil || g.calls() != "",
				"%s: told %+v after %q", name, told, g.calls())
			continue
		} else if told != nil {
			t.Errorf("%s: %+v", name, told)
			continue
		}
		g.result("true", `{"hot":true,"face":"a"}`)
		if strings.Contains(name, "person") {
			g.person(kernel.Approve, "")
		}
		last := g.result("true")
		g.end(kernel.Committed, "")
		want := bcp.ChoiceBits(2) + bcp.ChoiceBits(3)
		got := charged(g.state, &last)
		failIf(t, last.Totals.Control != want || got != bcp.Bit+want, "%s: paid %s, the requester is charged %s", name, last.Totals.Control, got)
		forks, calls := 0, 0
		for _, c := range g.changes {
			for _, s := range c.Steps {
				if s.Bits > 0 {
					forks++
				}
				if s.Judged != nil && s.Control != nil && s.Path == "w/true/v/a/tell" && s.Control.Width() == 3 {
					calls++
				}
			}
		}
		failIf(t, forks != 2 || calls != 1,
			"%s: %d records with what was paid, %d calls with what steered them", name, forks, calls)
	}
	g := newGateway(t, steered(t, rule(kernel.Declassify, "true", 3)))
	g.begin("read") // of which the grant has none
	c := g.plan(steps(look, when(`"look"`, "", `"true":[]`)))
	failIf(t, c.Told == nil || c.Told.Code != kernel.ControlNotAllowed, "a grant with fewer bits: %+v", c.Told)
	g = begun(t, steered(t, func(d *kernel.Definition) { d.Limits.ControlBits = 3 }))
	fails := steps(list, each(`"max":2`, telling), strings.ReplaceAll(`{"kind":"tool","id":"x","tool":"tell","args":{"a":{"ref":"list","path":"list.1.hot"},"b":"a"}}`, "\n", ""))
	c = g.plan(fails, `{"list":[]}`)
	stopIf(t, c.Told == nil || c.Told.Code != kernel.IndexMissing, "got %+v", c)
	c = g.plan(fails)
	failIf(t, c.Told == nil || c.Told.Code != kernel.ControlTooWide, "a second plan has what the first left: %+v", c.Told)
}

// Sub-runs in a loop, and one behind what it collected, go on after a kill where they
// were; what they call is steered as they are.
// covers KER-24, KER-34
func TestSubRunsAreSteered(t *testing.T) {
	t.Parallel()
	sub := func(source, path string) string {
		return fmt.Sprintf(`{"kind":"subkernel","id":"sub","source":{"ref":%q%s},"instruction":"i","grant":["look"],"schema_ref":"Flags"}`, source, path)
	}
	plan := steps(list, each(`"max":2,"collect":{"u":{"ref":"sub","path":"u"}}`, sub("e", "")), strings.Replace(when(`"loop","path":"u.0"`, "", `"true":[`+sub("list", "")+`]`), `"id":"w"`, `"id":"v"`, 1))
	c := &choices{at: []int{6}, of: []int{7}} // two elements
	for range 30 {
		ends := [2]string{}
		for i, killed := range []bool{false, true} {
			g := begun(t, steered(t, nil))
			g.killed, c.asked = killed, 0
			end := g.play(plan, c)
			ends[i] = string(end.Final) + g.effects()
			stopIf(t, end.End.Status != kernel.Committed, "%+v", end.End)
			for _, change := range g.changes {
				s := change.Sub
				failIf(t, s != nil && (s.Steer == nil || !s.Steer.Tainted()), "a sub-run is steered wrongly: %+v", s)
			}
		}
		stopIf(t, ends[0] != ends[1], "killed, it ends as %s, and else as %s", ends[1], ends[0])
		if !c.count() {
			return
		}
	}
}

// A list that is longer than its each takes stops the run before anything of it is done.
// covers KER-24
func TestLongListsStop(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]kernel.Status{"stop": kernel.Aborted, "first": kernel.Committed} {
		g := planned(t, steered(t, nil), steps(list, each(fmt.Sprintf(`"max":1,"on_more":%q,"collect":{"hot":{"ref":"e","path":"hot"}}`, more), telling)), `{"list":[{"hot":true},{"hot":false}]}`)
		if want == kernel.Aborted {
			g.end(want, kernel.LimitElements)
			continue
		}
		g.result("true")
		end := g.end(want, "")
		failIf(t, string(end.Final) != `{"hot":[true]}`, "got %s", end.Final)
	}
}

// What an each collects is not put together where it is larger than a value may be:
// 100 names of 64 mails would be 1.5 GB here, in each of their spellings. It is measured alone.
func TestCollectedIsBounded(t *testing.T) {
	k := mustKernel(t, func(d *kernel.Definition) { d.Limits.ControlBits = 1 })
	for names, want := range map[int]kernel.Status{1: kernel.Committed, 100: kernel.Aborted} {
		var collect []string
		for i := range names {
			collect = append(collect, fmt.Sprintf(`"n%d":{"ref":"m"}`, i))
		}
		g := planned(t, k, steps(inbox, `{"kind":"const","id":"list","value":[1`+strings.Repeat(",1", 63)+`]}`,
			`{"kind":"each","id":"loop","over":{"ref":"list"},"as":"e","max":64,"do":[{"kind":"merge","id":"m","inputs":{"a":{"ref":"inbox"}}}],"collect":{`+strings.Join(collect, ",")+`}}`))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g.result(strings.Replace(mail, "at 3pm", strings.Repeat("x", 2400*names), 1))
		runtime.ReadMemStats(&after)
		end, made := g.next(kernel.ReleaseOutcome).End, (after.TotalAlloc-before.TotalAlloc)>>20
		failIf(t, end.Status != want || made > 128 || want == kernel.Aborted && end.Code != kernel.LimitValueBytes, "%d names: %s %s, %d MB", names, end.Status, end.Code, made)
	}
}
