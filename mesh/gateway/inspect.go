package gateway

import (
	"context"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Inspect calls f with the state, between two steps. f must not keep it or take long. It
// returns the context's cause if that ends first, or an error if the gateway ended.
func (g *Gateway) Inspect(ctx context.Context, f func(*state.State)) error {
	return g.between(ctx, func(context.Context) error {
		g.guard("looking at the state", func() { f(g.state) })
		return nil
	})
}

// Waiting calls f with the ids of what waits for an agent (queries, deliveries,
// notices), as soon as it has no connection: the server reports the end of one a
// moment later. Of several calls the last counts. f must not block.
func (g *Gateway) Waiting(agent bcp.AgentName, f func(ids []string)) {
	g.tell(call(func() {
		g.leaving[agent] = f
		g.reportAbsent(agent)
	}))
}
