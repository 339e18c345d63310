package meshtest_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// The shortest test of a pair of agents: one question, one answer.
func Example() {
	_ = func(t *testing.T) {
		m := meshtest.Start(t, map[string]string{
			"main.md":   "---\nname: main\nbcp_channels: [{peer: mailer, role: controller, max_category: 1, budget_bits: 10}]\n---\n",
			"mailer.md": "---\nname: mailer\nbcp_channels: [{peer: main, role: reader}]\n---\n",
		})
		main, mailer := m.Connect(t, "main", bcp.RoleController), m.Connect(t, "mailer", bcp.RoleReader)
		deliveries, queries := main.Deliveries(t), mailer.Queries(t)

		id := main.Accepted(t, "mailer", `{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`)
		mailer.Answer(t, queries.Next(t), `"response":{"urgent":true}`)
		delivery := deliveries.NextOf(t, meshtest.With("query_id", id))
		main.Acknowledge(t, delivery)
	}
}
