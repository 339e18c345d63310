package kernel

import (
	"time"
)

// Limits of a plan, each checked before what it bounds is used.
const (
	// MaxPlanBytes is the size of a plan.
	MaxPlanBytes = 64 << 10
	// MaxPlanSteps is the number of steps of one plan.
	MaxPlanSteps = 256
	// MaxPlanText is the length of one text of a plan, in code points.
	MaxPlanText = 4096
	// maxListDepth is how deep lists of arguments nest.
	maxListDepth = 3
	// maxNameBytes is the length of an id, a name or a segment of a path.
	maxNameBytes = 64
	// maxPathBytes is the length of a path: values nest no deeper than
	// [wire.MaxDepth], and a longer one cannot lead anywhere.
	maxPathBytes = 1024
)

// Limits of definitions.
const (
	// MaxTools and MaxSchemas bound what one kernel may have: each goes into
	// every request to a planner.
	MaxTools   = 256
	MaxSchemas = 256
	// maxCatalogueBytes bounds what planners are told of all tools and schemas: with
	// the task, or with content, it is one message.
	maxCatalogueBytes = 192 << 10
	// MaxRules is the number of rules of a kernel, with those of its mesh; a call
	// may have to evaluate all of them.
	MaxRules = 256
	// MaxRunRules is the number of rules that a requester may add to a run.
	MaxRunRules = 8
	// maxRunRuleTools bounds the pairs of such a rule and a tool that it is about:
	// a rule is compiled for each of its tools, while the gateway waits.
	maxRunRuleTools = 64
	// MaxControlBits is the greatest control_budget_bits.
	MaxControlBits = 1000
	// MaxDepth is the greatest max_depth.
	MaxDepth = 8
	// maxExamples is the number of examples of a rule, each way.
	maxExamples = 64
	// maxDescription is the length of a description, in bytes.
	maxDescription = 4096
)

// Limits of messages.
const (
	// maxOwn is the number of runs whose own rules are kept compiled.
	maxOwn = 4 * MaxOpenRuns
	// MaxTask is the size of a task, in bytes.
	MaxTask = 64 << 10
	// MaxContent is the size of what a Reader or a sub-planner is given, and the
	// greatest max_value_bytes.
	MaxContent = 256 << 10
	// maxChangeBytes is the size of one record: a message of the journal has at most
	// 1 MiB.
	maxChangeBytes = 768 << 10
	// maxNote is how much is kept of what a tool says about its failure, in bytes.
	maxNote = 4 << 10
	// maxEnvelope is what a message may have around its value, plan or task. A plan
	// may come as a text, in which an escape takes six bytes.
	maxEnvelope = 4 << 10
	// runMemory is how long an ended run is known, for outcomes that come late and
	// requests that come again (PROTOCOL P2.6).
	runMemory = 24 * time.Hour
	// MaxOpenRuns is how many runs of one requester are open at a time.
	MaxOpenRuns = 1024
	// MaxRequests is how many request ids of one requester are known, for a day: its
	// newest.
	MaxRequests = 1 << 14
	// firstPlannerPause and maxPlannerPause are the pauses before a planner is asked again
	// whose model is away; each is twice the one before.
	firstPlannerPause = time.Second
	maxPlannerPause   = 30 * time.Second
	// maxEndedRuns is how many runs that ended are known.
	maxEndedRuns = 1 << 14
)

// Limits bound a whole run, its sub-runs and later plans included. The zero value
// allows nothing; [DefaultLimits] has the defaults.
type Limits struct {
	// MaxSteps is the number of steps of all plans, counted when a plan is
	// accepted.
	MaxSteps int `record:"max_steps" json:"max_steps"`
	// MaxEffects is the number of calls of any level.
	MaxEffects int `record:"max_effects" json:"max_effects"`
	// MaxParses is the number of q_parse that are asked.
	MaxParses int `record:"max_q_parses" json:"max_q_parses"`
	// MaxDepth is how deep sub-runs nest.
	MaxDepth int `record:"max_depth" json:"max_depth"`
	// MaxPlans is how often the planner is asked.
	MaxPlans int `record:"max_plans" json:"max_plans"`
	// MaxPlannerBits is how many bits the errors may tell the planner.
	MaxPlannerBits int `record:"max_planner_bits" json:"max_planner_bits"`
	// ControlBits is how many bits content may steer plans by; 0 is not at all.
	ControlBits int `record:"control_budget_bits" json:"control_budget_bits"`
	// MaxQuestions is how often the requester is asked something; 0 is never.
	MaxQuestions int `record:"max_questions" json:"max_questions"`
	// MaxValueBytes is the size of one value in canonical JSON.
	MaxValueBytes int `record:"max_value_bytes" json:"max_value_bytes"`
	// PlannerTimeout is how long a planner or sub-planner may take for a plan.
	PlannerTimeout time.Duration `record:"planner_timeout" json:"planner_timeout"`
	// RunTTL is how long a run may take, without the time that people take.
	RunTTL time.Duration `record:"run_ttl" json:"run_ttl"`
	// ApprovalTTL is how long an item waits for a person.
	ApprovalTTL time.Duration `record:"approval_ttl" json:"approval_ttl"`
	// MaxPendingApprovals is how many items of one kernel may wait.
	MaxPendingApprovals int `record:"max_pending_approvals" json:"max_pending_approvals"`
}

// DefaultLimits returns the limits of a kernel whose definition says nothing.
func DefaultLimits() Limits {
	return Limits{
		MaxSteps: 256, MaxEffects: 16, MaxParses: 16, MaxDepth: 2, MaxPlans: 10, MaxPlannerBits: 100, MaxValueBytes: MaxContent,
		PlannerTimeout: time.Minute, RunTTL: 15 * time.Minute, ApprovalTTL: 24 * time.Hour, MaxPendingApprovals: 20,
	}
}
