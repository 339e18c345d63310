package bcp

import (
	"slices"
	"strings"
)

// The tools by which an agent takes part in the protocol, as definitions and
// MCP hosts name them.
const (
	ToolQuery     = "BCPQuery"
	ToolInbox     = "BCPInbox"
	ToolBudget    = "BCPBudget"
	ToolSubscribe = "BCPSubscribe"
	ToolQueries   = "BCPQueries"
	ToolRespond   = "BCPRespond"
	ToolPublish   = "BCPPublish"
)

var protocolTools = []string{ToolQuery, ToolInbox, ToolBudget, ToolSubscribe, ToolQueries, ToolRespond, ToolPublish}

// ProtocolTool returns the tool of the protocol that a definition names, in the spelling above;
// empty for others. It may be written in any case, and as hosts of MCP do: mcp__SERVER__TOOL.
func ProtocolTool(tool string) string {
	if rest, ok := strings.CutPrefix(strings.ToLower(tool), "mcp__"); ok {
		_, tool, _ = strings.Cut(rest, "__")
	}
	if i := slices.IndexFunc(protocolTools, func(known string) bool { return strings.EqualFold(tool, known) }); i >= 0 {
		return protocolTools[i]
	}
	return ""
}

// ProtocolTools returns those of an agent's tools that are the protocol's own, sorted.
func (a Agent) ProtocolTools() []string {
	var found []string
	for _, tool := range a.Tools {
		if known := ProtocolTool(tool); known != "" {
			found = append(found, known)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Channels is what a Controller is told of its own channels when it asks
// (PROTOCOL P9.6).
type Channels struct {
	Type     string        `json:"type"`
	Channels []ChannelView `json:"channels"`
}

// ChannelView is a channel as its Controller may see it: what the definitions
// say, and what the Controller itself has used. It tells nothing of the Reader
// that an ask would not tell.
type ChannelView struct {
	Reader       AgentName `json:"reader"`
	Description  string    `json:"description,omitempty"` // of the Reader's definition
	MaxCategory  Category  `json:"max_category"`
	BaseCategory Category  `json:"base_category"`
	Budget       Bits      `json:"budget_bits"`
	// Remaining is what the next ask would find of the epoch that it belongs to.
	Remaining      Bits `json:"remaining_bits"`
	Escalations    int  `json:"escalations"` // of the session
	MaxEscalations int  `json:"max_escalations"`
	// Cat2Queries are those of the epoch; they have no limit where
	// MaxCat2Queries is negative.
	Cat2Queries    int                  `json:"cat2_queries"`
	MaxCat2Queries int                  `json:"max_cat2_queries"`
	Subscriptions  []ActiveSubscription `json:"subscriptions"`
	// MaxArgumentBytes bounds the arguments of a query; 0 allows none.
	MaxArgumentBytes int    `json:"max_argument_bytes,omitzero"`
	Costs            []Cost `json:"costs"`
}

// Cost is what a query of one form would cost now.
type Cost struct {
	Form     string   `json:"form"`
	Category Category `json:"category"`
	Nominal  Bits     `json:"nominal_bits"`
	Capacity Bits     `json:"capacity_bits"`
	// Escalation says that it would be one, and need a justification.
	Escalation bool `json:"escalation"`
}
