package definition

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/lint"
)

// advise says where a channel allows more than it can use, or less than its
// subscriptions need together (BCP-73). It comes after all warnings: they must not
// get lost in it. A folder with errors has others to think of first.
func (b *builder) advise(m *bcp.Mesh) {
	if b.incomplete || !b.report.OK() {
		return
	}
	flow := lint.FlowOf(m)
	for i := range m.Channels {
		b.adviseChannel(m, &m.Channels[i])
		b.adviseWide(m, flow, &m.Channels[i])
	}
}

// adviseWide says what the channel lets through without need.
func (b *builder) adviseWide(m *bcp.Mesh, flow *lint.Flow, c *bcp.Channel) {
	e := b.controllers[c.ChannelKey]
	for _, w := range flow.Wide(c, c.Settings(m, nil, constraint.Compile)) {
		e.warnf(w.Key, CodeAdviceWide, "%s%s%s", w.Text, InsteadWrite, w.Write)
	}
}

func (b *builder) adviseChannel(m *bcp.Mesh, c *bcp.Channel) {
	e := b.controllers[c.ChannelKey]
	settings := c.Settings(m, nil, constraint.Compile)
	summaries, fitting, highest := 0, 0, bcp.Category(1)
	var together bcp.Bits
	limit, limitKey := c.Budget, "budget_bits"
	if c.PushBudget < c.Budget {
		limit, limitKey = c.PushBudget, "push_budget_bits"
	}
	for _, s := range c.Subscriptions {
		v, err := b.compiler.Compile(s.Spec, settings.OfSubscription(s, len(c.Subscriptions)))
		if err != nil {
			return // checkSubscription has said why
		}
		if highest = max(highest, s.Spec.Category); s.Spec.Category == 3 {
			summaries++
		}
		if nominal := v.Prices().Nominal; nominal <= limit { // the others are warned of already
			together += nominal // at most 256 specs of some 55,000 bits
			fitting++
		}
	}
	if len(c.Subscriptions) > 0 && highest < c.MaxCategory && !mayAsk(m, c.Controller) {
		e.warnf("max_category", CodeAdviceMaxCategory, "the tools of %s lack BCPQuery and no subscription is above category %d, so that nothing uses category %d%smax_category: %d",
			c.Controller, highest, c.MaxCategory, InsteadWrite, highest)
	}
	if summaries >= 2 && 2*summaries >= len(c.Subscriptions) {
		e.warnf("subscriptions", CodeAdviceShare, "%d of %d subscriptions are summaries: category 3 is for the rare need that no question can put%scategory: 2", summaries, len(c.Subscriptions), InsteadWrite)
	}
	if fitting >= 2 && together > limit {
		e.warnf(limitKey, CodeAdviceBudget, "one push of each subscription costs %s together and %s is %s: in no epoch do all of them come through; narrow them, or allow them%s%s: %s",
			together.Words(), limitKey, limit.Rounded(), InsteadWrite, limitKey, strings.TrimSuffix(together.String(), ".0"))
	}
}

// mayAsk reports whether an agent can ask: one that lists no tools may.
func mayAsk(m *bcp.Mesh, name bcp.AgentName) bool {
	a, _ := m.Agent(name)
	return len(a.Tools) == 0 || slices.Contains(a.ProtocolTools(), bcp.ToolQuery)
}
