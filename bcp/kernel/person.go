package kernel

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// PersonDecision is what a person decides about an item.
type PersonDecision string

// The decisions: about a call that is to be made, and about one that may have been.
const (
	Approve PersonDecision = "approve"
	Reject  PersonDecision = "reject"   // it is not made; or nobody knows, and the run ends in doubt
	Done    PersonDecision = "done"     // it was done
	NotDone PersonDecision = "not_done" // it was not: send it again
	Answer  PersonDecision = "answer"   // what the requester would
)

// about is what each can be decided about, but for Reject, which goes for all.
var about = map[PersonDecision]WaitKind{Approve: WaitApproval, Done: WaitDoubt, NotDone: WaitDoubt, Answer: WaitQuestion}

// About reports whether it can be decided about what waits for a person.
func (d PersonDecision) About(kind WaitKind) bool {
	return d == Reject || kind.Person() && about[d] == kind
}

// DecidePerson takes a person's decision about an item. That the person may decide,
// and signed for these very bytes, is checked before. result is what the tool
// returned, in JSON, where the person says that it was done, or the answer to a question.
func (s *State) DecidePerson(m bcp.Moment, item string, decision PersonDecision, result []byte) Change {
	r := s.open(item, WaitApproval, WaitDoubt, WaitQuestion)
	if r == nil || !decision.About(r.Wait.Kind) {
		return s.refused(m, bcp.KindStep, item, UnknownItem)
	}
	d, ok := s.begin(m, bcp.KindStep, r)
	if !ok {
		return d.decided()
	}
	w := r.Wait
	t := d.kernel.tools[w.Tool]
	switch {
	case decision == Reject && w.Kind == WaitDoubt:
		d.end(Doubted, InDoubt, w.Step)
	case decision == Reject:
		d.end(Blocked, ApprovalRejected, w.Step)
	case !d.ready():
	case decision == Answer:
		if !d.answerQuestion(result) {
			return s.refused(m, bcp.KindStep, item, BadOutcome)
		}
	case t == nil:
		d.end(Errored, ToolChanged, w.Step)
	case decision == Approve:
		d.approve(w)
	case decision == NotDone:
		w.Overruled = true
		d.resend(w, t)
	default:
		value, err := ParseValue(result)
		if err != nil || !t.Output.Has(&value) {
			return s.refused(m, bcp.KindStep, item, BadOutcome)
		}
		d.performed(&value)
	}
	return d.decided()
}

// DecideStop ends a run: because a person or its requester says so (code is cancelled),
// or since its requester or planner is suspended.
func (s *State) DecideStop(m bcp.Moment, id RunID, code Code) Change {
	r := s.runs[id]
	if r == nil || r.End != nil {
		return Change{Kind: bcp.KindRun, Time: s.now(m), Run: id, Code: UnknownRun}
	}
	d := s.draft(m, bcp.KindRun, r)
	d.end(Stopped, code, r.Wait.Step)
	return d.decided()
}

// RunOf returns a run that has not ended and whose requester or planner is one of these.
func (s *State) RunOf(suspended func(bcp.AgentName) bool) (RunID, bool) {
	for _, id := range s.waiting {
		r := s.runs[id]
		if r == nil || r.End != nil {
			continue
		}
		if k := s.kernels[r.Start.Kernel]; suspended(bcp.AgentName(r.Start.Requester.Name)) || k != nil && suspended(k.definition.Planner) {
			return id, true
		}
	}
	return "", false
}

// Suspended refuses a message of an agent that is suspended. What it answers waits on.
func (s *State) Suspended(m bcp.Moment, kind bcp.DecisionKind, id string) Change {
	return s.refused(m, kind, id, Suspended)
}

// approve makes a call that a person let through. It is judged once more: what the
// rules forbid by now, nobody can approve, and what was shown is what is made.
func (d *draft) approve(w Wait) {
	f := d.run.top()
	s, _ := f.next()
	args, code := f.view.arguments(s)
	if code != "" {
		d.failStep(s, code)
		return
	}
	call := f.checked.buildCall(&f.view, s, args, d.ownRules())
	verdict := d.kernel.Gate().Judge(&call)
	switch {
	case verdict.Ruling == Deny:
		d.change.Steps = append(d.change.Steps, StepRecord{Path: w.Step, Kind: ToolStep, Tool: w.Tool, Judged: &verdict, Arguments: namedLabels(args), Control: call.Steer})
		label := d.errorLabel()
		d.denied(s, verdict.Code, &label)
	case !known(args) || string(argumentsJSON(args)) != string(d.run.Args):
		d.end(Errored, ToolChanged, w.Step)
	default:
		d.intend(Wait{Step: w.Step, Tool: w.Tool, Key: w.Key, Approved: true}, d.run.Args)
	}
}
