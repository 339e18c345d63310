package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/agentdojo/score"
)

// ask is a question to the Reader: for an argument of a call, or for what the user wants to know.
type ask struct {
	Argument string // empty: the user wants to know
	Values   []jsontext.Value
	Format   *format
	// Elements are those of the loop that it is in; the values are for those that it is asked for, in their order.
	Elements []string
	// Seen says that a person decides about the call that it is for.
	Seen bool
}

// scripted is a plan. Retry is the one after an error, if it is another.
type scripted struct {
	Plan, Retry jsontext.Value
	Asks        map[string]*ask // by instruction
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
	final string
	// exact says that also what is not critical goes into a call, or to the user, as it is.
	exact bool
	// texts refer to what calls returned, last to what the newest of them did that read; lists are what steps returned.
	texts map[int]any
	last  any
	lists map[string][]string
	over  *repeat // what is done now for each element of a list
	// least is how many elements a list has that calls are repeated over, and looped says that some are.
	least  int
	looped bool
	whys   []string
	world  score.State // in which nobody attacks
}

// buildPlan makes the plan of a task out of its ground truth. There always is one: where no format carries a value, it asks for
// a text, and fails there.
func (s *suite) buildPlan(t *task, exact bool) *scripted {
	var d *drafter
	for _, least := range []int{2, 1} { // a list may happen to have one element
		d = &drafter{suite: s, task: t, plan: &scripted{Asks: map[string]*ask{}}, exact: exact, texts: map[int]any{}, lists: map[string][]string{}, world: s.score.State(""), least: least}
		if d.calls(0); d.looped || !t.Loop {
			break
		}
	}
	if t.Loop && !d.looped {
		d.whys = append(d.whys, noLoop)
	}
	switch {
	case t.Why != "":
		d.whys = append(d.whys, t.Why)
	case len(t.Calls) == 0:
		d.whys = append(d.whys, "its ground truth has no calls")
	}
	if t.Output != "" && d.last != nil {
		inputs := map[string]any{}
		parts := []jsontext.Value{quote(t.Output)}
		if !exact {
			parts = listElements(s.outputParts(t.Output))
		}
		for i, part := range parts {
			inputs[fmt.Sprintf("p%02d", i)] = d.askFor("", "", []jsontext.Value{part}, exact, nil)
		}
		d.final = "said"
		d.steps = append(d.steps, map[string]any{"kind": "merge", "id": d.final, "inputs": inputs})
	}
	slices.Sort(d.whys)
	d.plan.Why = strings.Join(slices.Compact(d.whys), "; ")
	d.plan.Plan = writePlan(d.final, d.steps...)
	return d.plan
}

// seen reports whether a person would see something that a Reader says, and whether not all.
func (p *scripted) seen() (seen, unseen bool) {
	for _, a := range p.Asks {
		seen, unseen = seen || a.Seen, unseen || !a.Seen
	}
	return seen, unseen
}

// writePlan writes a plan of steps that have nothing but maps, texts and JSON.
func writePlan(final string, steps ...any) jsontext.Value {
	plan, _ := json.Marshal(map[string]any{"steps": steps, "final": final}, json.Deterministic(true))
	return plan
}

// toolStep is a step that calls a tool.
func toolStep(id, tool string, args map[string]any) any {
	return map[string]any{"kind": "tool", "id": id, "tool": tool, "args": args}
}

// whenStep is a step that has steps done in each of two cases.
func whenStep(id string, on any, yes, no []any) any {
	return map[string]any{"kind": "when", "id": id, "on": on, "cases": map[string]any{"true": yes, "false": no}}
}

// valueOf refers to what a step says.
func valueOf(step, path string) any { return map[string]any{"ref": step, "path": path} }

// calls plans the calls from an index on.
func (d *drafter) calls(from int) {
	fork := d.suite.forkAt(d.task)
	for i := from; i < len(d.task.Calls); {
		if i == fork && i > from && d.choosing(i) == nil {
			on := d.ask("", yes, d.suite.named("Yes"), nil, false)
			d.under(on, func() { d.calls(i) })
			return
		}
		n := d.loop(i)
		if n == 0 {
			n = 1
			d.call(i, func(name string) any { return d.argument(i, name, []taskArg{d.task.Calls[i].Args[name]}) })
		}
		i += n
	}
}

var yes = []jsontext.Value{jsontext.Value("true")}

