package kernel

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// run is one run. It is never changed: what changes is made of a copy, and slices
// are clipped before they grow, so that a decision that is not recorded leaves no
// trace.
type run struct {
	ID       RunID       `record:"id"`
	Start    Start       `record:"start,always"`
	Task     string      `record:"task,said"`
	Salt     bcp.Digest  `record:"salt,said"` // of the keys
	Rules    []RunRule   `record:"rules,said"`
	Totals   Totals      `record:"totals,always"`
	Began    int64       `record:"began"`
	Deadline int64       `record:"deadline"`
	Frames   []*frame    `record:"frames"` // the run, and the sub-runs that are open
	Told     []PlanError `record:"told"`
	Failed   []byte      `record:"failed,said"` // the plan that the newest of these is about; nil: there was none
	Results  []*result   `record:"results"`     // of calls and parses, by key
	Settled  []*settled  `record:"settled"`     // calls that have an outcome
	Wait     Wait        `record:"wait,always"`
	Args     []byte      `record:"arguments,said"` // of the call that the wait is about
	Leaves   []Leave     `record:"leaves"`         // for later calls of the loop that it waits in
	End      *End        `record:"end"`
	Ended    int64       `record:"ended"`
}

// result is a value that a tool or a Reader gave.
type result struct {
	Key   bcp.Digest `record:"key"`
	Value *Value     `record:"value,said"` // nil: erased
	Frame string     `record:"frame"`      // the path of the sub-run
	Tool  string     `record:"tool"`       // empty for a parse
}

// settled is a call that has its outcome.
type settled struct {
	Call    string        `record:"call"`
	Service bcp.AgentName `record:"service"`
	Attempt int           `record:"attempt"` // that answered
	Sent    int           `record:"sent"`    // attempts
	Again   bool          `record:"again"`   // others may answer, too, and do no harm
}

// frame is a run or sub-run with the plan that it is at.
type frame struct {
	Frame
	Instruction string `record:"instruction,said"`
	Content     *Value `record:"content,said"` // of a sub-run
	Plan        []byte `record:"plan,said"`    // nil: it is asked for
	Done        []done `record:"steps"`        // the steps that have a value

	// What follows is made of the above and the kernel's definition when needed.
	checked *Checked
	view    view
}

// done is a step that has a value.
type done struct {
	Kind  StepKind   `record:"kind"`
	Value *Value     `record:"value,said"` // of a call, a parse or a sub-run
	Label Label      `record:"label,always"`
	Key   bcp.Digest `record:"key"`
}

// copy returns a run that can be changed.
func (r *run) copy() *run {
	c := *r
	c.Frames, c.Told, c.Results = slices.Clip(r.Frames), slices.Clip(r.Told), slices.Clip(r.Results)
	c.Settled, c.Leaves = slices.Clip(r.Settled), slices.Clip(r.Leaves)
	return &c
}

// top returns the innermost frame.
func (r *run) top() *frame { return r.Frames[len(r.Frames)-1] }

// replaceTop replaces the innermost frame.
func (r *run) replaceTop(f *frame) {
	r.Frames = append(slices.Clip(r.Frames[:len(r.Frames)-1]), f)
}

// next returns the step whose turn it is, and where it is.
func (f *frame) next() (*Step, Origin) {
	return &f.checked.view.plan.Steps[len(f.Done)], f.checked.view.nodes[len(f.Done)].at
}

// value returns the value of a call or parse that was made before, if there is one.
func (r *run) value(key bcp.Digest) (*Value, bool) {
	for _, o := range r.Results {
		if o.Key == key {
			return o.Value, true
		}
	}
	return nil, false
}

// begin starts the run of a change.
func begin(c *Change) *run {
	r := &run{ID: c.Run, Began: c.Time, Start: *c.Start, Task: c.Private.Task, Salt: c.Private.Salt, Rules: c.Private.Rules}
	r.Frames = []*frame{{Frame: Frame{Grant: c.Start.Grant, Query: c.Start.Task}}}
	return r
}

