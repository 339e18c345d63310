package kernel

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The Decide methods judge one message each and change nothing. What they return
// is stored, then applied, then released: see [State.Releases]. A change with a Code
// is a refusal, which is stored as well.

// DecideRun judges a requester's message: who it is, under which grant, and what of
// the task content may have chosen (task) is the gateway's to say.
func (s *State) DecideRun(m bcp.Moment, kernel bcp.AgentName, from Requester, grant string, task Label, body []byte) Change {
	c := Change{Kind: bcp.KindRun, Time: s.now(m), Run: RunID("r" + m.Fresh)}
	c.Start = &Start{Kernel: kernel, Requester: from, GrantName: grant, Task: task}
	k := s.kernels[kernel]
	message, code := parseRun(body)
	c.Start.Request, c.Private.Digest = message.request, sha256.Sum256(body)
	if message.request != "" {
		if before, known := s.asked(requestKey{kernel, from.Name, message.request}, c.Time); known {
			if c = c.repeat(before); c.Code == BadRule && k != nil {
				_, _, c.Place = s.checkOwn(k, message.rules, k.grants[grant])
			}
			return c
		}
	}
	switch {
	case code != "":
		c.Code = code
		return c
	case k == nil:
		c.Code = UnknownKernel
		return c
	}
	if message.question != "" {
		return s.reply(m, from.Name, &message, task)
	}
	held, ok := k.GrantOf(bcp.AgentName(from.Name), grant)
	if !ok {
		c.Code = UnknownGrant
		return c
	}
	if s.openBy[from.Name] >= MaxOpenRuns {
		c.Code = LimitOpenRuns
		return c
	}
	own, code, wrong := s.checkOwn(k, message.rules, held)
	if c.Code, c.Place = code, wrong; code != "" {
		return c
	}
	c.Start.Grant, c.Start.Limits, c.Start.PlanOnly, c.Start.Anew = held, k.LimitsOf(grant), message.planOnly, message.anew
	c.Private.Task, c.Private.Rules, c.Private.Salt = message.task, message.rules, runSalt(m)
	d := &draft{state: s, kernel: k, moment: m, run: begin(&c), change: &c}
	s.keepOwn(c.Run, k, own)
	d.run.Deadline = c.Time + int64(c.Start.Limits.RunTTL)
	d.askPlanner()
	return d.decided()
}

// RefuseRun refuses a requester's message for what is not the message's: nothing of it is
// read.
func (s *State) RefuseRun(m bcp.Moment, kernel bcp.AgentName, from Requester, grant string, code Code) Change {
	return Change{Kind: bcp.KindRun, Time: s.now(m), Run: RunID("r" + m.Fresh), Code: code, Start: &Start{Kernel: kernel, Requester: from, GrantName: grant}}
}

// repeat answers a message that was decided before (PROTOCOL P2.6). End says how its run
// ended, if it has.
func (c *Change) repeat(before request) Change {
	switch {
	case before.Digest != c.Private.Digest:
		c.Code = Malformed
	case before.Code != "":
		c.Code = before.Code
	default:
		c.Code, c.Run = Repeated, before.Run
		if before.Status != "" {
			c.End = &End{Status: before.Status, Code: before.Why}
		}
	}
	return *c
}

// open returns the run that waits for an id, if it waits for one of these.
func (s *State) open(id string, kinds ...WaitKind) *run {
	r := s.runs[s.waiting[id]]
	if r == nil || r.End != nil || r.Wait.ID != id || !slices.Contains(kinds, r.Wait.Kind) {
		return nil
	}
	return r
}

// refused is the change of a message that changes nothing.
func (s *State) refused(m bcp.Moment, kind bcp.DecisionKind, id string, code Code) Change {
	return Change{Kind: kind, Time: s.now(m), Run: s.waiting[id], Input: id, Code: code}
}

// begin begins a decision about an open run. A run whose kernel is gone ends.
func (s *State) begin(m bcp.Moment, kind bcp.DecisionKind, r *run) (*draft, bool) {
	d := s.draft(m, kind, r)
	if d.kernel == nil {
		d.end(Errored, UnknownKernel, "")
		return d, false
	}
	return d, true
}

// answered has the run that waits for an id, for one of these, judge what came of it; code
// refuses what no run waits for.
func (s *State) answered(m bcp.Moment, kind bcp.DecisionKind, id string, code Code, judge func(d *draft), kinds ...WaitKind) Change {
	r := s.open(id, kinds...)
	if r == nil {
		return s.refused(m, kind, id, code)
	}
	d, ok := s.begin(m, kind, r)
	if ok {
		judge(d)
	}
	return d.decided()
}

// DecidePlan judges the answer of a planner or a sub-planner to the request with
// this id.
func (s *State) DecidePlan(m bcp.Moment, from bcp.AgentName, id string, body []byte) Change {
	r := s.open(id, WaitPlanner, WaitSubPlanner)
	if r == nil || r.Wait.Agent != from {
		return s.refused(m, bcp.KindPlan, id, UnknownPlan)
	}
	d, ok := s.begin(m, bcp.KindPlan, r)
	if !ok {
		return d.decided()
	}
	switch plan, code := parsePlanMessage(body, id); {
	case code == PlannerUnavailable && r.Wait.Kind == WaitPlanner:
		d.askLater()
	case code == PlannerUnavailable: // a sub-planner read content, and has no say in when a run ends
		d.fail(badPlan, Fault{Code: PlannerRefused}, nil)
	case code != "":
		d.fail(badPlan, Fault{Code: code}, nil)
	default:
		d.plan(plan)
	}
	return d.decided()
}