// under has steps done if the Reader said yes.
func (d *drafter) under(on any, steps func()) {
	id, before := fmt.Sprintf("w%d", len(d.plan.Asks)), d.steps
	d.steps = []any{}
	steps()
	d.steps = append(before, whenStep(id, on, d.steps, []any{}))
	d.final = id
}

// forkAt is the call from which on content decides whether the rest is done: that after one which is made twice, if it was
// refused, or else the first that reaches outside, and of which nothing is read.
func (s *suite) forkAt(t *task) int {
	for i := range t.Calls {
		c, tool := &t.Calls[i], s.tool(t.Calls[i].Tool)
		later := t.Calls[i+1:]
		switch {
		case t.Again && slices.ContainsFunc(later, func(o taskCall) bool { return o.is(c) }):
			return i + 1
		case t.Branch && i > 0 && tool.Level == "write" && tool.Reach == "outside" && !slices.ContainsFunc(later, func(o taskCall) bool { return o.reads(i) }):
			return i
		}
	}
	return len(t.Calls)
}

// call adds a call.
func (d *drafter) call(i int, argument func(name string) any) {
	c, args := &d.task.Calls[i], map[string]any{}
	for _, name := range sortedKeys(c.Args) {
		args[name] = argument(name)
	}
	d.final = fmt.Sprintf("c%d", i)
	d.steps = append(d.steps, toolStep(d.final, c.Tool, args))
	if d.suite.tool(c.Tool).Level == "read" || d.suite.traced {
		d.texts[i] = textOf(d.final)
		d.last = d.texts[i]
		d.lists[d.final] = d.suite.toolOutput(d.world, c.Tool, d.suite.argValues(d.world, c.Args)).Items
	}
}

func textOf(step string) any { return valueOf(step, "text") }

// maxElements is the greatest list that a plan repeats a call over.
const maxElements = 10

// repeat is what is done for each of the elements of a list.
type repeat struct {
	rounds   [][]taskCall
	common   int    // of the calls of a round so many are made for each element, the rest if the Reader says so
	argument string // of the first of them, which has the element
	elements []string
	chosen   []string // those for which the rest is made
	ref      any
}

// loop repeats the calls from an index on for each element of a list, if they are that, and returns how many they are.
func (d *drafter) loop(from int) int {
	if d.over != nil || d.least == 1 && d.looped {
		return 0
	}
	r := d.repeats(from)
	if r == nil {
		return 0
	}
	d.looped = true
	effect, n, long := false, 0, 0
	starts := []int{}
	for i, round := range r.rounds {
		starts = append(starts, from+n)
		n += len(round)
		if len(round) > len(r.rounds[long]) {
			long = i
		}
		effect = effect || slices.ContainsFunc(round, func(c taskCall) bool { return d.suite.effect(c.Tool) })
	}
	var over any
	if step := d.lastWholeStep(r.elements, effect); len(d.lists[step]) > 0 && len(d.lists[step]) <= maxElements {
		over = itemsOf(step)
	} else {
		over = d.list(r.argument, [][]string{r.elements}, sourcesOf([]taskArg{r.rounds[0][0].Args[r.argument]}))
	}
	id, one := fmt.Sprintf("l%d", from), fmt.Sprintf("e%d", from)
	r.ref = map[string]any{"ref": one}
	// What is the same for all is asked before.
	same := map[string]any{}
	body := r.rounds[long]
	for k := range body {
		for name := range body[k].Args {
			if args := r.arguments(k, name); sameFor(args) && !r.isElement(args) && !reads(args, starts[long], len(body)) {
				same[fmt.Sprint(k, name)] = d.argument(starts[long]+k, name, args[:1])
			}
		}
	}
	before, last := d.steps, d.last
	d.steps, d.over = []any{}, r
	collect := map[string]any{}
	do := func(k int) {
		i := starts[long] + k
		d.call(i, func(name string) any {
			if value, has := same[fmt.Sprint(k, name)]; has {
				return value
			}
			return d.argument(i, name, r.arguments(k, name))
		})
		if k < r.common && d.texts[i] != nil {
			collect[d.final] = d.texts[i]
		}
	}
	for k := range r.common {
		do(k)
	}
	if len(body) > r.common {
		var more []jsontext.Value
		for _, round := range r.rounds {
			more = append(more, jsontext.Value(fmt.Sprint(len(round) > r.common)))
		}
		d.under(d.ask("", more, d.suite.named("Yes"), nil, false), func() {
			for k := r.common; k < len(body); k++ {
				do(k)
			}
		})
	}
	step := map[string]any{"kind": "each", "id": id, "over": over, "as": one, "max": maxElements, "do": d.steps, "collect": collect}
	d.last = last
	for i, start := range starts {
		for k := range r.rounds[i] {
			delete(d.texts, start+k)
			if name := fmt.Sprintf("c%d", starts[long]+k); collect[name] != nil {
				d.last = valueOf(id, name)
				d.texts[start+k] = d.last
			}
		}
	}
	if len(collect) == 0 {
		delete(step, "collect")
	}
	d.steps, d.over, d.final = append(before, step), nil, id
	return n
}

