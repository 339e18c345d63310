package kernel

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// RunID names a run. The gateway makes it from at least 96 random bits.
type RunID string

// WaitKind says whom a run waits for. The zero value is nobody.
type WaitKind string

// Whom a run can wait for.
const (
	WaitPlanner    WaitKind = "planner"
	WaitSubPlanner WaitKind = "sub_planner"
	WaitReader     WaitKind = "reader"
	WaitTool       WaitKind = "tool"
	WaitApproval   WaitKind = "approval" // a person, about a call that is to be made
	WaitDoubt      WaitKind = "doubt"    // a person, about a call that may have been made
	WaitQuestion   WaitKind = "question" // the requester, or a person in its place
)

func (k WaitKind) known() bool {
	return k.Person() || slices.Contains([]WaitKind{WaitPlanner, WaitSubPlanner, WaitReader, WaitTool}, k)
}

// Person reports whether the run waits for a person, which takes none of its time.
func (k WaitKind) Person() bool { return k == WaitApproval || k == WaitDoubt || k == WaitQuestion }

// Wait is what a run waits for. What it says is released once it is recorded.
type Wait struct {
	Kind WaitKind `record:"kind"`
	// ID is of the plan request, the ask, the call or the item.
	ID string `record:"id"`
	// Call is the id of the call that a doubt is about.
	Call     string        `record:"call"`
	Step     string        `record:"step"`  // the full path, such as delegate/p; empty for the planner
	Agent    bcp.AgentName `record:"agent"` // planner, sub-planner, Reader, or service of the tool
	Tool     string        `record:"tool"`
	Key      bcp.Digest    `record:"key"`      // of the call or the parse
	Attempt  int           `record:"attempt"`  // of a call, from 1
	Since    int64         `record:"since"`    // journal time
	Deadline int64         `record:"deadline"` // 0: that of the run alone
	// Approved says that a person let the call through, and Endorsed by which endorsement.
	Approved bool              `record:"approved"`
	Endorsed bcp.EndorsementID `record:"endorsed"`
	// Overruled says that a person had the call sent again: an outcome of an earlier
	// attempt is a second effect.
	Overruled bool `record:"overruled"`
	// Tainted says that content had a part in what the call is given.
	Tainted bool `record:"tainted"`
	// Outages counts how often in a row the planner said that its model is away, and
	// NotBefore is when it is asked again.
	Outages   int   `record:"outages"`
	NotBefore int64 `record:"not_before"`
	// Tells bounds what content can say to the requester by a question.
	Tells bcp.Bits `record:"tells"`
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
	// Kind says what came in, of the kinds of decisions about runs.
	Kind bcp.DecisionKind `record:"kind"`
	Time int64            `record:"time"` // journal time, Unix nanoseconds
	Run  RunID            `record:"run"`
	// Code says that the message was refused; then nothing else changed.
	Code Code `record:"code"`
	// Input is the id of the wait that was answered, with its attempt.
	Input   string `record:"input"`
	Attempt int    `record:"attempt"`

	Start *Start `record:"start"`
	// Result is what a tool or a Reader answered.
	Result *Result `record:"result"`
	// Plan says that the plan of the innermost frame was accepted.
	Plan *Accepted `record:"plan"`
	// Steps is what happened to steps, in order.
	Steps []StepRecord `record:"steps"`
	// Told is an error that the planner is told with its next request.
	Told *PlanError `record:"told"`
	// Sub begins a sub-run.
	Sub  *Frame `record:"sub"`
	Wait *Wait  `record:"wait"`
	// Leave is a person's for a call whose turn has not come.
	Leave *Leave `record:"leave"`
	End   *End   `record:"end"`
	// Totals and Deadline are those of the run afterwards.
	Totals   Totals `record:"totals"`
	Deadline int64  `record:"deadline"`
	// Alert is something that people should look at.
	Alert Code `record:"alert"`
	// Endorsed is the endorsement that lets the call of Wait through, after that: it stands
	// beside the change, in its decision.
	Endorsed *bcp.EndorseChange
	// Place is what a [BadRule] is about.
	Place *RulePlace `record:"place"`

	Private Private

	// from and next are the run before and after, where this process decided: they
	// save Apply its work. open and said are then both parts of the record, as decided.
	from, next *run
	open, said []byte
}

// Start says how a run begins.
type Start struct {
	Kernel bcp.AgentName `record:"kernel"`
	Requester
	GrantName string       `record:"grant_name"`
	Grant     Grant        `record:"grant"`
	Request   bcp.ClientID `record:"request_id"` // what the requester calls it
	Task      Label        `record:"task,always"`
	Limits    Limits       `record:"limits,always"`
	// PlanOnly ends the run once a plan was judged, before its first step.
	PlanOnly bool `record:"plan_only"`
	// Anew says that the requester begins anew with this run.
	Anew bool `record:"new_session"`
}

