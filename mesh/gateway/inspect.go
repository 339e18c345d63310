package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// whileServing returns a context for work that must not delay the gateway's end: it
// ends after a time, and as soon as the gateway is about to stop.
func (g *Gateway) whileServing(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	g.calls.Go(func() {
		select {
		case <-g.ending:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

const (
	// reloadTimeout is the timeout of a reload, and recordTimeout that of its record.
	reloadTimeout = 30 * time.Second
	recordTimeout = 10 * time.Second
	// reconcileTimeout bounds the reading of a whole journal.
	reconcileTimeout = 10 * time.Minute
)

// Inspect calls f with the state, between two steps. f must not keep it or take
// long. It returns the context's cause if that ends first, or an error if the
// gateway ended.
func (g *Gateway) Inspect(ctx context.Context, f func(*state.State)) error {
	called := make(chan struct{})
	g.tellUntil(ctx, call(func() {
		defer close(called)
		if ctx.Err() == nil {
			f(g.state)
		}
	}))
	select {
	case <-called:
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.done:
		return errEnded
	}
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

// reportAbsent answers a call of Waiting for an agent, if it has no connection.
func (g *Gateway) reportAbsent(agent bcp.AgentName) {
	f := g.leaving[agent]
	if f == nil || g.agents[agentRole{agent, bcp.RoleReader}] != nil || g.agents[agentRole{agent, bcp.RoleController}] != nil {
		return
	}
	delete(g.leaving, agent)
	var ids []string
	for _, id := range g.state.OpenQueries(agent) {
		ids = append(ids, string(id))
	}
	for _, key := range g.state.ChannelsOf(agent) {
		for _, out := range g.state.Outbox(key) {
			ids = append(ids, string(out.DeliveryID))
		}
	}
	for _, role := range []bcp.Role{bcp.RoleReader, bcp.RoleController} {
		for _, n := range g.state.Notices(agent, role) {
			ids = append(ids, string(n.ID))
		}
	}
	f(ids)
}

var errEnded = errors.New("the gateway has ended")
