package definition

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// warnFlow warns of what adds up across agents and channels, at the name of
// the agent to look at.
func (b *builder) warnFlow(m *bcp.Mesh) {
	for _, f := range bcp.FlowOf(m).Findings {
		i, _ := b.find(f.Agents[0])
		a := b.agents[i]
		if f.Code == bcp.FindingTrifecta && refusesTrifecta(&m.Agents[i]) {
			a.errorf("name", bcp.FindingTrifecta, "%s; or accept it by writing egress_budget_bits, the bits that may go out over egress_window", f.Text)
			continue
		}
		a.warnf("name", f.Code, "%s", f.Text)
	}
}

// warnArguments warns of arguments that take what a Controller knows out of the mesh, by a
// Reader that reaches hosts.
func (b *builder) warnArguments(m *bcp.Mesh) {
	flow := bcp.FlowOf(m)
	for i := range m.Channels {
		c := &m.Channels[i]
		private, out := flow.Legs(c.Controller).Private, flow.Legs(c.Reader).Out
		if c.MaxArgumentBytes > 0 && len(private) > 0 && len(out) > 0 {
			b.controllers[c.ChannelKey].warnf("max_argument_bytes", CodeArgumentsOut, "%s knows secrets (%s), and %s reaches out (%s): what arguments say of them may leave", c.Controller, strings.Join(private, ", "), c.Reader, strings.Join(out, ", "))
		}
	}
}

// refusesTrifecta reports whether an agent with all three legs is an error: the mesh runs
// it or opens hosts to it, and its definition does not accept that. Of other agents the
// mesh knows what their definitions tell, and can only warn.
func refusesTrifecta(agent *bcp.Agent) bool {
	return (agent.Supervised() || len(agent.Egress.Hosts) > 0) && !agent.Egress.BudgetStated
}

// warnTotals warns of total budgets that are less than what pushes of all channels
// would have of them.
func (b *builder) warnTotals(m *bcp.Mesh) {
	for _, a := range b.agents {
		totals := m.Totals(a.Name)
		parts := slices.SortedFunc(maps.Keys(totals.Pushes), func(x, y bcp.ChannelKey) int { return cmp.Compare(x.Reader, y.Reader) })
		if !slices.ContainsFunc(parts, func(key bcp.ChannelKey) bool {
			c, _ := m.Channel(key)
			return totals.Pushes[key] < min(c.Budget, c.PushBudget)
		}) {
			continue
		}
		list := make([]string, 0, len(parts))
		for _, key := range parts {
			list = append(list, string(key.Reader)+" "+totals.Pushes[key].String())
		}
		a.warnf("total_budget_bits", CodeTotalParts,
			"of it pushes may take a part each (%s), and questions the rest, %s: set push_budget_bits of these channels to what each may take, at most half of it together",
			strings.Join(list, ", "), totals.Asks)
	}
}
