package kernel

import (
	"slices"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Steps that need not wait for each other are made at once. A plan still runs in its
// order: each step gets its value, or its failure, in its turn, with the label that it
// has there. But a call of a tool that writes nothing and may be repeated, and a parse,
// are begun ahead of their turn once all that they are given is known, up to the next
// step that may have an effect or that a person decides about. What becomes of them before is kept until their turn, so
// that nothing depends on who answers first. If the plan is given up meanwhile, those
// that have no answer are let go: they count, and later answers are of no use.

// ahead is a step that was begun ahead of its turn.
type ahead struct {
	wait Wait
	args []byte
	// settled says that the answer is there: among the results, or, if there is none, code
	// says why.
	settled bool
	code    Code
}

// inFlight returns the index of a step that was begun ahead and has no answer; -1 if the
// id is of no such step.
func (r *run) inFlight(id string) int {
	if r == nil || r.end != nil {
		return -1
	}
	return slices.IndexFunc(r.ahead, func(a ahead) bool { return a.wait.ID == id && !a.settled })
}

// waitOf returns what the run waits for under an id, with the arguments if it is a call.
func (r *run) waitOf(id string) (Wait, []byte) {
	if i := r.inFlight(id); i >= 0 {
		return r.ahead[i].wait, r.ahead[i].args
	}
	return r.wait, r.args
}

// setAhead begins a step ahead of its turn, or sends a call of one again.
func (r *run) setAhead(w Wait, args []byte) {
	r.ahead = slices.Clone(r.ahead)
	if i := r.inFlight(w.ID); i >= 0 {
		r.ahead[i].wait = w
		return
	}
	r.ahead = append(r.ahead, ahead{wait: w, args: args})
}

// takeAhead forgets the step with a key whose turn it is.
func (r *run) takeAhead(key bcp.Digest) (ahead, bool) {
	i := slices.IndexFunc(r.ahead, func(a ahead) bool { return a.wait.Key == key })
	if i < 0 {
		return ahead{}, false
	}
	a := r.ahead[i]
	r.ahead = slices.Delete(slices.Clone(r.ahead), i, i+1)
	return a, true
}

// dropAhead lets go of all steps that were begun ahead. Late outcomes do no harm.
func (r *run) dropAhead() {
	for i := range r.ahead {
		if a := &r.ahead[i]; !a.settled && a.wait.Kind == WaitTool {
			r.settled = append(r.settled, &settled{call: a.wait.ID, service: a.wait.Agent, sent: a.wait.Attempt, again: true})
		}
	}
	r.ahead = nil
}

// nextAhead is when the first call that was begun ahead is to be sent again; 0 is never.
func (r *run) nextAhead() (at int64) {
	for i := range r.ahead {
		if a := &r.ahead[i]; !a.settled && a.wait.Deadline > 0 && (at == 0 || a.wait.Deadline < at) {
			at = a.wait.Deadline
		}
	}
	return at
}

// given is a call or a parse whose inputs are known.
type given struct {
	step   *Step
	record StepRecord
	at     Origin
	// Of a call:
	tool  *Tool
	args  []Argument
	bytes []byte
	call  Call
	// Of a call of a loop that is looked at before its turn:
	element, elements int
	// Of a parse:
	schema  *Schema
	source  node
	content *Value
}

// wait is what it waits for once it is begun.
func (g *given) wait(d *draft) Wait {
	w := Wait{Step: g.record.Path, Key: g.record.Key, Attempt: 1}
	if g.tool == nil {
		w.Kind, w.Agent = WaitReader, g.schema.Reader
		return w
	}
	w.Tool, w.Tainted = g.step.Tool, slices.ContainsFunc(g.args, func(a Argument) bool { return a.Label.Tainted() })
	w.Kind, w.Agent, w.Deadline = WaitTool, bcp.AgentName(g.tool.Service), d.change.Time+int64(g.tool.timeout())
	return w
}

// node is its value.
func (g *given) node(v *view, value *Value) node {
	if g.tool == nil {
		return node{typ: g.schema.typ, value: value, label: v.steered(g.step, g.schema.parseLabel(g.source.label, g.at)), at: g.at}
	}
	joined, _ := v.joined(g.args, g.step)
	return node{typ: g.tool.Output, value: value, label: v.steered(g.step, g.tool.ResultLabel(joined, g.at)), at: g.at}
}

// prepare reads what a call or a parse is given. had are the keys of the steps before it.
func (d *draft) prepare(f *frame, v *view, s *Step, at Origin, had []bcp.Digest) (given, Code) {
	g := given{step: s, at: at, record: StepRecord{Path: string(at), Kind: s.Kind}}
	if s.Kind == ToolStep {
		args, code := v.arguments(s)
		if code != "" {
			return g, code
		}
		g.tool, g.args, g.call = d.kernel.tools[s.Tool], args, f.checked.buildCall(v, s, args, d.ownRules())
		g.record.Tool, g.record.Arguments, g.record.Control = s.Tool, namedLabels(args), g.call.Steer
		for i := range s.Args {
			g.record.Inputs = f.collectInputs(g.record.Inputs, &s.Args[i].Arg)
		}
		if !known(args) {
			return g, ""
		}
		g.bytes = argumentsJSON(args)
		g.record.Key = nth(had, func(nth int) bcp.Digest { return d.run.callKey(g.tool, g.bytes, nth, f.Path) })
		return g, ""
	}
	source, code := v.ref(&s.Source)
	if code != "" {
		return g, code
	}
	g.source, g.schema, g.record.Inputs = source, d.kernel.schemas[s.Schema], []string{f.origin(&s.Source)}
	content, ok := v.whole(&source)
	if !ok || content.depth() > wire.MaxDepth {
		return g, ""
	}
	bytes := content.JSON()
	if len(bytes) > d.run.start.Limits.MaxValueBytes {
		return g, ""
	}
	g.content = content
	g.record.Key = nth(had, func(nth int) bcp.Digest { return d.run.parseKey(g.schema, bytes, s.Instruction, nth, f.Path) })
	return g, ""
}

// isGiven reports whether all that it is given is known, and may be given to its Reader.
func (g *given) isGiven() bool {
	if g.tool == nil {
		return g.content != nil && g.source.label.Parsers.Admit([]Capability{Capability(g.schema.Reader)})
	}
	return g.bytes != nil
}

// eachAhead visits, in the order of the plan, the calls and parses behind the step whose
// turn it is, as far as what they are given is known, up to the first that may have an
// effect. It stops when visit returns false. It looks as if all values were there that
// are known.
func (d *draft) eachAhead(f *frame, visit func(g *given) bool) {
	plan := f.checked.view.plan
	if !mayBegin(d.kernel, plan.Steps[len(f.done):]) {
		return
	}
	v := view{plan: f.view.plan, query: f.view.query, own: f.view.own, nodes: slices.Concat(f.view.nodes, f.checked.view.nodes[len(f.view.nodes):])}
	keys := append(f.keys(), d.run.wait.Key)
	for i := len(f.done); i < len(plan.Steps); i++ {
		s := &plan.Steps[i]
		if !isHarmless(d.kernel, s) {
			return
		}
		if s.local() && s.Kind != ConstStep {
			if n, code := f.localNode(&v, s, v.nodes[i].at); code == "" {
				v.nodes[i] = n
			}
		}
		if s.local() || i == len(f.done) {
			continue
		}
		g, code := d.prepare(f, &v, s, v.nodes[i].at, keys)
		if code != "" || !g.isGiven() {
			continue
		}
		keys = append(keys, g.record.Key)
		if value, made := d.run.value(g.record.Key); made && value != nil {
			v.nodes[i] = g.node(&v, value)
		} else if !visit(&g) {
			return
		}
	}
}

// isHarmless reports whether steps behind it may be begun before it is made.
func isHarmless(k *Kernel, s *Step) bool {
	switch s.Kind {
	case ToolStep:
		return k.tools[s.Tool] != nil && k.tools[s.Tool].Level != Write
	case SubStep, AskStep, WhenStep, EachStep: // what a when or an each leads to is not known before
		return false
	default:
		return true
	}
}

// mayBegin reports whether there is a call or a parse behind the first step that does not
// have to wait for an effect.
func mayBegin(k *Kernel, steps []Step) bool {
	for i := range steps {
		if !isHarmless(k, &steps[i]) {
			return false
		}
		if i > 0 && (steps[i].Kind == ToolStep || steps[i].Kind == ParseStep) {
			return true
		}
	}
	return false
}

// beginAhead begins what need not wait for the step whose turn it is: what the gate
// allows, within the limits of the run and of a record.
func (d *draft) beginAhead() {
	f := d.run.top()
	w := &d.run.wait
	if d.run.end != nil || f.checked == nil || f.checked.kernel != d.kernel || len(f.view.nodes) != len(f.done) || len(f.done) == len(f.checked.view.nodes) || w.Step != string(f.checked.view.nodes[len(f.done)].at) || w.Kind == WaitSubPlanner || w.Kind.Person() {
		return
	}
	d.eachAhead(f, func(g *given) bool {
		if slices.ContainsFunc(d.run.ahead, func(a ahead) bool { return a.wait.Key == g.record.Key }) {
			return true
		}
		limits, totals := &d.run.start.Limits, &d.run.totals
		id := d.moment.Fresh + "-" + strconv.Itoa(len(d.change.Ahead)+1)
		w := g.wait(d)
		if g.tool != nil {
			verdict := d.kernel.Gate().Judge(&g.call)
			if verdict.Ruling != Allow {
				return false
			}
			if g.tool.idempotency() != Free || totals.Effects >= limits.MaxEffects {
				return true
			}
			w.ID, g.record.Judged = "c"+id, &verdict
		} else {
			if totals.Parses >= limits.MaxParses {
				return true
			}
			w.ID = "k" + id
		}
		steps, waits, args := d.change.Steps, d.change.Ahead, d.change.Private.Ahead
		w.Since = d.change.Time
		d.change.Steps, d.change.Ahead, d.change.Private.Ahead = append(steps, g.record), append(waits, w), append(args, g.bytes)
		if d.change.size() > maxChangeBytes*3/4 {
			d.change.Steps, d.change.Ahead, d.change.Private.Ahead = steps, waits, args
			return false
		}
		if g.tool != nil {
			totals.Effects++
		} else {
			totals.Parses++
		}
		d.run.setAhead(w, g.bytes)
		return true
	})
}

// isTaken gives a step what is there for it already: the result of an earlier plan, what
// it was begun ahead for, or that it waits for that. It reports whether there is something.
// What was begun for a later step is its own if both are given the same.
func (d *draft) isTaken(f *frame, g *given) bool {
	begun, isBegun := d.run.takeAhead(g.record.Key)
	value, made := d.run.value(g.record.Key)
	switch {
	case isBegun && !begun.settled:
		if begun.wait.Step != g.record.Path {
			d.change.Steps = append(d.change.Steps, g.record)
		}
		begun.wait.Begun, begun.wait.Step = true, g.record.Path
		d.await(begun.wait, begun.args)
	case isBegun && begun.code != "":
		d.failAhead(g.step, g.record.Path, begun.code)
	case made && value != nil:
		g.record.Begun, g.record.Reused = isBegun, !isBegun
		if isBegun && begun.wait.Step == g.record.Path {
			g.record.Judged, g.record.Arguments = nil, nil // its record has them
		}
		d.finish(g.record, g.node(&f.view, value))
	default:
		return false
	}
	return true
}

// failAhead is what follows from an answer that was none, when the step's turn comes.
func (d *draft) failAhead(s *Step, path string, code Code) {
	switch code {
	case LimitValueBytes:
		d.abort(code, path)
	case ToolFailed, BadOutcome, NotEnoughInformation, ParseRejected, ParseExpired:
		d.failStep(s, code)
	default:
		d.end(Errored, code, path)
	}
}

// draftAhead begins a decision about a step that was begun ahead. What the run waits for
// stays.
func (s *State) draftAhead(m bcp.Moment, kind ChangeKind, r *run, id string) (*draft, bool) {
	d, ok := s.begin(m, kind, r)
	w, _ := r.waitOf(id)
	d.change.Input, d.change.Attempt = id, w.Attempt
	if ok {
		d.run.deadline = r.deadline
	}
	return d, ok
}

// settleAhead notes the answer to a step that was begun ahead, and begins what waited
// for it alone.
func (d *draft) settleAhead(code Code, value *Value) Change {
	w, _ := d.run.waitOf(d.change.Input)
	d.change.Result = &Result{Key: w.Key, Code: code}
	if value != nil {
		d.change.Private.Value = value.JSON()
	}
	d.run.setResult(d.change.Input, d.change.Result, d.change.Attempt, value)
	if d.isBuilt() {
		d.beginAhead()
	}
	return d.decided()
}

// outcomeAhead judges the outcome of a call that was begun ahead.
func (s *State) outcomeAhead(m bcp.Moment, r *run, call string, attempt int, body []byte) Change {
	w, _ := r.waitOf(call)
	if attempt < 1 || attempt > w.Attempt {
		return s.refused(m, ChangeOutcome, call, UnknownCall)
	}
	d, ok := s.draftAhead(m, ChangeOutcome, r, call)
	if d.change.Attempt = attempt; !ok {
		return d.decided()
	}
	t := d.kernel.tools[w.Tool]
	if t == nil {
		return d.settleAhead(ToolChanged, nil)
	}
	o := parseOutcome(body, call, r.start.Limits.MaxValueBytes)
	d.change.Private.Note = o.note
	switch {
	case o.code == ToolChanged:
		d.change.Alert = ToolChanged
	case o.code == "" && !t.Output.Has(&o.value):
		o.code = BadOutcome
	case o.code == "":
		return d.settleAhead("", &o.value)
	}
	return d.settleAhead(o.code, nil)
}

// answerAhead takes a Reader's answer to a parse that was begun ahead.
func (s *State) answerAhead(m bcp.Moment, r *run, id string, answer []byte, code Code) Change {
	d, ok := s.draftAhead(m, ChangeStep, r, id)
	if !ok {
		return d.decided()
	}
	if code != "" {
		return d.settleAhead(code, nil)
	}
	w, _ := r.waitOf(id)
	g := s.aheadOf(d.kernel, r, &w)
	if g == nil {
		return d.settleAhead(ParseRejected, nil)
	}
	value, ok := g.schema.read(answer)
	switch {
	case !ok:
		return d.settleAhead(ParseRejected, nil)
	case len(value.JSON()) > r.start.Limits.MaxValueBytes:
		return d.settleAhead(LimitValueBytes, nil)
	}
	return d.settleAhead("", &value)
}

// resendAhead sends a call that was begun ahead again.
func (s *State) resendAhead(m bcp.Moment, r *run, id string) Change {
	d, ok := s.draftAhead(m, ChangeCall, r, id)
	if !ok {
		return d.decided()
	}
	w, args := d.run.waitOf(id)
	t := d.kernel.tools[w.Tool]
	if t == nil || !t.Repeats() {
		return d.settleAhead(ToolChanged, nil)
	}
	w.Attempt, w.Since, w.Deadline = w.Attempt+1, d.change.Time, d.change.Time+int64(t.timeout())
	d.change.Ahead, d.change.Private.Ahead = []Wait{w}, [][]byte{args}
	d.run.setAhead(w, args)
	return d.decided()
}

// aheadOf returns what a step that was begun ahead is given, under the definitions of
// today; nil if they do not have it.
func (s *State) aheadOf(k *Kernel, r *run, w *Wait) (found *given) {
	d := &draft{state: s, kernel: k, run: r.copy(), change: &Change{}}
	if !d.isBuilt() {
		return nil
	}
	d.eachAhead(d.run.top(), func(g *given) bool {
		if g.record.Key == w.Key {
			found = g
		}
		return found == nil
	})
	return found
}
