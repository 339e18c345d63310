package client

import (
	"context"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

var pair = map[string]string{
	"mesh.yaml": "auditors: [kim]\n",
	"main.md": `---
name: main
bcp_channels:
  - {peer: mailer, role: controller, max_category: 1, budget_bits: 100, subscriptions: [{id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}]}
---
`,
	"mailer.md": "---\nname: mailer\nbcp_channels: [{peer: main, role: reader}]\n---\n",
}

func connect(t *testing.T, m *meshtest.Mesh, name bcp.AgentName, role bcp.Role) *agents.Connection {
	t.Helper()
	c, err := agents.Connect(t.Context(), m.URL(), agents.CredsText(m.Creds(t, name, role)), agents.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The books of a mesh are waited for until they show what was decided before. Where they
// do not come to show it, as those of a server that is behind, it is said how much is
// missing; here another mesh has the books.
//
// covers P4.5
func TestBooksThatAreBehindSaySo(t *testing.T) {
	t.Parallel()
	m, other := meshtest.Start(t, pair), meshtest.Start(t, pair)
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	for range 5 {
		mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
	}
	operator := agents.NewOperator(connect(t, m, bcp.Operator, bcp.RoleOperator))
	if n, err := behind(t.Context(), agents.NewAuditor(connect(t, m, "kim", bcp.RoleAuditor)), operator); err != nil || n != 0 {
		t.Errorf("its own books: %d %v", n, err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if n, err := behind(short, agents.NewAuditor(connect(t, other, "kim", bcp.RoleAuditor)), operator); err != nil || n == 0 {
		t.Errorf("books that are behind: %d %v", n, err)
	}
}
