package definition

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// advise says where a channel allows more than it can use (BCP-73). It comes after
// all warnings: they must not get lost in it. A folder with errors has others to think of first.
func (b *builder) advise(m *bcp.Mesh) {
	if b.incomplete || !b.report.OK() {
		return
	}
	for i := range m.Channels {
		c := &m.Channels[i]
		e, highest, summaries := b.controllers[c.ChannelKey], bcp.Category(1), 0
		for _, s := range c.Subscriptions {
			if highest = max(highest, s.Spec.Category); s.Spec.Category == 3 {
				summaries++
			}
		}
		if len(c.Subscriptions) > 0 && highest < c.MaxCategory && !mayAsk(m, c.Controller) {
			e.warnf("max_category", CodeAdviceMaxCategory, "the tools of %s lack BCPQuery and no subscription is above category %d, so that nothing uses category %d%smax_category: %d",
				c.Controller, highest, c.MaxCategory, InsteadWrite, highest)
		}
		if summaries >= 2 && 2*summaries >= len(c.Subscriptions) {
			e.warnf("subscriptions", CodeAdviceShare, "%d of %d subscriptions are summaries: category 3 is for the rare need that no question can put%scategory: 2", summaries, len(c.Subscriptions), InsteadWrite)
		}
	}
}

// mayAsk reports whether an agent can ask: one that lists no tools may.
func mayAsk(m *bcp.Mesh, name bcp.AgentName) bool {
	a, _ := m.Agent(name)
	return len(a.Tools) == 0 || slices.Contains(a.ProtocolTools(), bcp.ToolQuery)
}
