package definition

import "github.com/bcpmesh/bcpmesh/bcp"

// warnFlow warns of what adds up across agents and channels, at the name of
// the agent to look at. A folder with errors may lack the other half of it.
func (b *builder) warnFlow(m *bcp.Mesh) {
	if b.incomplete || !b.report.OK() {
		return
	}
	byName := make(map[bcp.AgentName]*agent, len(b.agents))
	for _, a := range b.agents {
		byName[a.name()] = a
	}
	for _, f := range bcp.FlowOf(m).Findings {
		a := byName[f.Agents[0]]
		a.source.warnf(a.object.at("name"), f.Code, "name", "%s", f.Text)
	}
}