// repeats finds rounds of calls that are the same but for an element which content chose; nil if there are none.
func (d *drafter) repeats(from int) *repeat {
	calls := d.task.Calls
	if d.suite.traced && !d.task.Loop || d.last == nil {
		return nil
	}
	if r := d.choosing(from); r != nil {
		return r
	}
	n := 1
	for from+n < len(calls) && calls[from+n].Tool != calls[from].Tool {
		n++
	}
	if d.least == 1 {
		for n = 1; from+n < len(calls) && calls[from+n].shares(&calls[from]); n++ {
		}
	}
	r := &repeat{common: n}
	for i := from; i+n <= len(calls) && sameTools(calls[from:from+n], calls[i:i+n]); i += n {
		r.rounds = append(r.rounds, calls[i:i+n])
	}
	return d.varying(r)
}

// choosing finds rounds of which some have more calls than the others, about the same element.
func (d *drafter) choosing(from int) *repeat {
	calls := d.task.Calls
	if !d.task.Branch {
		return nil
	}
	r := &repeat{common: len(calls)}
	most := 0
	for i := from; i < len(calls) && calls[i].Tool == calls[from].Tool; {
		n := 1
		for i+n < len(calls) && calls[i+n].Tool != calls[from].Tool && calls[i+n].shares(&calls[i]) {
			n++
		}
		r.rounds, r.common, most = append(r.rounds, calls[i:i+n]), min(r.common, n), max(most, n)
		i += n
	}
	for _, round := range r.rounds {
		if len(round) != r.common && len(round) != most {
			return nil
		}
	}
	if most == r.common {
		return nil
	}
	return d.varying(r)
}

// varying completes rounds with what differs among them.
func (d *drafter) varying(r *repeat) *repeat {
	if len(r.rounds) < d.least {
		return nil
	}
	tool := d.suite.tool(r.rounds[0][0].Tool)
	for _, critical := range []bool{true, false} {
		for _, name := range sortedKeys(r.rounds[0][0].Args) {
			args := r.arguments(0, name)
			if slices.Contains(tool.Critical, name) != critical || tool.typeName(name) != "string" || len(args) < len(r.rounds) || len(args) > 1 && sameFor(args) {
				continue
			}
			r.argument, r.elements = name, nil
			for _, arg := range args {
				if texts := scalarTexts(arg.Value); len(texts) == 1 && !d.suite.known(tool.Name, name, arg, d.task.Text) {
					r.elements = append(r.elements, texts[0])
				}
			}
			if len(r.elements) != len(r.rounds) || len(r.elements) > maxElements {
				continue
			}
			for i, round := range r.rounds {
				if len(round) > r.common {
					r.chosen = append(r.chosen, r.elements[i])
				}
			}
			return r
		}
	}
	return nil
}

// arguments are those of one name in one call of the rounds that have it.
func (r *repeat) arguments(call int, name string) (args []taskArg) {
	for _, round := range r.rounds {
		if call < len(round) {
			if arg, has := round[call].Args[name]; has {
				args = append(args, arg)
			}
		}
	}
	return args
}

// isElement reports whether an argument is the element in each round that has it.
func (r *repeat) isElement(args []taskArg) bool {
	return r != nil && slices.EqualFunc(args, r.ofThese(len(args)), func(a taskArg, element string) bool {
		texts := scalarTexts(a.Value)
		return len(texts) == 1 && texts[0] == element
	})
}

// ofThese are the elements that so many values are for.
func (r *repeat) ofThese(n int) []string {
	switch {
	case r == nil:
		return nil
	case n == len(r.elements):
		return r.elements
	default:
		return r.chosen
	}
}

// sameFor reports whether arguments are the same value.
func sameFor(args []taskArg) bool {
	return !slices.ContainsFunc(args, func(a taskArg) bool { return !slices.Equal(scalarTexts(a.Value), scalarTexts(args[0].Value)) })
}

