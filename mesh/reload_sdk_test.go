package mesh_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// Each edit changes what both agents may do, so that the server disconnects them
// in the middle of what they say. Their clients come back and try again under the
// same ids: everything that they were told was accepted is charged and delivered
// once, and nothing else is.
//
// covers P1.5, P2.6, P4.5, P9.1, P9.5, A-RECONN
func TestReloadDisconnectsInTheMiddle(t *testing.T) {
	t.Parallel()
	definitions := []map[string]string{pair(1_000_000), pair(1_000_000)}
	definitions[1]["main.md"] = strings.Replace(definitions[1]["main.md"], "id: digest", "id: summary", 1)
	definitions[1]["main.md"] = strings.Replace(definitions[1]["main.md"], "bcp_channels:\n", "bcp_channels:\n  - {peer: clerk, role: controller, max_category: 1, budget_bits: 10}\n", 1)
	definitions[1]["clerk.md"] = agentFile("clerk", "", reads("main"))
	for _, files := range definitions {
		files["mesh.yaml"] = "max_refusals: 6000/m\n"
	}
	m := startEdited(t, definitions[0])
	ctx := within(t, 2*meshtest.Patience)
	all := startTraffic(ctx, t, m.Mesh, client(t, m.Mesh, "main", 0, agents.Options{}), client(t, m.Mesh, "mailer", 0, agents.Options{}))
	for i := range 6 { // more of them, and clients come back later and later
		r := m.edit(t, definitions[(i+1)%2])
		failIf(t, len(r.Errors) > 0 || r.Error != "" || len(r.Changes) == 0, "%+v", r)
		// Both are back before the next one.
		for _, name := range []bcp.AgentName{"main", "mailer"} {
			m.WaitCount(t, i+2, by(bcp.KindConnect, name))
		}
	}
	n := m.Count(by(bcp.KindDisconnect, "mailer"))
	failIf(t, n < 6, "the mailer was disconnected %d times", n)
	all.check(ctx, t, m.Mesh)
}
