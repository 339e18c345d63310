package bcp

import (
	"github.com/go-json-experiment/json/jsontext"
)

// RunChange is what a decision says of a run of a kernel. What it changed is in
// Change, which package kernel writes and reads; what was said is in
// [Private.RunSaid].
type RunChange struct {
	Run    string    `msgpack:"r,omitempty" json:"run_id,omitempty"`
	Kernel AgentName `msgpack:"k,omitempty" json:"kernel,omitempty"`
	// From is the agent, planner, tool service or person that sent the message; empty for
	// what time or a start decided.
	From AgentName `msgpack:"f,omitempty" json:"from,omitempty"`
	// Code says why the message was refused, in a word of package kernel.
	Code string `msgpack:"c,omitempty" json:"code,omitempty"`
	// Alert says what people should look at, in a word of package kernel.
	Alert string `msgpack:"a,omitempty" json:"alert,omitempty"`
	// Held is the item that the run waits for a person about from now on.
	Held   ItemID         `msgpack:"i,omitempty" json:"held_item,omitempty"`
	Change jsontext.Value `msgpack:"h,omitempty" json:"change,omitzero"`
}

// KernelRights are what a kernel needs of the server: who may start its runs, who plans
// them, and which tools it calls.
type KernelRights struct {
	Kernel, Planner AgentName
	SubPlanner      AgentName   // empty: there are no sub-runs
	Processors      []AgentName // read content for it: its sub-planner and the Readers of its schemas
	Approvers       []AgentName // may decide about its calls
	Runs            []RunRight
	// Roles are the requirements that requesters have to be accepted for, by requester.
	Roles map[AgentName][]string
	Calls []CallRight
}

// RunRight lets a requester start runs with a grant.
type RunRight struct {
	Requester AgentName
	Grant     string
}

// CallRight lets a kernel call a tool of a service.
type CallRight struct {
	Service AgentName
	Tool    string
}

// ResultSubscription is the subscription that a kernel pushes the values of its runs to, if
// it has one type of them. Otherwise the names of the types are those of subscriptions.
const ResultSubscription SubscriptionID = "result"

// TypeRun is the type of the messages about a run.
const TypeRun = "bcp_run"

// RunOpen is the status of a run that has not ended.
const RunOpen = "open"

// RunReceipt answers a requester, and tells it how a run ended.
type RunReceipt struct {
	Type  string `json:"type"`
	RunID string `json:"run_id,omitempty"`
	// Status is open, or how the run ended, in a word of package kernel.
	Status string `json:"status,omitempty"`
	// Waits is [WaitsForPerson] or [WaitsForRequester] while an open run waits for one.
	Waits string `json:"waits_for,omitempty"`
	// QuestionID is of what it asks its requester.
	QuestionID ItemID     `json:"question_id,omitempty"`
	Questions  []Question `json:"questions,omitempty"`
	// Code says why it was refused, or did not commit.
	Code string `json:"code,omitempty"`
	// Rule, Line and Column are the place, from 1, in the requester's own rules that is
	// wrong, where the code is bad_rule.
	Rule   int `json:"rule,omitzero"`
	Line   int `json:"line,omitzero"`
	Column int `json:"column,omitzero"`
}

// WaitsForPerson is what a run waits for whose call a person decides about.
const WaitsForPerson = "person"

// WaitsForRequester is what a run waits for that asked its requester something.
const WaitsForRequester = "requester"

// What runs of kernels wait for people for: a call that a rule asks about, one that may
// have been made, and an answer that the requester may give as well. People decide about both as about anything else that is held, with
// a signature that is of this one call (the kernel's page, K10).

// Effect is a call of a run as a person judges it. Its arguments are the view's Content.
type Effect struct {
	Run       string    `json:"run_id"`
	Requester AgentName `json:"requester"`
	Grant     string    `json:"grant"`
	Step      string    `json:"step"` // the full path in the plan, the planner's own words
	Service   AgentName `json:"service,omitempty"`
	Tool      string    `json:"tool"`
	// Description of the tool is the operator's.
	Description string `json:"description,omitempty"`
	Level       string `json:"effect_level,omitempty"`
	Attempt     int    `json:"attempt,omitzero"` // how often it was sent, if it was
	// Rules are the ids of those that ask.
	Rules     []string         `json:"rules,omitempty"`
	Arguments []EffectArgument `json:"arguments,omitempty"`
	// Result is the JSON Schema of what the tool returns, or of the answer.
	Result jsontext.Value `json:"result_schema,omitzero"`
	// Questions are what the run asks its requester, in the planner's words; then there is
	// no tool.
	Questions []Question `json:"questions,omitempty"`
	// Person says why a person decides about each such call; empty: it may be endorsed, and
	// content's influence on its arguments that are not critical is of so many Bits.
	Person string `json:"person,omitempty"`
	Bits   Bits   `json:"bits,omitzero"`
	// Element says for which of the Elements of a list a call of a loop is made, from 1.
	// Early says that its turn has not come: approving it keeps it from being held then.
	Element  int  `json:"element,omitzero"`
	Elements int  `json:"elements,omitzero"`
	Early    bool `json:"early,omitzero"`
	// Changed says that the definitions of today have no such call: it can only be
	// refused.
	Changed bool `json:"changed,omitzero"`
}

// EffectArgument tells where an argument of a call comes from.
type EffectArgument struct {
	Name string `json:"name"`
	// Critical says that it decides who gets something or what is changed.
	Critical bool `json:"critical,omitzero"`
	// Tainted says that content chose it, or what it is made of.
	Tainted    bool `json:"tainted"`
	ThirdParty bool `json:"third_party"`
	// Influence is how many bits of it content can have chosen, in words: a number, or
	// unbounded.
	Influence string `json:"influence"`
	// Sealed says that nobody but the tool reads it, and who decides about the call.
	Sealed bool `json:"sealed,omitzero"`
}

// RunItem is a call or a question of a run that waits for a person.
type RunItem struct {
	Item
	Approvers []AgentName
	// Content is the call in canonical JSON: run_id, key, tool, arguments. An approval
	// is of these bytes. Of a question it is run_id, step and questions.
	Content []byte
	Effect  Effect
}
