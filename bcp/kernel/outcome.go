package kernel

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// DecideOutcome judges what a service of tools answered to an attempt of a call. Another
// service than the one that was asked knows no call. The first valid answer counts. One
// that comes once the call has its outcome was perhaps a second effect: it ends the run,
// unless the call was sent again because doing it twice is as good as once.
func (s *State) DecideOutcome(m bcp.Moment, from bcp.AgentName, call string, attempt int, body []byte) Change {
	r := s.runs[s.calls[call]]
	if r == nil || r.service(call) != from {
		return s.refused(m, bcp.KindOutcome, call, UnknownCall)
	}
	if r.End != nil || r.Wait.call() != call {
		return s.decideLate(m, r, call, attempt)
	}
	d, ok := s.begin(m, bcp.KindOutcome, r)
	d.change.Input, d.change.Attempt = call, attempt
	if !ok {
		return d.decided()
	}
	if attempt < 1 || attempt > r.Wait.Attempt {
		return s.refused(m, bcp.KindOutcome, call, UnknownCall)
	}
	if attempt < r.Wait.Attempt && r.Wait.Overruled {
		d.change.Alert = LateOutcome
		d.end(Errored, LateOutcome, r.Wait.Step)
		return d.decided()
	}
	d.outcome(body)
	return d.decided()
}

// decideLate judges an outcome of a call that is over.
func (s *State) decideLate(m bcp.Moment, r *run, call string, attempt int) Change {
	over := r.settledCall(call)
	code := LateOutcome
	if attempt == over.Attempt {
		code = SecondOutcome
	}
	expected := code == LateOutcome && over.Again && attempt >= 1 && attempt <= over.Sent
	if r.End == nil && !expected {
		d, ok := s.begin(m, bcp.KindOutcome, r)
		d.change.Input, d.change.Attempt, d.change.Alert = call, attempt, code
		if ok {
			d.end(Errored, code, "")
		}
		return d.decided()
	}
	c := s.refused(m, bcp.KindOutcome, call, code)
	c.Run, c.Attempt = r.ID, attempt
	if !expected {
		c.Alert = code
	}
	return c
}

// service returns whom a call was sent to.
func (r *run) service(call string) bcp.AgentName {
	if r.End == nil && r.Wait.call() == call {
		return r.Wait.Agent
	}
	return r.settledCall(call).Service
}

// settledCall returns what is known of a call that is over.
func (r *run) settledCall(call string) settled {
	for _, over := range r.Settled {
		if over.Call == call {
			return *over
		}
	}
	return settled{}
}

// outcome takes the answer of the tool that the run waits for.
func (d *draft) outcome(body []byte) {
	t := d.kernel.tools[d.run.Wait.Tool]
	if t == nil || !d.ready() {
		if d.isOpen() {
			d.recordOutcome(ToolChanged, nil)
			d.end(Errored, ToolChanged, d.run.Wait.Step)
		}
		return
	}
	o := parseOutcome(body, d.change.Input, d.run.Start.Limits.MaxValueBytes)
	d.change.Private.Note = o.note
	switch {
	case o.code == LimitValueBytes:
		d.recordOutcome(o.code, nil)
		d.abort(LimitValueBytes, d.run.Wait.Step)
	case o.code == ToolChanged:
		d.change.Alert = ToolChanged
		d.recordOutcome(ToolChanged, nil)
		d.end(Errored, ToolChanged, d.run.Wait.Step)
	case o.code == ToolFailed:
		d.unperformed(ToolFailed, t.Level != Write || o.notPerformed)
	case o.code != "" || !t.Output.Has(&o.value):
		d.unperformed(BadOutcome, t.Level != Write)
	default:
		d.performed(&o.value)
	}
}

// unperformed ends a call without a value. After a write that may have been done,
// there is no next plan.
func (d *draft) unperformed(code Code, again bool) {
	d.recordOutcome(code, nil)
	step := d.run.Wait.Step
	if !again {
		d.end(Errored, code, step)
		return
	}
	s, _ := d.run.top().next()
	d.failStep(s, code)
}

