package lint

import "github.com/bcpmesh/bcpmesh/bcp"

// AcceptedLegs says of which agents the definitions accept that they have private
// data, untrusted input and a way out, a line each: the audit has them at every start,
// and what a reload changes of them.
func AcceptedLegs(m *bcp.Mesh) []string {
	var lines []string
	flow := FlowOf(m)
	for i := range m.Agents {
		a := &m.Agents[i]
		if a.Egress.BudgetStated && flow.Legs(a.Name).All() {
			lines = append(lines, string(a.Name)+" may have private data, untrusted input and a way out (egress_budget_bits)")
		}
	}
	return lines
}