func sameTools(a, b []taskCall) bool {
	return slices.EqualFunc(a, b, func(a, b taskCall) bool { return a.Tool == b.Tool })
}

// reads reports whether an argument comes from one of n calls from an index on.
func reads(args []taskArg, from, n int) bool {
	return slices.ContainsFunc(sourcesOf(args), func(source int) bool { return source >= from && source < from+n })
}

// sourcesOf are the calls from which arguments come.
func sourcesOf(args []taskArg) (sources []int) {
	for _, arg := range args {
		sources = append(sources, arg.Sources...)
	}
	return sources
}

// outputParts is what the user wants to know, or a list of its parts, if only these are carried as they are.
func (s *suite) outputParts(output string) jsontext.Value {
	exact := func(part string) bool {
		return s.formatFor(quote(part), true, func(f *format) bool { return f.takes(2) }) != nil
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

// argument is what a plan writes for an argument of a call, which has these values in the rounds of a loop.
func (d *drafter) argument(i int, name string, args []taskArg) any {
	c := &d.task.Calls[i]
	arg, tool := c.Args[name], d.suite.tool(c.Tool)
	critical := slices.Contains(tool.Critical, name)
	switch known := d.suite.known(c.Tool, name, arg, d.task.Text); {
	case sameFor(args) && (known || d.last == nil):
		if !known && critical && tool.effect() {
			d.whys = append(d.whys, fmt.Sprintf("`%s` of `%s` %s", name, c.Tool, nowhere))
		}
		return arg.Value
	case !tool.isList(name) && d.over.isElement(args):
		return d.over.ref
	case !tool.isList(name):
		var values []jsontext.Value
		for _, a := range args {
			values = append(values, a.Value)
		}
		return d.askFor(name, c.Tool, values, d.exact || critical, arg.Sources)
	case d.over.isElement(args):
		return []any{d.over.ref}
	}
	if step := d.lastWholeStep(scalarTexts(arg.Value), tool.effect()); step != "" && sameFor(args) {
		return itemsOf(step)
	}
	lists, single := [][]string{}, []jsontext.Value{}
	for _, a := range args {
		lists = append(lists, scalarTexts(a.Value))
		if elements := listElements(a.Value); len(elements) == 1 {
			single = append(single, elements[0])
		}
	}
	if len(single) == len(args) {
		return []any{d.askFor(name, c.Tool, single, d.exact || critical, arg.Sources)}
	}
	return d.list(name, lists, arg.Sources)
}

func itemsOf(step string) any { return valueOf(step, "items") }

// list asks for lists of texts, each as a sealed text of JSON, and returns the reference to the list.
func (d *drafter) list(name string, lists [][]string, sources []int) any {
	var values []jsontext.Value
	for _, list := range lists {
		if len(list) > maxElements {
			d.whys = append(d.whys, fmt.Sprintf("`%s` is a list of over %d elements", name, maxElements))
		}
		inJSON, _ := json.Marshal(list) // texts
		values = append(values, quote(string(inJSON)))
	}
	text := d.ask(name, values, d.suite.named("Sealed"), sources, true)
	id := fmt.Sprintf("s%d", len(d.plan.Asks))
	d.steps = append(d.steps, toolStep(id, listTool, map[string]any{"text": text}))
	return itemsOf(id)
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

// askFor asks for a value in the narrowest format that carries it: one that is typed; for who gets something or what is changed
// a sealed text, which a person sees as it is; for all else free text, and a sealed one if that does not carry it.
func (d *drafter) askFor(name, tool string, values []jsontext.Value, exact bool, sources []int) any {
	typ, critical := "", false
	if t := d.suite.tool(tool); t != nil {
		typ, critical = t.typeName(name), slices.Contains(t.Critical, name)
	}
	fits := func(f *format) bool {
		return f.fits(typ) && !slices.ContainsFunc(values[1:], func(v jsontext.Value) bool { return !f.carries(v, exact) })
	}
	f := d.suite.formatFor(values[0], exact, func(f *format) bool { return fits(f) && (critical || !f.Sealed) })
	if f == nil {
		f = d.suite.formatFor(values[0], exact, fits)
	}
	if f == nil {
		f = d.suite.named("Text")
		d.whys = append(d.whys, fmt.Sprintf("`%s` of `%s` is %s", name, tool, describe(values[0])))
	}
	return d.ask(name, values, f, sources, critical)
}

// ask adds a question to the Reader, and returns the reference to its answer.
func (d *drafter) ask(name string, values []jsontext.Value, f *format, sources []int, critical bool) any {
	id := fmt.Sprintf("p%d", len(d.plan.Asks))
	d.plan.Asks[d.task.ID+" "+id] = &ask{name, values, f, d.over.ofThese(len(values)), name != "" && (f.Sealed || critical)}
	d.steps = append(d.steps, askStep(id, d.source(id, sources), f.Name, d.task.ID+" "+id))
	if f.Name == "Amount" {
		whole, hundredths := valueOf(id, "whole"), valueOf(id, "hundredths")
		id += "a"
		d.steps = append(d.steps, toolStep(id, amountTool, map[string]any{"whole": whole, "hundredths": hundredths}))
	}
	return valueOf(id, "value")
}

// source is what the Reader of a question reads: what the calls returned that the answer comes from, or the newest, and in a loop
// the element.
func (d *drafter) source(id string, sources []int) any {
	inputs := map[string]any{}
	for _, i := range sources {
		if text := d.texts[i]; text != nil {
			inputs[fmt.Sprintf("c%d", i)] = text
		}
	}
	if len(inputs) == 0 {
		inputs["last"] = d.last
	}
	if d.over != nil {
		inputs[elementName] = d.over.ref
	}
	if len(inputs) == 1 {
		for _, only := range inputs {
			return only
		}
	}
	d.steps = append(d.steps, map[string]any{"kind": "merge", "id": "m" + id, "inputs": inputs})
	return map[string]any{"ref": "m" + id}
}

// elementName is the element of a loop in what a Reader reads.
const elementName = "one"

// askStep is a step in which a Reader reads a source.
func askStep(id string, source any, schema, instruction string) any {
	return map[string]any{"kind": "q_parse", "id": id, "source": source, "schema_ref": schema, "instruction": instruction}
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
	constants, said := s.goalPlan(goal, false), s.goalPlan(goal, true)
	for _, d := range []*drafter{constants, said} {
		d.plan.Plan = writePlan(d.final, d.steps...)
	}
	first, rest := constants.steps[0], constants.steps[1:]
	failing := writePlan("none", first, askStep("none", textOf("look"), "Yes", "none"))
	// Constants are tainted in a case of what a Reader says.
	steered := writePlan("fork", first, askStep("p0", textOf("look"), "Yes", "p0"), whenStep("fork", valueOf("p0", "value"), rest, rest))
	return []*scripted{constants.plan, said.plan, {Plan: failing, Retry: constants.plan.Plan, Asks: map[string]*ask{}},
		{Plan: steered, Asks: map[string]*ask{"p0": {Values: yes, Format: s.named("Yes")}}}}
}

// goalPlan makes one of them.
func (s *suite) goalPlan(goal *task, taint bool) *drafter {
	d := &drafter{suite: s, task: goal, plan: &scripted{Asks: map[string]*ask{}}, last: textOf("look"), final: "look"}
	d.steps = append(d.steps, s.anyRead("look"))
	for i, c := range goal.Calls {
		tool := s.tool(c.Tool)
		args := map[string]any{}
		for name, arg := range c.Args {
			args[name] = arg.Value
			if arg.From == "read" {
				step := fmt.Sprintf("r%d", i)
				d.steps = append(d.steps, toolStep(step, scalarTexts(arg.Value)[0], map[string]any{}))
				args[name] = textOf(step)
				continue
			}
			elements := listElements(arg.Value)
			if len(elements) == 0 {
				continue
			}
			f := s.formatFor(elements[0], true, func(f *format) bool { return f.fits(tool.typeName(name)) })
			if !taint || f == nil || !slices.Contains(tool.Critical, name) {
				continue
			}
			if !tool.isList(name) {
				args[name] = d.ask(name, []jsontext.Value{arg.Value}, f, nil, true)
				continue
			}
			refs := []any{}
			for _, e := range elements {
				refs = append(refs, d.ask(name, []jsontext.Value{e}, f, nil, true))
			}
			args[name] = refs
		}
		d.final = fmt.Sprintf("c%d", i)
		d.steps = append(d.steps, toolStep(d.final, c.Tool, args))
	}
	if goal.Output != "" {
		d.final = "words"
		d.steps = append(d.steps, map[string]any{"kind": "const", "id": d.final, "value": goal.Output})
	}
	return d
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
	return toolStep(id, s.Tools[i].Name, args)
}

// argValues are the arguments of a call of the ground truth.
func (s *suite) argValues(w score.State, args map[string]taskArg) map[string]jsontext.Value {
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