// performed gives the step of the call, or of the parse, its value.
func (d *draft) performed(value *Value) {
	f := d.run.top()
	s, at := f.next()
	g, code := d.prepare(f, &f.view, s, at, nil)
	if code != "" {
		d.failStep(s, code)
		return
	}
	d.answer(StepRecord{Path: string(at), Kind: s.Kind, Tool: g.record.Tool, Inputs: g.record.Inputs}, g.node(&f.view, value))
}

// DecideUnsent takes it that a call was not sent: the server refused the dispatcher, a
// tool is not what was pinned, or its service is suspended (code is tool_unavailable,
// tool_changed or suspended). It was not performed.
func (s *State) DecideUnsent(m bcp.Moment, call string, code Code) Change {
	return s.answered(m, bcp.KindCall, call, UnknownCall, func(d *draft) {
		d.recordOutcome(code, nil)
		d.change.Alert = code
		d.end(Errored, code, d.run.Wait.Step)
	}, WaitTool)
}

// DecideDue returns what time alone decides now. It is false when nothing is due;
// apply what it returns and call it until then.
func (s *State) DecideDue(m bcp.Moment) (Change, bool) {
	if len(s.deadline) == 0 || s.deadline[0].at > s.now(m) {
		return Change{}, false
	}
	return s.overdue(m, s.runs[s.deadline[0].run]), true
}

// overdue is what time decides about a run.
func (s *State) overdue(m bcp.Moment, r *run) Change {
	kind := bcp.KindRun
	switch r.Wait.Kind {
	case WaitPlanner, WaitSubPlanner:
		kind = bcp.KindPlan
	case WaitTool, WaitApproval, WaitDoubt, WaitQuestion:
		kind = bcp.KindCall
	}
	d, ok := s.begin(m, kind, r)
	if !ok {
		return d.decided()
	}
	switch w := r.Wait; {
	case w.Kind == WaitApproval, w.Kind == WaitQuestion:
		d.end(Blocked, ApprovalExpired, w.Step)
	case w.Kind == WaitDoubt:
		d.end(Doubted, InDoubt, w.Step)
	case r.Deadline <= d.change.Time && r.Wait.Outages > 0:
		d.end(Aborted, PlannerUnavailable, w.Step)
	case r.Deadline <= d.change.Time:
		d.end(Aborted, LimitRunTTL, w.Step)
	case w.Kind == WaitTool:
		d.unanswered()
	default:
		d.end(Aborted, PlannerTimeout, w.Step)
	}
	return d.decided()
}

// NextDue is when [State.DecideDue] has something to decide next, Unix nanoseconds;
// 0 is never.
func (s *State) NextDue() int64 {
	if len(s.deadline) == 0 {
		return 0
	}
	return s.deadline[0].at
}

// DecideRestart decides about a call that may have been sent before this process
// began, and whose answer may be lost. Call it for each of [State.Unanswered] after
// a start.
func (s *State) DecideRestart(m bcp.Moment, call string) Change {
	return s.answered(m, bcp.KindCall, call, UnknownCall, (*draft).unanswered, WaitTool)
}

// Unanswered returns the ids of the calls that have no outcome.
func (s *State) Unanswered() []string {
	var calls []string
	for _, r := range s.sorted() {
		if r.End == nil && r.Wait.Kind == WaitTool {
			calls = append(calls, r.Wait.ID)
		}
	}
	return calls
}

// unanswered sends a call again where that does no harm, and has a person look at it
// otherwise.
func (d *draft) unanswered() {
	w := d.run.Wait
	t := d.kernel.tools[w.Tool]
	if t == nil || !t.Repeats() {
		w.Call, w.ID = w.ID, ""
		d.askPerson(w, WaitDoubt, d.run.Args)
		return
	}
	d.resend(w, t)
}

// resend sends a call again, with its key.
func (d *draft) resend(w Wait, t *Tool) {
	w.Kind, w.ID, w.Call, w.Agent, w.Attempt = WaitTool, w.call(), "", bcp.AgentName(t.Service), w.Attempt+1
	w.Deadline = d.change.Time + int64(t.timeout())
	d.await(w, d.run.Args)
}
