package kernel

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// draft is a decision in the making: the run as it would be, and the change that
// makes it so.
type draft struct {
	state  *State
	kernel *Kernel
	moment bcp.Moment
	run    *run
	change *Change
	// own is the innermost frame if only this draft has it, so that it may grow.
	own *frame
}

// draft begins a decision about an open run.
func (s *State) draft(m bcp.Moment, kind bcp.DecisionKind, r *run) *draft {
	d := &draft{state: s, moment: m, kernel: s.kernels[r.Start.Kernel], run: r.copy(), change: &Change{Kind: kind, Time: s.now(m), Run: r.ID, from: r}}
	d.change.Input, d.change.Attempt = r.Wait.ID, r.Wait.Attempt
	if r.Wait.Kind.Person() {
		d.run.Deadline += d.change.Time - r.Wait.Since
	}
	return d
}

// now is the journal time, which never goes back.
func (s *State) now(m bcp.Moment) int64 { return max(s.time, m.Now.UnixNano()) }

// decided completes the change. One that is too large for a record ends the run
// instead: a planner decides how many labels there are in it, and how long.
func (d *draft) decided() Change {
	c := d.complete()
	if from := c.from; len(c.open)+len(c.said) > maxChangeBytes {
		over := d.state.draft(d.moment, c.Kind, from)
		over.change.Input, over.change.Attempt, over.change.Alert = c.Input, c.Attempt, c.Alert
		if c.Result != nil {
			over.recordOutcome(LimitValueBytes, nil)
		}
		over.abort(LimitValueBytes, from.Wait.Step)
		c = over.complete()
	}
	return *c
}

func (d *draft) complete() *Change {
	c := d.change
	c.Totals, c.Deadline, c.next = d.run.Totals, d.run.Deadline, d.run
	if c.from != nil {
		c.open, c.said = c.AppendJSON(nil), c.Private.AppendJSON(nil)
	}
	return c
}

// isOpen reports whether there is more to do.
func (d *draft) isOpen() bool { return d.change.End == nil && d.change.Wait == nil }

// end ends the run. What a tool may have done is then in doubt, unless doing it twice
// is as good as once.
func (d *draft) end(status Status, code Code, step string) {
	if call := d.run.Wait.call(); call != "" && d.change.Result == nil && d.change.Alert == "" && status != Doubted {
		if d.kernel == nil || d.kernel.tools[d.run.Wait.Tool] == nil || d.kernel.tools[d.run.Wait.Tool].idempotency() != Free {
			d.change.Alert = InDoubt
		}
	}
	d.change.End = &End{Status: status, Code: code, Step: step}
	if len(d.run.Frames) > 1 && status != Aborted && status != Doubted && status != Stopped {
		d.change.End.Status, d.change.End.Code, d.change.End.Cause = Errored, cmp.Or(subCodes[status], SubErrored), code
	}
	d.run.stop(*d.change.End, d.change.Time)
}

// subCodes are how a run ends whose sub-run did: any other is an error.
var subCodes = map[Status]Code{Blocked: SubBlocked, PlanRejected: SubPlanRejected}

// await has the run wait.
func (d *draft) await(w Wait, args []byte) {
	w.Since = d.change.Time
	d.change.Wait, d.change.Private.Arguments = &w, args
	d.run.Wait, d.run.Args = w, args
}

// faultClass says how a run ends whose planner may not be asked again.
type faultClass uint8

const (
	badPlan faultClass = iota
	badStep
	badCall
)

// fail gives up the plan: the planner is told a code and asked again, as long as it
// may be. A sub-run has one plan: there the run ends. The label says what content chose
// of the error; nil is nothing, since the plan alone decided it.
func (d *draft) fail(class faultClass, f Fault, label *Label) {
	steps := f.steps
	if running := d.run.top().checked; running != nil {
		steps = running.view.plan.size
	}
	path := ""
	if f.Step != "" {
		path = d.run.top().path(f.scope + f.Step)
	}
	status := [...]Status{badPlan: PlanRejected, badStep: Errored, badCall: Blocked}[class]
	if len(d.run.Frames) > 1 || d.run.Totals.Plans >= d.run.Start.Limits.MaxPlans {
		d.end(status, f.Code, path)
		return
	}
	cost := errorBits(steps, d.run.Start.Limits.ControlBits > 0)
	if d.run.Totals.PlannerBits+cost > d.run.Start.Limits.MaxPlannerBits {
		d.end(Aborted, LimitPlannerBits, path)
		return
	}
	d.run.Totals.PlannerBits += cost
	e := PlanError{Attempt: d.run.Totals.Plans, Step: f.Step, Code: f.Code}
	if label != nil && (label.Tainted() || label.ThirdParty()) {
		control := label.influencedBy(Origin(errorOrigin+strconv.Itoa(e.Attempt)), Width(cost))
		e.Control = &control
	}
	d.change.Told = &e
	d.run.addPlanError(e, d.change.Private.Plan)
	d.askPlanner()
}