// Result is the outcome of a call, or the answer of a Reader. Its value is
// private.
type Result struct {
	Key bcp.Digest `record:"key"`
	// Code says why there is no value.
	Code Code `record:"code"`
}

// Accepted is a plan that was accepted.
type Accepted struct {
	Attempt int `record:"attempt"` // 1 is the first of the run; 0 in a sub-run
	Steps   int `record:"steps"`
}

// StepRecord says what happened to one step.
type StepRecord struct {
	Path string   `record:"path"`
	Kind StepKind `record:"kind"`
	Tool string   `record:"tool"`
	// Judged is the verdict of the gate about a call; Early says that it came before
	// the plan began.
	Judged    *Verdict     `record:"judged"`
	Early     bool         `record:"early"`
	Arguments []NamedLabel `record:"arguments"`
	// Done says that the step has a value, with the label and from the inputs given.
	// Private has the value of a sub-run; that of a call or a parse is the result
	// with the key, perhaps of an earlier plan (Reused).
	Done   bool       `record:"done"`
	Label  Label      `record:"label,always"`
	Inputs []string   `record:"inputs"`
	Key    bcp.Digest `record:"key"`
	Reused bool       `record:"reused"`
	// Control is the label of what steered the plan to a call, and Bits what a when or an
	// each cost.
	Control *Label   `record:"control"`
	Bits    bcp.Bits `record:"control_bits"`
}

// NamedLabel is the label of an argument.
type NamedLabel struct {
	Name  string `record:"name" json:"name"`
	Label Label  `record:"label,always" json:"label"`
}

// PlanError is what a planner is told: no text, and no part of a value.
type PlanError struct {
	Attempt int    `record:"attempt"`
	Step    string `record:"step"` // the planner's own id, or empty
	Code    Code   `record:"code"`
	// Control is what content chose of the error, if anything: all later plans have it.
	Control *Label `record:"control"`
}

// End says how a run ended.
type End struct {
	Status Status `record:"status"`
	Code   Code   `record:"code"` // empty where it was committed
	Step   string `record:"step"` // the full path of the step that ended it
	// Cause is what ended a sub-run that ended the run.
	Cause Code `record:"cause"`
	// Label is that of the final value, where it was committed.
	Label Label `record:"label,always"`
}

// Totals are what a run has used of its limits.
type Totals struct {
	Steps       int `record:"steps"`
	Effects     int `record:"effects"`
	Parses      int `record:"q_parses"`
	Plans       int `record:"plans"`
	PlannerBits int `record:"planner_bits"`
	// Control is what content steered by, and ControlWorst what it could have, by the plans
	// that were accepted: that is limited, since it does not depend on content.
	Control      bcp.Bits `record:"control"`
	ControlWorst bcp.Bits `record:"control_worst"`
	// Questions are those that the requester was asked. Told bounds what content told it by
	// them, of which ToldControl is what steered.
	Questions   int      `record:"questions"`
	Told        bcp.Bits `record:"told"`
	ToldControl bcp.Bits `record:"told_control"`
}

// Private is what agents and people said, apart from the rest of a record so that it
// can be sealed. Only what the change is about is set.
type Private struct {
	Task string `record:"task"`
	// Digest is that of the message that begins a run, and Salt makes the keys of its
	// calls and parses: who has neither cannot try out what they are of.
	Digest bcp.Digest `record:"digest"`
	Salt   bcp.Digest `record:"salt"`
	Rules  []RunRule  `record:"rules"` // of the requester
	Plan   []byte     `record:"plan"`  // also one that was not accepted
	// Value is the result's value, in canonical JSON.
	Value []byte `record:"value"`
	// Sub are the values of sub-runs that ended, in the order of Steps.
	Sub [][]byte `record:"sub"`
	// Instruction and Content are what a sub-planner is given.
	Instruction string `record:"instruction"`
	Content     []byte `record:"content"`
	// Arguments are those of the call that the wait is about, in canonical JSON.
	Arguments []byte `record:"arguments"`
	// Final is the value of a run that was committed.
	Final []byte `record:"final"`
	// Note is what a tool said about its failure.
	Note string `record:"note"`
}

// RulePlace is a place in the rules of a requester, each from 1; 0 is the whole.
type RulePlace struct {
	Rule   int `record:"rule"`
	Line   int `record:"line"`
	Column int `record:"column"`
}

// RunRule is a forbid rule that a requester adds to its run.
type RunRule struct {
	Tool string `record:"tool"` // or [AnyTool]
	When string `record:"when"`
}