// plan takes a plan: what can be found wrong with it is found before its first call.
func (d *draft) plan(plan []byte) {
	d.change.Private.Plan = plan
	checked, fault := d.kernel.ReadPlan(plan, d.run.checking())
	if fault.Code != "" {
		d.fail(badPlan, fault, nil)
		return
	}
	limits := &d.run.Start.Limits
	worst := checked.worst(0, len(checked.view.plan.Steps))
	if d.run.Totals.ControlWorst+worst.control > bcp.Bits(limits.ControlBits)*bcp.Bit {
		d.fail(badPlan, Fault{Code: ControlTooWide, Bits: worst.control, steps: checked.view.plan.size}, nil)
		return
	}
	d.run.Totals.Steps += worst.steps
	d.run.Totals.ControlWorst += worst.control
	accepted := &Accepted{Steps: worst.steps}
	if len(d.run.Frames) == 1 {
		accepted.Attempt = d.run.Totals.Plans
	}
	d.change.Plan = accepted
	d.run.accept(plan)
	frame := *d.run.top()
	frame.checked, frame.view = checked, view{plan: checked.view.plan, query: &checked.frame.Query, own: checked.view.own}
	d.run.replaceTop(&frame)
	switch {
	case d.run.Totals.Steps > limits.MaxSteps:
		d.abort(LimitSteps, "")
	case checked.subs > 0 && checked.frame.Depth+1 > limits.MaxDepth:
		d.abort(LimitDepth, "")
	case d.run.Totals.Effects+d.run.fewest(checked, ToolStep, worst.effects) > limits.MaxEffects:
		d.abort(LimitEffects, "")
	case d.run.Totals.Parses+d.run.fewest(checked, ParseStep, worst.parses) > limits.MaxParses:
		d.abort(LimitParses, "")
	case worst.questions > limits.MaxQuestions:
		d.abort(LimitQuestions, "")
	default:
		if f := find(checked.preflight(d.ownRules()), func(f *Forecast) bool { return f.Certain && f.Ruling == Deny }); f != nil {
			d.change.Steps = append(d.change.Steps, StepRecord{
				Path: checked.frame.path(f.Step), Kind: ToolStep, Tool: f.Tool, Judged: &f.Verdict, Early: true, Arguments: namedLabels(f.Arguments),
			})
			d.denied(f.step, f.Verdict.Code, nil)
			return
		}
		if d.run.Start.PlanOnly {
			d.end(Planned, "", "")
			return
		}
		d.advance()
	}
}

// fewest is how many calls, or parses, the plan cannot do without: what an earlier
// plan had done in the same frame may be the same. Of a plan that content steers it is
// that of the path with the most.
func (r *run) fewest(c *Checked, kind StepKind, most int) int {
	n := 0
	left := map[string]int{}
	for _, made := range r.Results {
		if made.Frame == c.frame.Path && (made.Tool == "") == (kind == ParseStep) {
			left[made.Tool]++
			most--
		}
	}
	if c.view.plan.forked {
		return max(most, 0)
	}
	for i := range c.view.plan.Steps {
		if s := &c.view.plan.Steps[i]; s.Kind == kind {
			if left[s.Tool]--; left[s.Tool] < 0 {
				n++
			}
		}
	}
	return n
}

func namedLabels(args []Argument) []NamedLabel {
	labels := make([]NamedLabel, len(args))
	for i := range args {
		labels[i] = NamedLabel{args[i].Name, args[i].Label}
	}
	return labels
}

// DecideAnswer takes what became of an ask to a Reader: the answer that was accepted
// and delivered, in canonical JSON, or why there is none.
func (s *State) DecideAnswer(m bcp.Moment, id string, answer []byte, code bcp.Code) Change {
	return s.answered(m, bcp.KindStep, id, UnknownCall, func(d *draft) {
		if !d.ready() {
			return
		}
		step, _ := d.run.top().next()
		failed, known := answerCodes[code]
		value, fits := Value{}, false
		if known && failed == "" {
			value, fits = d.kernel.schemas[step.Schema].read(answer)
		}
		switch {
		case !known:
			d.recordOutcome(ParseUnavailable, nil)
			d.end(Errored, ParseUnavailable, d.run.Wait.Step)
		case fits:
			d.performed(&value)
		default:
			failed = cmp.Or(failed, ParseRejected)
			d.recordOutcome(failed, nil)
			d.failStep(step, failed)
		}
	}, WaitReader)
}

// answerCodes say why there is no answer of a Reader, in words of this package. With any
// other the channel has no budget, or nobody who could answer.
var answerCodes = map[bcp.Code]Code{
	"": "", bcp.NotEnoughInformation: NotEnoughInformation, bcp.Expired: ParseExpired, bcp.Rejected: ParseRejected,
	bcp.ApprovalRejected: ParseRejected, bcp.ApprovalExpired: ParseRejected, bcp.EscalationDenied: ParseRejected,
}

// recordOutcome notes what came of a call or an ask.
func (d *draft) recordOutcome(code Code, value *Value) {
	d.change.Result = &Result{Key: d.run.Wait.Key, Code: code}
	if value != nil {
		d.change.Private.Value = value.JSON()
	}
	d.run.setResult(d.change.Result, d.change.Attempt, value)
}

// answer gives the step that was waited for its value, and goes on.
func (d *draft) answer(record StepRecord, n node) {
	record.Key = d.run.Wait.Key
	d.recordOutcome("", n.value)
	if len(d.change.Private.Value) > d.run.Start.Limits.MaxValueBytes {
		d.abort(LimitValueBytes, record.Path)
		return
	}
	d.finish(record, n)
	d.advance()
}
