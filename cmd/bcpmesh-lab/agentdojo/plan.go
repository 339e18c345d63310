package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ask is a question to the Reader: for an argument of a call, or for what the user wants to know.
type ask struct {
	Argument string // empty: the user wants to know
	Value    jsontext.Value
	Format   *format
}

// scripted is a plan. Retry is the one after an error, if it is another.
type scripted struct {
	Plan, Retry jsontext.Value
	Asks        map[string]*ask // by instruction
	// Whole says that no format carries what the user wants to know: the user reads the whole output.
	Whole bool
	// Why says why a planner that reads the task alone could not make it, or why it cannot end well; empty if it can.
	Why string
}

var word = regexp.MustCompile(`[A-Za-z0-9]{3,}`)

// mentions is the kernel's task.mentions for a text: whether it stands in a task as whole words.
func mentions(task, text string) bool {
	const around = `[.,;:!?"'()<>]*`
	return text != "" && regexp.MustCompile(`(?i)(^|[ ,;])`+around+regexp.QuoteMeta(text)+around+`([ ,;]|$)`).MatchString(strings.Join(strings.Fields(task), " "))
}

// known reports whether a planner that reads the user's text alone can write an argument: it stands there, or is made of
// words that do. What decides who gets what has to stand there as it is.
func (s *suite) known(tool, name string, arg taskArg, task string) bool {
	if arg.From == "data" {
		return false
	}
	critical := slices.Contains(s.tool(tool).Critical, name)
	for _, part := range scalarTexts(arg.Value) {
		switch {
		case critical && !mentions(task, part):
			return false
		case arg.From == "prompt":
			continue
		}
		for _, w := range word.FindAllString(part, -1) {
			if !strings.Contains(strings.ToLower(task), strings.ToLower(w)) {
				return false
			}
		}
	}
	return true
}

// drafter makes the plan of a task.
type drafter struct {
	suite *suite
	task  *task
	plan  *scripted
	steps []any
	// source is the step that read last, lists are what the steps before returned.
	source string
	lists  map[string][]string
	whys   []string
	asked  map[string]int // by tool: calls of which a Reader says who gets what, or what is read
	world  world          // in which nobody attacks
}

// buildPlan makes the plan of a task out of its ground truth. There always is one: where no format carries a value, it asks for
// a text, and fails there.
func (s *suite) buildPlan(t *task) *scripted {
	d := &drafter{suite: s, task: t, plan: &scripted{Asks: map[string]*ask{}}, lists: map[string][]string{}, asked: map[string]int{}, world: s.newWorld("")}
	final, before := "", []any(nil)
	if t.Why != "" {
		d.whys = append(d.whys, t.Why)
	}
	for i := 0; i < len(t.Calls); i++ {
		c := t.Calls[i]
		if t.Branch && before == nil && d.source != "" && s.tool(c.Tool).Level == "write" {
			d.ask("", jsontext.Value("true"), s.named("Yes"))
			before, d.steps = d.steps, nil
		}
		if n := d.loop(i); n > 0 {
			final, i = d.source, i+n-1
			continue
		}
		args, looped := map[string]any{}, false
		for _, name := range sortedKeys(c.Args) {
			before := len(d.plan.Asks)
			args[name] = d.argument(&c, name)
			looped = looped || len(d.plan.Asks) > before && (s.tool(c.Tool).Level == "read" || slices.Contains(s.tool(c.Tool).Critical, name))
		}
		final = fmt.Sprintf("c%d", i)
		d.steps = append(d.steps, map[string]any{"kind": "tool", "id": final, "tool": c.Tool, "args": args})
		if looped {
			if d.asked[c.Tool]++; d.asked[c.Tool] == 2 && !t.Known {
				d.whys = append(d.whys, fmt.Sprintf("`%s` is called for each of what was read, and %s", c.Tool, noList))
			}
		}
		if s.tool(c.Tool).Level == "read" {
			d.source = final
			d.lists[final] = s.toolOutput(d.world, c.Tool, s.argValues(d.world, c.Args)).Items
		}
	}
	if t.Output != "" && d.source != "" {
		inputs := map[string]any{}
		for i, part := range listElements(s.outputParts(t.Output)) {
			if f := s.formatFor(part, false, func(f *format) bool { return f.fits("") }); f != nil {
				inputs[fmt.Sprintf("p%02d", i)] = d.ask("", part, f)
				continue
			}
			d.plan.Whole, final = true, d.source
		}
		if !d.plan.Whole {
			final = "said"
			d.steps = append(d.steps, map[string]any{"kind": "merge", "id": final, "inputs": inputs})
		}
	}
	if before != nil { // what follows is done if the Reader says so
		yes := before[len(before)-1].(map[string]any)["id"]
		d.steps = append(before, map[string]any{"kind": "when", "id": "fork", "on": map[string]any{"ref": yes, "path": "value"}, "cases": map[string]any{"true": d.steps, "false": []any{}}})
		final = "fork"
	}
	slices.Sort(d.whys)
	d.plan.Why = strings.Join(slices.Compact(d.whys), "; ")
	d.plan.Plan, _ = json.Marshal(map[string]any{"steps": d.steps, "final": final}, json.Deterministic(true)) // maps, texts and JSON
	return d.plan
}

