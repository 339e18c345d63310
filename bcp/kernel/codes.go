package kernel

import (
	"maps"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Code says why something was refused, denied or ended: a word of a closed list,
// never a part of a message.
type Code string

// What is wrong with a plan, in the order in which it is looked for.
const (
	TooLarge        Code = "too_large"
	Malformed       Code = "malformed"
	UnknownKind     Code = "unknown_kind"
	BadID           Code = "bad_id"
	DuplicateID     Code = "duplicate_id"
	BadPath         Code = "bad_path"
	UnknownRef      Code = "unknown_ref"
	PathMissing     Code = "path_missing"
	UnknownTool     Code = "unknown_tool"
	ExtraArgument   Code = "extra_argument"
	MissingArgument Code = "missing_argument"
	TypeMismatch    Code = "type_mismatch"
	UnknownSchema   Code = "unknown_schema"
	EmptyMerge      Code = "empty_merge"
	NoFinal         Code = "no_final"
)

// What is wrong with how content steers a plan, if a kernel lets it.
const (
	ControlNotAllowed Code = "control_not_allowed"
	ControlTooWide    Code = "control_too_wide"
	DeniedPath        Code = "denied_path"
)

// What goes wrong while a plan is asked for or run, and may be told to the
// planner.
const (
	PlannerEmpty         Code = "planner_empty"
	PlannerRefused       Code = "planner_refused"
	PlannerMalformed     Code = "planner_malformed"
	NotEnoughInformation Code = "not_enough_information"
	ParseRejected        Code = "parse_rejected"
	ParseExpired         Code = "parse_expired"
	IndexMissing         Code = "index_missing"
	BadArguments         Code = "bad_arguments"
	ToolFailed           Code = "tool_failed"
	BadOutcome           Code = "bad_outcome"
)

// What the gate says, apart from bad_arguments.
const (
	Permitted       Code = "permitted"
	Declassified    Code = "declassified"
	NeedsPerson     Code = "needs_person"
	NoCapability    Code = "no_capability"
	Forbidden       Code = "forbidden"
	NotDeclassified Code = "not_declassified"
)

// Why a run ended otherwise, or a message was refused.
const (
	LimitSteps       Code = "max_steps"
	LimitEffects     Code = "max_effects"
	LimitParses      Code = "max_q_parses"
	LimitQuestions   Code = "max_questions"
	LimitDepth       Code = "max_depth"
	LimitPlans       Code = "max_plans"
	LimitPlannerBits Code = "max_planner_bits"
	LimitValueBytes  Code = "max_value_bytes"
	LimitElements    Code = "limit" // a list has more elements than its each takes
	LimitRunTTL      Code = "run_ttl"
	PlannerTimeout   Code = "planner_timeout"
	// PlannerUnavailable is of a run whose planner could not plan until the run's time
	// was over, since its model was away.
	PlannerUnavailable Code = "planner_unavailable"
	ApprovalRejected   Code = "approval_rejected"
	ApprovalExpired    Code = "approval_expired"
	ApprovalQueueFull  Code = "approval_queue_full"
	InDoubt            Code = "in_doubt"
	ParseUnavailable   Code = "parse_unavailable"
	ToolUnavailable    Code = "tool_unavailable"
	ToolChanged        Code = "tool_changed"
	SecondOutcome      Code = "second_outcome"
	LateOutcome        Code = "late_outcome"
	Cancelled          Code = "cancelled"
	SubBlocked         Code = "subkernel_blocked"
	SubErrored         Code = "subkernel_errored"
	SubPlanRejected    Code = "subkernel_plan_rejected"
	UnknownKernel      Code = "unknown_kernel"
	UnknownGrant       Code = "unknown_grant"
	UnknownRun         Code = "unknown_run"
	UnknownPlan        Code = "unknown_plan"
	UnknownCall        Code = "unknown_call"
	UnknownItem        Code = "unknown_item"
	BadRule            Code = "bad_rule"
	LimitOpenRuns      Code = "max_open_runs"
	ToldSince          Code = "told_since" // the task: its requester may not answer for it
	Suspended          Code = "suspended"
	Repeated           Code = "repeated" // decided before: the answer is the same
)

// steerCodes are those that a planner hears besides where content may steer.
var steerCodes = []Code{ControlNotAllowed, ControlTooWide, DeniedPath}

// plannerCodes are all that a planner can be told where content steers nothing. How many there are decides
// what an error may tell it: see [errorBits].
var plannerCodes = []Code{
	TooLarge, Malformed, UnknownKind, BadID, DuplicateID, BadPath, UnknownRef, PathMissing, UnknownTool, ExtraArgument, MissingArgument,
	TypeMismatch, UnknownSchema, EmptyMerge, NoFinal, PlannerEmpty, PlannerRefused, PlannerMalformed, NotEnoughInformation, ParseRejected,
	ParseExpired, IndexMissing, BadArguments, ToolFailed, BadOutcome,
}

// Codes returns all codes, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(explanations)) }

// Fault is what is wrong with a plan or with running it: a code, and the step if
// it is about one.
type Fault struct {
	Code Code
	// Step is the planner's own id of the step, valid, or empty.
	Step string
	// Bits is what the dearest path costs of a plan that is too wide.
	Bits bcp.Bits

	steps int    // of the plan, where that could be read
	scope string // of the step
}

// Status is how a run ended. The zero value is a run that goes on.
type Status string

// The statuses.
const (
	Committed    Status = "committed"
	Blocked      Status = "blocked"
	Aborted      Status = "aborted"
	Errored      Status = "errored"
	PlanRejected Status = "plan_rejected"
	Doubted      Status = "in_doubt"
	Stopped      Status = "cancelled"
	// Planned is of a run that asked for a plan alone: it was judged, and nothing was done.
	Planned Status = "planned"
)

// Statuses returns all statuses.
func Statuses() []Status {
	return []Status{Committed, Blocked, Aborted, Errored, PlanRejected, Doubted, Stopped, Planned}
}
