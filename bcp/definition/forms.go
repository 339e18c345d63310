package definition

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// The forms: what the mappings of each level are read into. Most of a form is what package bcp
// or kernel has for it; its other fields are for keys that say something about more than one of
// those. Levels without such keys need no form of their own.

type meshForm struct {
	object
	bcp.Mesh
	EndorseEntries     []*endorseForm
	ModelEntries       []*modelForm
	ServerEntries      []*serverForm
	RuleEntries        []*ruleForm
	TrustEntries       []*trustForm
	RequirementEntries []*requirementForm
	NotifyEntries      []*routeForm
	OnSuspect          string
}

// agentForm is one agent file.
type agentForm struct {
	object
	bcp.Agent
	Channels []*channelForm
	Kernel   *kernelForm
}

// channelForm is one end of a channel.
type channelForm struct {
	object
	bcp.Channel
	Peer                bcp.AgentName
	Role                bcp.Role
	SubscriptionEntries []*subscriptionForm

	agent *agentForm // whose end it is
}

type subscriptionForm struct {
	object
	bcp.Subscription
}

type modelForm struct {
	object
	bcp.Model
}

type routeForm struct {
	object
	bcp.Route
}

type kernelForm struct {
	object
	kernel.Definition
	RequesterLists, RoleLists, GrantLists []named[[]string]
	SchemaEntries                         []named[*parseForm]
	Result                                *resultForm
	GrantLimits                           []named[*grantForm]
	RuleEntries                           []*ruleForm
}

type parseForm struct {
	object
	Reader bcp.AgentName
	Spec   bcp.Spec
}

type resultForm struct {
	object
	Spec bcp.Spec
}

type grantForm struct{ ControlBits int }

type ruleForm struct {
	object
	kernel.Rule
	Examples examplesForm
}

type examplesForm struct{ Yes, No []kernel.Example }

// serviceForm is one file of tools.
type serviceForm struct {
	object
	bcp.Service
	ToolEntries []*toolForm
}

type toolForm struct {
	object
	kernel.Tool
	Egress       bool
	SubjectWords []string
}

type serverForm struct {
	object
	bcp.MCPServer
	ToolEntries []*mcpToolForm
}

type mcpToolForm struct {
	object
	bcp.MCPTool
	Input *kernel.Type
}

type endorseForm struct {
	object
	bcp.EndorseRule
	Controller, Reader, Kernel bcp.AgentName
	Tools                      []string
}

type trustForm struct {
	object
	bcp.Trust
	KeyText, UntilText string
}

// requirementForm is written as package contract reads it.
type requirementForm struct {
	object        `json:"-"`
	Name          string           `json:"name"`
	Architectures []string         `json:"architectures,omitempty"`
	Orchestrators []string         `json:"orchestrators,omitempty"`
	Invariants    []*invariantForm `json:"invariants,omitempty"`
	Evidence      *evidenceForm    `json:"evidence,omitempty"`
}

type invariantForm struct {
	Predicate string   `json:"predicate"`
	Texts     []string `json:"-"`
	Args      []any    `json:"args,omitempty"`
	Level     string   `json:"level"`
}

type evidenceForm struct {
	Proof  bool          `json:"permission_proof"`
	Age    time.Duration `json:"-"`
	MaxAge string        `json:"max_age,omitempty"`
}
