package kernel

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// RunID names a run. The gateway makes it from at least 96 random bits.
type RunID string

// ChangeKind says what came in: it is the kind of the decision that bears the change.
type ChangeKind uint8

// The kinds of changes.
const (
	ChangeRun     = ChangeKind(bcp.KindRun)     // a requester, or a person, about a run
	ChangePlan    = ChangeKind(bcp.KindPlan)    // a planner or sub-planner
	ChangeStep    = ChangeKind(bcp.KindStep)    // a Reader's answer, or a person about a call
	ChangeCall    = ChangeKind(bcp.KindCall)    // time, or a restart, about a call
	ChangeOutcome = ChangeKind(bcp.KindOutcome) // a tool
)

// WaitKind says whom a run waits for. The zero value is nobody.
type WaitKind uint8

// Whom a run can wait for.
const (
	NoWait WaitKind = iota
	WaitPlanner
	WaitSubPlanner
	WaitReader
	WaitTool
	WaitApproval // a person, about a call that is to be made
	WaitDoubt    // a person, about a call that may have been made
	WaitQuestion // the requester, or a person in its place
)

var waitWords = []string{"", "planner", "sub_planner", "reader", "tool", "approval", "doubt", "question"}

// Word returns the word for whom a run waits.
func (k WaitKind) Word() string { return waitWords[min(int(k), len(waitWords)-1)] }

// Person reports whether the run waits for a person, which takes none of its time.
func (k WaitKind) Person() bool { return k == WaitApproval || k == WaitDoubt || k == WaitQuestion }

// Wait is what a run waits for. What it says is released once it is recorded.
type Wait struct {
	Kind WaitKind
	// ID is of the plan request, the ask, the call or the item.
	ID string
	// Call is the id of the call that a doubt is about.
	Call     string
	Step     string        // the full path, such as delegate/p; empty for the planner
	Agent    bcp.AgentName // planner, sub-planner, Reader, or service of the tool
	Tool     string
	Key      bcp.Digest // of the call or the parse
	Attempt  int        // of a call, from 1
	Since    int64      // journal time
	Deadline int64      // 0: that of the run alone
	// Approved says that a person let the call through, and Endorsed by which endorsement.
	Approved bool
	Endorsed bcp.EndorsementID
	// Overruled says that a person had the call sent again: an outcome of an earlier
	// attempt is a second effect.
	Overruled bool
	// Tainted says that content had a part in what the call is given.
	Tainted bool
	// Outages counts how often in a row the planner said that its model is away, and
	// NotBefore is when it is asked again.
	Outages   int
	NotBefore int64
	// Tells bounds what content can say to the requester by a question.
	Tells bcp.Bits
}

// call returns the id of the call that may have been made, if there is one.
func (w *Wait) call() string {
	switch w.Kind {
	case WaitTool:
		return w.ID
	case WaitDoubt:
		return w.Call
	default:
		return ""
	}
}

// Change is one record about a run: everything that a message, a person or time
// changed. [State.Apply] of all changes in order is the whole state, without the
// definitions. What agents and people said is in Private.
type Change struct {
	Kind ChangeKind
	Time int64 // journal time, Unix nanoseconds
	Run  RunID
	// Code says that the message was refused; then nothing else changed.
	Code Code
	// Input is the id of the wait that was answered, with its attempt.
	Input   string
	Attempt int

	Start *Start
	// Result is what a tool or a Reader answered.
	Result *Result
	// Plan says that the plan of the innermost frame was accepted.
	Plan *Accepted
	// Steps is what happened to steps, in order.
	Steps []StepRecord
	// Told is an error that the planner is told with its next request.
	Told *PlanError
	// Sub begins a sub-run.
	Sub  *Frame
	Wait *Wait
	// Leave is a person's for a call whose turn has not come.
	Leave *Leave
	End   *End
	// Totals and Deadline are those of the run afterwards.
	Totals   Totals
	Deadline int64
	// Alert is something that people should look at.
	Alert Code
	// Endorsed is the endorsement that lets the call of Wait through, after that: it stands
	// beside the change, in its decision.
	Endorsed *bcp.EndorseChange
	// Place is what a [BadRule] is about.
	Place *RulePlace

	Private Private

	// from and next are the run before and after, where this process decided: they
	// save Apply its work.
	from, next *run
}

