package agents_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A list of agents that comes in parts is put together; an end that never comes is one.
//
// covers P9.2
func TestOperatorListsAgentsInParts(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	asked := g.listen(subjects.Control(bcp.ControlAgents))
	o := agents.NewOperator(connect(t, s.ClientURL(), agents.Options{Name: bcp.Operator}))
	parts := map[bcp.AgentName]status.Agents{
		"":  {Agents: []status.Agent{{Agent: "a"}, {Agent: "b"}}, Next: "c"},
		"c": {Agents: []status.Agent{{Agent: "c"}}, Next: "d"},
		"d": {Agents: []status.Agent{{Agent: "d"}}, Next: "b"}, // it would go round
	}
	ended := resultOf(func() ([]status.Agent, error) { return o.Agents(within(t)) })
	for range parts {
		m := next(t, asked, "the request")
		c, ok := bcp.ParseControl(m.Data)
		stopIf(t, !ok, "asked by %s", m.Data)
		g.respond(m, parts[c.Agent])
	}
	r := next(t, ended, "the list")
	failIf(t, r.err != nil || len(r.value) != 4 || r.value[3].Agent != "d", "%+v, %v", r.value, r.err)
}