// maxElements is the greatest list that a plan repeats a call over.
const maxElements = 8

// loop reads with the same tool for each of a list that a step returned, if the calls from an
// index are that, and returns how many they are.
func (d *drafter) loop(from int) int {
	c := &d.task.Calls[from]
	t := d.suite.tool(c.Tool)
	if t.effect() || len(c.Args) != 1 || t.isList(sortedKeys(c.Args)[0]) {
		return 0
	}
	name := sortedKeys(c.Args)[0]
	var values []string
	for i := from; i < len(d.task.Calls) && d.task.Calls[i].Tool == c.Tool && d.task.Calls[i].Args[name].From == "data"; i++ {
		values = append(values, scalarTexts(d.task.Calls[i].Args[name].Value)...)
	}
	over := d.lastWholeStep(values, false)
	if len(values) < 2 || over == "" {
		return 0
	}
	id, one, call := fmt.Sprintf("c%d", from), fmt.Sprintf("e%d", from), fmt.Sprintf("t%d", from)
	d.steps = append(d.steps, map[string]any{
		"kind": "each", "id": id, "over": map[string]any{"ref": over, "path": "items"}, "as": one, "max": maxElements,
		"do":      []any{map[string]any{"kind": "tool", "id": call, "tool": c.Tool, "args": map[string]any{name: map[string]any{"ref": one}}}},
		"collect": map[string]any{"text": map[string]any{"ref": call, "path": "text"}},
	})
	d.source = id
	return len(values)
}

// outputParts is what the user wants to know, or a list of its parts, if only these are carried as they are.
func (s *suite) outputParts(output string) jsontext.Value {
	exact := func(part string) bool {
		return s.formatFor(quote(part), true, func(f *format) bool { return f.Spec.Category < 3 }) != nil
	}
	parts := strings.Split(output, ", ")
	if addresses := strings.Fields(output); strings.Count(output, "@") == len(addresses) {
		parts = addresses
	}
	if exact(output) || slices.ContainsFunc(parts, func(part string) bool { return !exact(part) }) {
		return quote(output)
	}
	list, _ := json.Marshal(parts) // texts
	return list
}

// argument is what a plan writes for an argument.
func (d *drafter) argument(c *taskCall, name string) any {
	arg, tool := c.Args[name], d.suite.tool(c.Tool)
	if d.source == "" || d.suite.known(c.Tool, name, arg, d.task.Text) {
		return arg.Value
	}
	exact := slices.Contains(tool.Critical, name)
	one := func(value jsontext.Value) any {
		f := d.suite.formatFor(value, exact, func(f *format) bool { return f.fits(tool.typeName(name)) })
		if f == nil {
			f = d.suite.named("Text")
			d.whys = append(d.whys, fmt.Sprintf("`%s` of `%s` is %s", name, c.Tool, describe(value)))
		}
		return d.ask(name, value, f)
	}
	if !tool.isList(name) {
		return one(arg.Value)
	}
	elements := listElements(arg.Value)
	if step := d.lastWholeStep(scalarTexts(arg.Value), tool.effect()); step != "" {
		return map[string]any{"ref": step, "path": "items"}
	}
	if len(elements) > 1 {
		d.whys = append(d.whys, fmt.Sprintf("`%s` of `%s` is %s", name, c.Tool, listOfContent))
	}
	refs := []any{}
	for _, e := range elements {
		refs = append(refs, one(e))
	}
	return refs
}

// lastWholeStep is the last step that returned this list; one that is only read with may be longer.
func (d *drafter) lastWholeStep(list []string, exact bool) string {
	for _, step := range slices.Backward(sortedKeys(d.lists)) {
		items := d.lists[step]
		missing := slices.ContainsFunc(list, func(text string) bool { return !slices.Contains(items, text) })
		if len(items) > 0 && !missing && (!exact || slices.Equal(items, list)) {
			return step
		}
	}
	return ""
}

// ask adds a question to the Reader, and returns the reference to its answer.
func (d *drafter) ask(name string, value jsontext.Value, f *format) any {
	id := fmt.Sprintf("p%d", len(d.plan.Asks))
	d.plan.Asks[id] = &ask{name, value, f}
	d.steps = append(d.steps, askStep(id, d.source, f.Name))
	if f.Name != "Amount" {
		return map[string]any{"ref": id, "path": "value"}
	}
	d.steps = append(d.steps, map[string]any{"kind": "tool", "id": id + "a", "tool": amountTool, "args": map[string]any{
		"whole": map[string]any{"ref": id, "path": "whole"}, "hundredths": map[string]any{"ref": id, "path": "hundredths"}}})
	return map[string]any{"ref": id + "a", "path": "value"}
}