// errorBits is what one error can tell a planner: which of the codes, at which step,
// or that there is none.
func errorBits(steps int, steers bool) int {
	codes := len(plannerCodes)
	if steers {
		codes += len(steerCodes)
	}
	return bits.Len(uint(codes * max(steps, 1)))
}

// askPlanner asks for the first or the next plan.
func (d *draft) askPlanner() {
	if d.run.Totals.Plans >= d.run.Start.Limits.MaxPlans {
		d.end(Aborted, LimitPlans, "")
		return
	}
	d.run.Totals.Plans++
	d.await(Wait{
		Kind: WaitPlanner, ID: "p" + d.moment.Fresh, Agent: d.kernel.definition.Planner, Attempt: d.run.Totals.Plans,
		Deadline: d.change.Time + int64(d.run.Start.Limits.PlannerTimeout),
	}, nil)
}

// askLater asks a planner again whose model is away: that is no plan, and tells it
// nothing. What bounds it is the time that the run has.
func (d *draft) askLater() {
	w := d.run.Wait
	w.ID = "p" + d.moment.Fresh
	w.NotBefore = d.change.Time + int64(min(firstPlannerPause<<min(w.Outages, 16), maxPlannerPause))
	w.Outages++
	w.Deadline = w.NotBefore + int64(d.run.Start.Limits.PlannerTimeout)
	d.await(w, nil)
}

// ready makes what a plan that runs needs of the definitions: it was checked, and
// its values have types. A plan that the definitions of today refuse is given up.
func (d *draft) ready() bool {
	class, fault, label := d.build()
	if fault.Code != "" {
		d.fail(class, fault, label)
	}
	return fault.Code == ""
}

// build is ready, and gives up nothing.
func (d *draft) build() (faultClass, Fault, *Label) {
	f := d.run.top()
	if f.checked != nil && f.checked.kernel == d.kernel && len(f.view.nodes) == len(f.Done) {
		return 0, Fault{}, nil
	}
	next := *f
	if next.checked != nil && next.checked.base != nil {
		next.checked = next.checked.base
	}
	if next.checked == nil || next.checked.kernel != d.kernel {
		checked, fault := d.kernel.ReadPlan(f.Plan, d.run.checking())
		if fault.Code != "" {
			return badPlan, fault, nil
		}
		next.checked = checked
	}
	next.view = view{plan: next.checked.view.plan, query: &next.checked.frame.Query, own: next.checked.view.own}
	for i := range f.Done {
		n, code := next.buildNode(&f.Done[i])
		if code != "" {
			label := Join(f.Query, f.Done[i].Label)
			s := &next.checked.view.plan.Steps[i]
			return badStep, Fault{Code: code, Step: s.ID, scope: s.scope}, &label
		}
		next.view.nodes = append(next.view.nodes, n)
		if n.fork != nil {
			names, _ := n.fork.taken(&next.checked.view.plan.Steps[i], n.value)
			checked, fault := next.checked.unfold(i, names)
			if fault.Code != "" {
				return badPlan, fault, nil
			}
			next.checked, next.view.plan = checked, checked.view.plan
		}
	}
	d.run.replaceTop(&next)
	return 0, Fault{}, nil
}

// buildNode returns the value of the step that is done next.
func (f *frame) buildNode(s *done) (node, Code) {
	foreseen := f.checked.view.nodes[len(f.view.nodes)]
	if step := &f.checked.view.plan.Steps[len(f.view.nodes)]; step.local() && step.Kind != ConstStep {
		n, code := f.checked.local(&f.view, step, foreseen.at)
		if n.label = s.Label; code == "" && n.value == nil && !n.made() {
			code = PathMissing // it was erased
		}
		return n, code
	}
	n := node{typ: foreseen.typ, value: s.Value, label: s.Label, at: foreseen.at, literal: foreseen.literal}
	if n.literal {
		n.value = foreseen.value
	}
	if n.value == nil {
		return n, PathMissing // it was erased
	}
	return n, ""
}

// finish gives a step its value.
func (d *draft) finish(record StepRecord, n node) {
	record.Done, record.Label = true, n.label
	f := d.run.top()
	if f != d.own {
		mine := *f
		mine.Done, mine.view.nodes = slices.Clip(f.Done), slices.Clip(f.view.nodes)
		d.run.replaceTop(&mine)
		f, d.own = &mine, &mine
	}
	f.Done = append(f.Done, done{record.Kind, n.value, n.label, record.Key})
	f.view.nodes = append(f.view.nodes, n)
	d.change.Steps = append(d.change.Steps, record)
}
