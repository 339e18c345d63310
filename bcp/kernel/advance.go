package kernel

import (
	"cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// advance runs the plan until it has to wait, or has ended.
func (d *draft) advance() {
	for d.isOpen() && d.ready() {
		f := d.run.top()
		if len(f.Done) == len(f.checked.view.plan.Steps) {
			d.finishFrame(f)
			continue
		}
		d.step(f)
	}
}

// step runs the next step of the innermost frame.
func (d *draft) step(f *frame) {
	switch s, at := f.next(); s.Kind {
	case WhenStep, EachStep:
		d.fork(f, s, at)
	case ToolStep:
		d.call(f, s, at)
	case ParseStep:
		d.parse(f, s, at)
	case SubStep:
		d.sub(f, s, at)
	case AskStep:
		d.ask(f, s, at)
	default:
		d.local(f, s, at)
	}
}

// failStep gives up the plan because of a step.
func (d *draft) failStep(s *Step, code Code) {
	label := d.errorLabel()
	d.fail(badStep, Fault{Code: code, Step: s.ID, scope: s.scope}, &label)
}

// errorLabel is the label of an error of the step that is next: that it failed, how, and
// that none before it did, is what all of them are made of.
func (d *draft) errorLabel() Label {
	f := d.run.top()
	label := f.checked.view.nodes[len(f.Done)].label
	for i := range f.Done {
		label = label.join(&f.Done[i].Label)
	}
	return label
}

// abort ends the run at a limit.
func (d *draft) abort(code Code, step string) { d.end(Aborted, code, step) }

func (d *draft) local(f *frame, s *Step, at Origin) {
	record := StepRecord{Path: string(at), Kind: s.Kind}
	n, code := f.checked.local(&f.view, s, at)
	switch limit := d.run.Start.Limits.MaxValueBytes; {
	case code != "":
		d.failStep(s, code)
	case n.size > limit, s.Kind == EndStep && (n.value == nil || len(n.value.JSON()) > limit):
		d.abort(LimitValueBytes, record.Path)
	default:
		for i := range s.Inputs {
			record.Inputs = append(record.Inputs, f.origin(&s.Inputs[i].Ref))
		}
		if s.Kind == ItemStep {
			record.Inputs = []string{f.origin(&s.Source)}
		}
		d.finish(record, n)
	}
}

// origin names what a reference points to, with its full path.
func (f *frame) origin(r *Ref) string {
	at := f.path(f.checked.view.plan.Steps[r.index].id())
	if r.hasPath {
		at += "." + r.Path
	}
	return at
}

// collectInputs names what the arguments of a call come from.
func (f *frame) collectInputs(inputs []string, a *Arg) []string {
	if a.Ref != nil {
		return append(inputs, f.origin(a.Ref))
	}
	for i := range a.List {
		inputs = f.collectInputs(inputs, &a.List[i])
	}
	return inputs
}

// call brings a call to the gate, and no further without its leave.
func (d *draft) call(f *frame, s *Step, at Origin) {
	g, code := d.prepare(f, &f.view, s, at, f.keys())
	if code != "" {
		d.failStep(s, code)
		return
	}
	verdict := d.kernel.Gate().Judge(&g.call)
	g.record.Judged = &verdict
	if verdict.Ruling == Deny {
		d.change.Steps = append(d.change.Steps, g.record)
		label := d.errorLabel()
		d.denied(s, verdict.Code, &label)
		return
	}
	if d.reuse(f, &g) {
		return
	}
	d.change.Steps = append(d.change.Steps, g.record)
	w := g.wait(d)
	if verdict.Ruling == NeedPerson {
		w = Wait{Step: w.Step, Tool: w.Tool, Key: w.Key, Tainted: w.Tainted, Approved: d.isLeft(&g)}
		if !w.Approved {
			d.change.Endorsed = d.endorsed(&g.call, &verdict)
		}
		switch {
		case d.change.Endorsed != nil:
			w.Endorsed = d.change.Endorsed.ID
		case !w.Approved:
			if f.checked.loopOf(len(f.Done)) != "" {
				w.ID = d.run.listed(w.Key)
			}
			d.askPerson(w, WaitApproval, g.bytes)
			return
		}
	}
	if d.intend(w, g.bytes); d.change.End != nil {
		d.change.Endorsed = nil
	}
}

// denied ends the run after a denial. Arguments that do not fit may be mended by
// another plan; anything else is no news for a planner. The label is nil before the
// plan began.
func (d *draft) denied(s *Step, code Code, label *Label) {
	switch {
	case code == BadArguments:
		d.fail(badCall, Fault{Code: code, Step: s.ID, scope: s.scope}, label)
	case label == nil && s.under > 0: // one of several paths
		d.fail(badCall, Fault{Code: DeniedPath, Step: s.ID, scope: s.scope}, nil)
	default:
		d.end(Blocked, code, d.run.top().path(s.id()))
	}
}

// argumentsJSON is the canonical JSON of the arguments of a call.
func argumentsJSON(args []Argument) []byte {
	v := object()
	for i := range args {
		v.add(args[i].Name, *args[i].Value)
	}
	return v.JSON()
}

// intend records that a call is going to be made; it is made once that is stored.
func (d *draft) intend(w Wait, arguments []byte) {
	if d.run.Totals.Effects >= d.run.Start.Limits.MaxEffects {
		d.abort(LimitEffects, w.Step)
		return
	}
	d.run.Totals.Effects++
	t := d.kernel.tools[w.Tool]
	w.Kind, w.ID, w.Agent, w.Attempt = WaitTool, "c"+d.moment.Fresh, bcp.AgentName(t.Service), 1
	w.Deadline = d.change.Time + int64(t.timeout())
	d.await(w, arguments)
}

// askPerson has a person look at a call, or answer a question.
func (d *draft) askPerson(w Wait, kind WaitKind, arguments []byte) {
	if d.pending() >= d.run.Start.Limits.MaxPendingApprovals {
		if kind == WaitDoubt {
			d.end(Doubted, InDoubt, w.Step)
			return
		}
		d.end(Blocked, ApprovalQueueFull, w.Step)
		return
	}
	w.Kind, w.ID = kind, cmp.Or(w.ID, "i"+d.moment.Fresh)
	w.Deadline = d.change.Time + int64(d.run.Start.Limits.ApprovalTTL)
	d.await(w, arguments)
}

// pending is how many other items of the kernel wait for a person.
func (d *draft) pending() int {
	n := d.state.pending[d.run.Start.Kernel]
	if d.change.from != nil && d.change.from.Wait.Kind.Person() {
		n--
	}
	return n
}

func (d *draft) parse(f *frame, s *Step, at Origin) {
	g, code := d.prepare(f, &f.view, s, at, f.keys())
	switch {
	case code != "":
		d.failStep(s, code)
		return
	case g.content == nil:
		d.abort(LimitValueBytes, g.record.Path)
		return
	case !g.isGiven():
		d.failStep(s, ParseRejected)
		return
	case d.reuse(f, &g):
		return
	case d.run.Totals.Parses >= d.run.Start.Limits.MaxParses:
		d.abort(LimitParses, g.record.Path)
		return
	}
	d.run.Totals.Parses++
	d.change.Steps = append(d.change.Steps, g.record)
	w := g.wait(d)
	w.ID = "k" + d.moment.Fresh
	d.await(w, nil)
}

// content returns the value that a processor is given, unless it is too large, or so
// deep that a record of it could not be read.
func (d *draft) content(n *node, step string) (*Value, bool) {
	value, known := n.whole()
	if !known || value.depth() > wire.MaxDepth || len(value.JSON()) > d.run.Start.Limits.MaxValueBytes {
		d.abort(LimitValueBytes, step)
		return nil, false
	}
	return value, true
}

// sub begins a sub-run: its grant is no more than the run's, and what its planner
// makes up is as tainted as what it read.
func (d *draft) sub(f *frame, s *Step, at Origin) {
	if f.Depth+1 > d.run.Start.Limits.MaxDepth {
		d.abort(LimitDepth, string(at))
		return
	}
	source, code := f.view.ref(&s.Source)
	if code != "" {
		d.failStep(s, code)
		return
	}
	content, ok := d.content(&source, string(at))
	if !ok {
		return
	}
	planner := d.kernel.definition.SubPlanner
	if !source.label.Parsers.Admit([]Capability{Capability(planner)}) {
		d.failStep(s, ParseRejected)
		return
	}
	control := f.control()
	if control = f.view.steered(s, control.join(&source.label)); control.Tainted() {
		control = control.influencedBy(at, Unbounded)
	}
	// The planner of a sub-run is a Reader that read the source, and may have put anything of it into its constants.
	constants := source.label.with(ReaderAnswer).influencedBy(at, Unbounded)
	inner := Frame{
		Path: string(at), Depth: f.Depth + 1, Grant: f.Grant.Clamp(s.Grant), Query: f.view.steered(s, constants), Control: &control,
		Steer: f.steer(f.view.steer(s)),
	}
	d.change.Steps = append(d.change.Steps, StepRecord{Path: string(at), Kind: SubStep, Inputs: []string{f.origin(&s.Source)}})
	d.change.Sub, d.change.Private.Instruction, d.change.Private.Content = &inner, s.Instruction, content.JSON()
	d.run.open(inner, s.Instruction, content)
	d.await(Wait{
		Kind: WaitSubPlanner, ID: "p" + d.moment.Fresh, Step: string(at), Agent: planner,
		Deadline: d.change.Time + int64(d.run.Start.Limits.PlannerTimeout),
	}, nil)
}

// finishFrame takes the final value of the innermost frame.
func (d *draft) finishFrame(f *frame) {
	at := f.checked.final()
	final, s := f.view.nodes[at], &f.checked.view.plan.Steps[at]
	step := f.path(s.id())
	value, ok := d.content(&final, step)
	if !ok {
		return
	}
	if len(d.run.Frames) == 1 {
		d.change.End = &End{Status: Committed, Step: step, Label: final.label}
		d.change.Private.Final = value.JSON()
		d.run.stop(*d.change.End, d.change.Time)
		return
	}
	d.finishSub(f, value, final.label)
}

// finishSub gives the step around a sub-run its value.
func (d *draft) finishSub(inner *frame, value *Value, label Label) {
	d.run.Frames = d.run.Frames[: len(d.run.Frames)-1 : len(d.run.Frames)-1]
	if !d.ready() {
		return
	}
	f := d.run.top()
	s, _ := f.next()
	source, code := f.view.ref(&s.Source)
	if code != "" {
		d.failStep(s, code)
		return
	}
	at := Origin(inner.Path)
	n := node{value: value, label: source.label.with(ReaderAnswer).join(&label), at: at}
	if schema := d.kernel.schemas[s.Schema]; schema != nil {
		answer, ok := schema.judge(value.JSON())
		if !ok {
			d.failStep(s, ParseRejected)
			return
		}
		n.typ, n.value, n.label = schema.typ, &answer, n.label.influencedBy(at, schema.typ.Width())
	}
	n.label = f.view.steered(s, n.label)
	d.change.Private.Sub = append(d.change.Private.Sub, n.value.JSON())
	d.finish(StepRecord{Path: inner.Path, Kind: SubStep, Inputs: []string{f.origin(&s.Source)}}, n)
}
