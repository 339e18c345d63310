package bcp

import (
	"slices"
	"strings"
	"time"
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

// ProtocolTools returns the tools of the protocol itself.
func ProtocolTools() []string {
	return []string{ToolQuery, ToolInbox, ToolBudget, ToolSubscribe, ToolQueries, ToolRespond, ToolPublish}
}

// ProtocolTools returns those of an agent's tools that are the protocol's own,
// in the spelling above and sorted. A definition may write them in any case, and
// as hosts of MCP do: mcp__SERVER__TOOL.
func (a Agent) ProtocolTools() []string {
	var found []string
	for _, tool := range a.Tools {
		if rest, ok := cutPrefixFold(tool, "mcp__"); ok {
			_, tool, _ = strings.Cut(rest, "__")
		}
		for _, known := range ProtocolTools() {
			if strings.EqualFold(tool, known) {
				found = append(found, known)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
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
	Costs          []Cost               `json:"costs"`
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

// ListsChannels reports whether a Controller's session message asks for its
// channels, which changes nothing and so is not decided. Messages of one that is
// refused for the rest of the minute are left to [State.DecideSession].
func (s *State) ListsChannels(m Moment, controller AgentName, body []byte) bool {
	if s.limited(controller, s.now(m)) {
		return false
	}
	message, code := ParseSession(body, s.Encoding(controller))
	return code == "" && message.Verb == VerbChannels
}

// Channels returns a Controller's channels, sorted by Reader.
func (s *State) Channels(controller AgentName, now time.Time) Channels {
	list := Channels{Type: TypeChannels, Channels: []ChannelView{}}
	if a := s.agents[controller]; a != nil {
		for _, ch := range a.asks {
			list.Channels = append(list.Channels, s.channelView(ch, Moment{Now: now}))
		}
	}
	return list
}

func (s *State) channelView(ch *channelState, m Moment) ChannelView {
	c := &ch.definition
	reader := &s.agents[c.Reader].definition
	ask := s.next(m, KindAsk)
	ask.Controller = c.Controller
	s.sessionOf(&ask, m, c.Controller, false)
	ask.Epoch = ch.epochOf(&ask)
	v := ChannelView{Reader: c.Reader, Description: reader.Description, MaxCategory: c.MaxCategory, BaseCategory: c.BaseCategory,
		Budget: c.Budget, Remaining: max(0, c.Budget-ch.spent(ask.Epoch, ask.Time).seen()),
		MaxEscalations: c.MaxEscalations, Cat2Queries: ch.pool(ask.Epoch).Cat2Queries, MaxCat2Queries: c.MaxCat2Queries,
		Subscriptions: s.subscriptionsOf(ch), Costs: []Cost{}}
	if ch.session == ask.Session {
		v.Escalations = ch.escalations
	}
	for _, form := range queryForms {
		compiled, _, err := s.validator(ch, form.spec)
		if err != nil || form.spec.Category > c.MaxCategory {
			continue
		}
		d := ask
		d.Category = form.spec.Category
		s.escalate(&d, ch, nil)
		v.Costs = append(v.Costs, Cost{Form: form.name, Category: d.Category, Nominal: compiled.Prices().Nominal,
			Capacity: compiled.Prices().Reserve(), Escalation: d.Escalation})
	}
	return v
}