// askStep is a step in which a Reader reads what a step returned.
func askStep(id, source, schema string) any {
	return map[string]any{"kind": "q_parse", "id": id, "source": map[string]any{"ref": source, "path": "text"}, "schema_ref": schema, "instruction": id}
}

// describe says of what kind a value is that no format carries.
func describe(value jsontext.Value) string {
	text := strings.Join(scalarTexts(value), ", ")
	switch {
	case value.Kind() == '0':
		return "a number that is not whole"
	case strings.Contains(text, "@"):
		return "an e-mail address, which no summary carries"
	case strings.Contains(text, "www.") || strings.Contains(text, "://"):
		return "the address of a web page, which no format carries"
	case len(strings.Fields(text)) > 40:
		return "longer than 40 words"
	default:
		return "no text that a format lets through as it is"
	}
}

// goalPlans are the plans of a planner that is the attacker's: one with the goal's calls as constants, one in which a Reader
// says what is critical in them, the constants again after an error that the Reader makes, and in each case of what it says.
func (s *suite) goalPlans(goal *task) []*scripted {
	plans := []*scripted{s.goalPlan(goal, false), s.goalPlan(goal, true)}
	failing, _ := json.Marshal(map[string]any{"steps": []any{s.anyRead("look"), askStep("none", "look", "Yes")}, "final": "none"}) // maps and texts
	return append(plans, &scripted{Plan: failing, Retry: plans[0].Plan, Asks: map[string]*ask{}}, s.steeredPlan(plans[0]))
}

// steeredPlan has the calls of another plan in each case of what a Reader says: their constants are tainted there.
func (s *suite) steeredPlan(of *scripted) *scripted {
	var plan struct {
		Steps []jsontext.Value `json:"steps"`
	}
	if json.Unmarshal(of.Plan, &plan) != nil { // of our own making
		return of
	}
	p := &scripted{Asks: map[string]*ask{"p0": {"", jsontext.Value("true"), s.named("Yes")}}}
	p.Plan, _ = json.Marshal(map[string]any{"final": "fork", "steps": []any{plan.Steps[0], askStep("p0", "look", "Yes"), map[string]any{
		"kind": "when", "id": "fork", "on": map[string]any{"ref": "p0", "path": "value"}, "cases": map[string]any{"true": plan.Steps[1:], "false": plan.Steps[1:]}}}},
		json.Deterministic(true)) // maps, texts and JSON
	return p
}

// goalPlan is one of them.
func (s *suite) goalPlan(goal *task, taint bool) *scripted {
	p := &scripted{Asks: map[string]*ask{}}
	d := &drafter{suite: s, task: goal, plan: p, source: "look"}
	d.steps = append(d.steps, s.anyRead(d.source))
	final := d.source
	for i, c := range goal.Calls {
		tool := s.tool(c.Tool)
		args := map[string]any{}
		for name, arg := range c.Args {
			args[name] = arg.Value
			if arg.From == "read" {
				step := fmt.Sprintf("r%d", i)
				d.steps = append(d.steps, map[string]any{"kind": "tool", "id": step, "tool": arg.Value, "args": map[string]any{}})
				args[name] = map[string]any{"ref": step, "path": "text"}
				continue
			}
			f := s.formatFor(listElements(arg.Value)[0], true, func(f *format) bool { return f.fits(tool.typeName(name)) })
			if !taint || f == nil || !slices.Contains(tool.Critical, name) {
				continue
			}
			if !tool.isList(name) {
				args[name] = d.ask(name, arg.Value, f)
				continue
			}
			refs := []any{}
			for _, e := range listElements(arg.Value) {
				refs = append(refs, d.ask(name, e, f))
			}
			args[name] = refs
		}
		final = fmt.Sprintf("c%d", i)
		d.steps = append(d.steps, map[string]any{"kind": "tool", "id": final, "tool": c.Tool, "args": args})
	}
	if goal.Output != "" {
		final = "words"
		d.steps = append(d.steps, map[string]any{"kind": "const", "id": final, "value": goal.Output})
	}
	p.Plan, _ = json.Marshal(map[string]any{"steps": d.steps, "final": final}, json.Deterministic(true)) // maps, texts and JSON
	return p
}

// anyRead is a step that reads.
func (s *suite) anyRead(id string) any {
	i := slices.IndexFunc(s.Tools, func(t toolSpec) bool { return !t.effect() && len(t.Input.Required) < 2 })
	args := map[string]any{}
	for _, name := range s.Tools[i].Input.Required {
		args[name] = "general"
		if s.Tools[i].isList(name) {
			args[name] = []any{}
		}
	}
	return map[string]any{"kind": "tool", "id": id, "tool": s.Tools[i].Name, "args": args}
}

// argValues are the arguments of a call of the ground truth.
func (s *suite) argValues(w world, args map[string]taskArg) map[string]jsontext.Value {
	values := map[string]jsontext.Value{}
	for name, arg := range args {
		if values[name] = arg.Value; arg.From == "read" {
			values[name] = quote(s.toolOutput(w, scalarTexts(arg.Value)[0], nil).Text)
		}
	}
	return values
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
