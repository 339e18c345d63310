package gateway

import (
	"context"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// unseal returns the value of a handle that a Controller was given. It goes to a Reader or
// a person from here, and nowhere else.
func (g *Gateway) unseal(controller bcp.AgentName, h bcp.Handle) (value string, ok bool) {
	d, i, ok := g.state.Enclosing(h)
	if !ok || d.Controller != controller {
		return "", false
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := g.keys.Open(ctx, &d); err != nil {
		g.log.Error("opening a sealed value", "error", err)
		return "", false
	}
	if i >= len(d.Enclosed) {
		return "", false
	}
	return d.Enclosed[i], true
}

// fillIn puts values in the places of handles in a query's arguments. Without one of them
// the query is not sent, and expires.
func (g *Gateway) fillIn(q *bcp.Query) (ok bool) {
	if g.isKernel(q.Controller) {
		return true
	}
	values := make(map[bcp.Handle]string)
	for _, h := range q.Handles() {
		if values[h], ok = g.unseal(q.Controller, h); !ok {
			return false
		}
	}
	q.Arguments, ok = q.Fill(values)
	return ok
}
