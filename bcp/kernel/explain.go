package kernel

import "fmt"

// Explain says to people why something ended so or was refused, and what would change it.
// It is empty for no code, and for one that this version does not know.
func Explain(c Code) string { return explanations[c] }

// ExplainRefusal says the same of a code with which a request was refused: there is no run,
// and no plan.
func ExplainRefusal(c Code) string {
	switch c {
	case TooLarge:
		return fmt.Sprintf("The request is too large: a task has at most %d bytes, and the forbid rules of a run apply to at most %d tools, counted once for each rule.", MaxTask, maxRunRuleTools)
	case BadOutcome:
		return "The answer is not of the form that the question asks for."
	case Malformed:
		return fmt.Sprintf("The request is not one that can be read, has more than %d forbid rules, or has a request id that was used before, for another task or other rules: choose a new one.", MaxRunRules)
	}
	return Explain(c)
}

const (
	replan   = "The planner is told the code and the step, and plans again within max_plans."
	deniesIt = "A denial ends the run: asking again would ask an oracle."
)

var explanations = map[Code]string{
	TooLarge:        "The plan is larger than a plan can be. " + replan,
	Malformed:       "The plan is not what docs/plan.schema.json describes. " + replan,
	UnknownKind:     "A step is of no kind that there is. " + replan,
	BadID:           "A step's id is not 1 to 64 letters, digits, hyphens and underscores. " + replan,
	DuplicateID:     "Two steps have one id. " + replan,
	BadPath:         "The path of a reference is not one. " + replan,
	UnknownRef:      "A step refers to one that does not come before it. " + replan,
	PathMissing:     "A path leads to what the value cannot have. " + replan,
	UnknownTool:     "There is no such tool, or the grant does not allow it: the planner cannot tell which. " + replan,
	ExtraArgument:   "A call has an argument that the tool does not take. " + replan,
	MissingArgument: "A call lacks an argument that the tool needs. " + replan,
	TypeMismatch:    "An argument can never be of the tool's type. " + replan,
	UnknownSchema:   "The kernel has no schema of this name. " + replan,
	EmptyMerge:      "A merge has no inputs. " + replan,
	NoFinal:         "The plan's final names none of its steps. " + replan,

	ControlNotAllowed: "The plan has a when or an each, which this kernel, the grant or a sub-run does not allow: control_budget_bits is 0. " + replan,
	ControlTooWide:    "Content could steer the plan by more bits than control_budget_bits has left: bcpmesh kernel check prints what each path costs. " + replan,
	DeniedPath:        "A call in a when or an each is certain to be denied. " + replan,

	PlannerEmpty:         "The planner sent a plan without steps. " + replan,
	PlannerRefused:       "The planner says that it has no plan. " + replan,
	PlannerMalformed:     "The planner's message is no bcp_plan. " + replan,
	NotEnoughInformation: "The Reader says that the content does not tell. " + replan,
	ParseRejected:        "The Reader's answer was refused: explain of its query says by which rule. " + replan,
	ParseExpired:         "The Reader did not answer in time: is it connected? " + replan,
	IndexMissing:         "A list has fewer elements than the plan counted on. " + replan,
	BadArguments:         "The arguments are not of the tool's input_schema, such as a text that is too long. " + replan,
	ToolFailed:           "The tool says that it failed: bcpmesh kernel RUN --raw has what it said. " + replan,
	BadOutcome:           "What the tool returned is not of its output_schema. After a write the run ends, since the effect was made.",

	Permitted:       "The call is allowed: no argument needs provenance, or all that content chose may flow into it.",
	Declassified:    "A declassify rule lets content through to this call.",
	NeedsPerson:     "An ask rule has a person decide about the call: bcpmesh approvals.",
	NoCapability:    "The grant lacks a capability of the tool. " + deniesIt,
	Forbidden:       "A forbid rule holds for the call, or could not be evaluated. Nobody can approve it. " + deniesIt,
	NotDeclassified: "Content chose a part of an argument, and neither result_readers of its tool nor a declassify or ask rule lets it into this call. If it should, write such a rule in kernel.rules. " + deniesIt,

	LimitSteps:         "The plans have more steps than limits.max_steps.",
	LimitEffects:       "The run would make more calls than limits.max_effects.",
	LimitParses:        "The run would ask Readers more often than limits.max_q_parses.",
	LimitQuestions:     "The run would ask its requester more often than limits.max_questions.",
	LimitDepth:         "Sub-runs nest deeper than limits.max_depth.",
	LimitPlans:         "The planner was asked limits.max_plans times, and no plan came through.",
	LimitPlannerBits:   "The errors would tell the planner more than limits.max_planner_bits.",
	LimitValueBytes:    "A value is larger than limits.max_value_bytes.",
	LimitElements:      "A list has more elements than the max of the each over it.",
	LimitRunTTL:        "The run took longer than limits.run_ttl, without the time that people took.",
	PlannerUnavailable: "The planner's model was away until the run's time was over (limits.run_ttl): its log says why.",
	PlannerTimeout:     "No plan came within limits.planner_timeout. See whether the planner is connected.",

	ApprovalRejected:  "A person did not let the call through, or the requester or a person refused to answer a question.",
	ApprovalExpired:   "Nobody decided about the call, or answered the question, within limits.approval_ttl.",
	ApprovalQueueFull: "limits.max_pending_approvals items of the kernel wait already.",
	InDoubt:           "Nobody knows whether the call was made. A tool with idempotency: key could be asked again.",
	ParseUnavailable:  "The Reader could not be asked, such as for a budget that is spent: bcpmesh status shows what is left, and bcpmesh explain says why of the refused ask.",
	ToolUnavailable:   "The call could not be sent, or the server refused it. It was not made.",
	ToolChanged:       "The tool is not the one any more that the plan or the person was shown.",
	SecondOutcome:     "The tool answered twice to a call that may be made once: the effect may have been made twice.",
	LateOutcome:       "The tool answered after the call was given up.",
	Cancelled:         "A person or the requester stopped the run.",

	SubBlocked:      "A sub-run was denied a call.",
	SubErrored:      "A sub-run failed: its steps above say at what.",
	SubPlanRejected: "A sub-run got no plan.",

	UnknownKernel: "There is no such kernel.",
	UnknownGrant:  "The requester may not start runs with this grant: requesters of the kernel lists what it may.",
	UnknownRun:    "There is no such run, or it has ended.",
	UnknownPlan:   "No run waits for this plan.",
	UnknownCall:   "No run waits for this call.",
	UnknownItem:   "No run waits for this decision or answer.",
	ToldSince:     "The requester was told something else since it gave the task, which may have chosen the answer: a person answers, it refuses, or it says new_session if it knows nothing of that.",
	BadRule:       "A rule that the requester adds does not compile for the tools of its grant.",
	Suspended:     "Who sent it, or started or planned the run, or does its call, is suspended.",
	LimitOpenRuns: "The requester has as many open runs as one may have.",
	Repeated:      "The request was decided before.",
}