// size bounds the length of both parts of the record, roughly.
func (c *Change) size() int {
	p := &c.Private
	n := recordOverhead + escaped(p.Plan) + escaped(p.Value) + escaped(p.Content) + escaped(p.Arguments) + escaped(p.Final)
	for _, value := range p.Sub {
		n += escaped(value)
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		n += recordOverhead + len(s.Path) + s.Label.size()
		for j := range s.Arguments {
			n += len(s.Arguments[j].Name) + s.Arguments[j].Label.size()
		}
		for _, input := range s.Inputs {
			n += len(input) + 3
		}
		if s.Control != nil {
			n += s.Control.size()
		}
		if s.Judged != nil {
			for _, rule := range s.Judged.Rules {
				n += len(rule) + 3
			}
		}
	}
	if c.Sub != nil {
		n += c.Sub.Query.size()
	}
	if c.End != nil {
		n += c.End.Label.size()
	}
	return n
}

// recordOverhead is about what a record, or one step of it, has besides what planners
// and content decide about.
const recordOverhead = 512

// escaped is how long JSON is as a text in JSON.
func escaped(b []byte) int {
	n := len(b)
	for _, c := range b {
		if c == '"' || c == '\\' || c < ' ' {
			n++
		}
	}
	return n
}

// Start says how a run begins.
type Start struct {
	Kernel    bcp.AgentName
	Requester Requester
	GrantName string
	Grant     Grant
	Request   bcp.ClientID // what the requester calls it
	Task      Label
	Limits    Limits
	// PlanOnly ends the run once a plan was judged, before its first step.
	PlanOnly bool
	// Anew says that the requester begins anew with this run.
	Anew bool
}

// Result is the outcome of a call, or the answer of a Reader. Its value is
// private.
type Result struct {
	Key bcp.Digest
	// Code says why there is no value.
	Code Code
}

// Accepted is a plan that was accepted.
type Accepted struct {
	Attempt int // 1 is the first of the run; 0 in a sub-run
	Steps   int
}

// StepRecord says what happened to one step.
type StepRecord struct {
	Path string
	Kind StepKind
	Tool string
	// Judged is the verdict of the gate about a call; Early says that it came before
	// the plan began.
	Judged    *Verdict
	Early     bool
	Arguments []NamedLabel
	// Done says that the step has a value, with the label and from the inputs given.
	// Private has the value of a sub-run; that of a call or a parse is the result
	// with the key, perhaps of an earlier plan (Reused).
	Done   bool
	Label  Label
	Inputs []string
	Key    bcp.Digest
	Reused bool
	// Control is the label of what steered the plan to a call, and Bits what a when or an
	// each cost.
	Control *Label
	Bits    bcp.Bits
}

// NamedLabel is the label of an argument.
type NamedLabel struct {
	Name  string
	Label Label
}

// PlanError is what a planner is told: no text, and no part of a value.
type PlanError struct {
	Attempt int
	Step    string // the planner's own id, or empty
	Code    Code
	// Control is what content chose of the error, if anything: all later plans have it.
	Control *Label
}

// End says how a run ended.
type End struct {
	Status Status
	Code   Code   // empty where it was committed
	Step   string // the full path of the step that ended it
	// Cause is what ended a sub-run that ended the run.
	Cause Code
	// Label is that of the final value, where it was committed, and Result names its type
	// where the kernel has several.
	Label  Label
	Result string
}

// Totals are what a run has used of its limits.
type Totals struct {
	Steps, Effects, Parses, Plans, PlannerBits int
	// Control is what content steered by, and ControlWorst what it could have, by the plans
	// that were accepted: that is limited, since it does not depend on content.
	Control, ControlWorst bcp.Bits
	// Questions are those that the requester was asked. Told bounds what content told it by
	// them, of which ToldControl is what steered.
	Questions         int
	Told, ToldControl bcp.Bits
}

// Private is what agents and people said, apart from the rest of a record so that it
// can be sealed. Only what the change is about is set.
type Private struct {
	Task string
	// Digest is that of the message that begins a run, and Salt makes the keys of its
	// calls and parses: who has neither cannot try out what they are of.
	Digest, Salt bcp.Digest
	Rules        []RunRule // of the requester
	Plan         []byte    // also one that was not accepted
	// Value is the result's value, in canonical JSON.
	Value []byte
	// Sub are the values of sub-runs that ended, in the order of Steps.
	Sub [][]byte
	// Instruction and Content are what a sub-planner is given.
	Instruction string
	Content     []byte
	// Arguments are those of the call that the wait is about, in canonical JSON.
	Arguments []byte
	// Final is the value of a run that was committed.
	Final []byte
	// Note is what a tool said about its failure.
	Note string
}

// RulePlace is a place in the rules of a requester, each from 1; 0 is the whole.
type RulePlace struct{ Rule, Line, Column int }

// RunRule is a forbid rule that a requester adds to its run.
type RunRule struct {
	Tool string // or [AnyTool]
	When string
}
