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
	id       RunID
	start    Start
	task     string
	salt     bcp.Digest // of the keys
	rules    []RunRule
	totals   Totals
	began    int64
	deadline int64
	frames   []*frame // the run, and the sub-runs that are open
	told     []PlanError
	failed   []byte     // the plan that the newest of these is about; nil: there was none
	results  []*result  // of calls and parses, by key
	settled  []*settled // calls that have an outcome
	wait     Wait
	args     []byte  // of the call that the wait is about
	leaves   []Leave // for later calls of the loop that it waits in
	end      *End
	ended    int64
}

// result is a value that a tool or a Reader gave.
type result struct {
	key   bcp.Digest
	value *Value // nil: erased
	frame string // the path of the sub-run
	tool  string // empty for a parse
}

// settled is a call that has its outcome.
type settled struct {
	call    string
	service bcp.AgentName
	attempt int  // that answered
	sent    int  // attempts
	again   bool // others may answer, too, and do no harm
}

// frame is a run or sub-run with the plan that it is at.
type frame struct {
	Frame
	instruction string
	content     *Value // of a sub-run
	bytes       []byte // of the plan; nil: it is asked for
	done        []done // the steps that have a value

	// What follows is made of the above and the kernel's definition when needed.
	checked *Checked
	view    view
}

// done is a step that has a value.
type done struct {
	kind  StepKind
	value *Value // of a call, a parse or a sub-run
	label Label
	key   bcp.Digest
}

// copy returns a run that can be changed.
func (r *run) copy() *run {
	c := *r
	c.frames, c.told, c.results = slices.Clip(r.frames), slices.Clip(r.told), slices.Clip(r.results)
	c.settled, c.leaves = slices.Clip(r.settled), slices.Clip(r.leaves)
	return &c
}

// top returns the innermost frame.
func (r *run) top() *frame { return r.frames[len(r.frames)-1] }

// replaceTop replaces the innermost frame.
func (r *run) replaceTop(f *frame) {
	r.frames = append(slices.Clip(r.frames[:len(r.frames)-1]), f)
}

// value returns the value of a call or parse that was made before, if there is one.
func (r *run) value(key bcp.Digest) (*Value, bool) {
	for _, o := range r.results {
		if o.key == key {
			return o.value, true
		}
	}
	return nil, false
}

// begin starts the run of a change.
func begin(c *Change) *run {
	r := &run{id: c.Run, began: c.Time, start: *c.Start, task: c.Private.Task, salt: c.Private.Salt, rules: c.Private.Rules}
	r.frames = []*frame{{Frame: Frame{Grant: c.Start.Grant, Query: c.Start.Task, Asker: r.asker(), ControlBits: c.Start.Limits.ControlBits, Questions: c.Start.Limits.MaxQuestions}}}
	return r
}

// asker is whom the run serves.
func (r *run) asker() Asker {
	return Asker{Requester: r.start.Requester, Task: Task{Known: true, Text: r.task, Label: r.start.Task}}
}

// setResult notes what a tool or a Reader answered.
func (r *run) setResult(o *Result, attempt int, value *Value) {
	w := &r.wait
	if o.Code == "" {
		r.results = append(r.results, &result{o.Key, value, r.top().Path, w.Tool})
	}
	if call := w.call(); call != "" {
		r.settled = append(r.settled, &settled{call: call, service: w.Agent, attempt: attempt, sent: w.Attempt, again: !w.Overruled})
	}
}

// accept gives the innermost frame its plan.
func (r *run) accept(plan []byte) {
	f := *r.top()
	f.bytes, f.done, f.checked, f.view = plan, nil, nil, view{}
	r.replaceTop(&f)
}

// finish gives a step its value; sub-runs below it are over. It is false for a step of
// a sub-run that is not open.
func (r *run) finish(s *StepRecord, value *Value) bool {
	parent := parentPath(s.Path)
	for len(r.frames) > 1 && r.top().Path != parent {
		r.frames = slices.Clip(r.frames[:len(r.frames)-1])
	}
	if r.top().Path != parent && (len(r.frames) > 1 || !r.top().forked()) {
		return false
	}
	f := *r.top()
	f.done = append(slices.Clip(f.done), done{s.Kind, value, s.Label, s.Key})
	r.replaceTop(&f)
	return true
}

// forked reports whether a when or an each of the frame was done: paths of steps are longer
// then.
func (f *frame) forked() bool {
	return slices.ContainsFunc(f.done, func(d done) bool { return d.kind == WhenStep || d.kind == EachStep })
}

// parentPath returns the path of the sub-run that a step is in.
func parentPath(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// open begins a sub-run.
func (r *run) open(sub Frame, instruction string, content *Value) {
	sub.Asker = r.asker()
	r.frames = append(r.frames, &frame{Frame: sub, instruction: instruction, content: content})
}

// addPlanError adds an error that the planner is told, and gives up the plan: the one
// that ran, or else the one that it answered with. That of a sub-run is never told.
func (r *run) addPlanError(e PlanError, answered []byte) {
	r.told, r.leaves = append(r.told, e), nil
	if r.failed = r.frames[0].bytes; r.failed == nil {
		r.failed = answered
	}
	next := r.frames[0].Frame
	if e.Control != nil {
		next.Query = next.Query.join(e.Control)
	}
	r.frames = []*frame{{Frame: next}}
}

// stop ends the run. Of its values nothing is kept.
func (r *run) stop(e End, at int64) {
	if call := r.wait.call(); call != "" {
		r.settled = append(r.settled, &settled{call: call, service: r.wait.Agent, sent: r.wait.Attempt})
	}
	r.end, r.ended, r.wait = &e, at, Wait{}
	r.frames = []*frame{{Frame: r.frames[0].Frame}}
	r.frames[0].Asker = Asker{}
	r.results, r.args, r.failed, r.leaves, r.task, r.salt, r.rules = nil, nil, nil, nil, "", bcp.Digest{}, nil
}

// due is when time has something to decide about the run; 0 is never.
func (r *run) due() int64 {
	switch {
	case r.end != nil:
		return 0
	case r.wait.Kind.Person():
		return r.wait.Deadline
	case r.wait.Deadline > 0:
		return min(r.wait.Deadline, r.deadline)
	default:
		return r.deadline
	}
}