// checking is where a plan of the innermost frame is checked: with whom the run serves, and
// what it may have.
func (r *run) checking() Frame {
	f := r.top().Frame
	f.Asker = Asker{Requester: r.Start.Requester, Task: Task{Known: true, Text: r.Task, Label: r.Start.Task}}
	f.ControlBits, f.Questions = r.Start.Limits.ControlBits, r.Start.Limits.MaxQuestions
	return f
}

// setResult notes what a tool or a Reader answered.
func (r *run) setResult(o *Result, attempt int, value *Value) {
	w := &r.Wait
	if o.Code == "" {
		r.Results = append(r.Results, &result{o.Key, value, r.top().Path, w.Tool})
	}
	if call := w.call(); call != "" {
		r.Settled = append(r.Settled, &settled{Call: call, Service: w.Agent, Attempt: attempt, Sent: w.Attempt, Again: !w.Overruled})
	}
}

// accept gives the innermost frame its plan.
func (r *run) accept(plan []byte) {
	f := *r.top()
	f.Plan, f.Done, f.checked, f.view = plan, nil, nil, view{}
	r.replaceTop(&f)
}

// finish gives a step its value; sub-runs below it are over. It is false for a step of
// a sub-run that is not open.
func (r *run) finish(s *StepRecord, value *Value) bool {
	parent := parentPath(s.Path)
	for len(r.Frames) > 1 && r.top().Path != parent {
		r.Frames = slices.Clip(r.Frames[:len(r.Frames)-1])
	}
	if r.top().Path != parent && (len(r.Frames) > 1 || !r.top().forked()) {
		return false
	}
	f := *r.top()
	f.Done = append(slices.Clip(f.Done), done{s.Kind, value, s.Label, s.Key})
	r.replaceTop(&f)
	return true
}

// forked reports whether a when or an each of the frame was done: paths of steps are longer
// then.
func (f *frame) forked() bool {
	return slices.ContainsFunc(f.Done, func(d done) bool { return d.Kind == WhenStep || d.Kind == EachStep })
}

// parentPath returns the path of the sub-run that a step is in.
func parentPath(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// open begins a sub-run.
func (r *run) open(sub Frame, instruction string, content *Value) {
	r.Frames = append(r.Frames, &frame{Frame: sub, Instruction: instruction, Content: content})
}

// addPlanError adds an error that the planner is told, and gives up the plan: the one
// that ran, or else the one that it answered with. That of a sub-run is never told.
func (r *run) addPlanError(e PlanError, answered []byte) {
	r.Told, r.Leaves = append(r.Told, e), nil
	if r.Failed = r.Frames[0].Plan; r.Failed == nil {
		r.Failed = answered
	}
	next := r.Frames[0].Frame
	if e.Control != nil {
		next.Query = next.Query.join(e.Control)
	}
	r.Frames = []*frame{{Frame: next}}
}

// stop ends the run. Of its values nothing is kept.
func (r *run) stop(e End, at int64) {
	if call := r.Wait.call(); call != "" {
		r.Settled = append(r.Settled, &settled{Call: call, Service: r.Wait.Agent, Sent: r.Wait.Attempt})
	}
	r.End, r.Ended, r.Wait = &e, at, Wait{}
	r.Frames = []*frame{{Frame: r.Frames[0].Frame}}
	r.Results, r.Args, r.Failed, r.Leaves, r.Task, r.Salt, r.Rules = nil, nil, nil, nil, "", bcp.Digest{}, nil
}

// due is when time has something to decide about the run; 0 is never.
func (r *run) due() int64 {
	switch {
	case r.End != nil:
		return 0
	case r.Wait.Kind.Person():
		return r.Wait.Deadline
	case r.Wait.Deadline > 0:
		return min(r.Wait.Deadline, r.Deadline)
	default:
		return r.Deadline
	}
}
