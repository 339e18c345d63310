package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// handedBack notes that a connection of a Reader had no free handler for a query.
func (g *Gateway) handedBack(who agentRole, c *connection, id bcp.QueryID) {
	c.shared.wait(id)
	if c.shared.misses++; c.shared.misses <= missesOf*c.count {
		g.offer(who, c, 1)
	}
	g.try(who, c)
}

// missesOf is how often in a row, for each connection of a Reader, a query may find no
// free handler: with one of eight free, the chance of that many misses is 1.4 %.
const missesOf = 4

// try sends the oldest waiting query in a moment, with a backoff while nobody takes
// it.
func (g *Gateway) try(who agentRole, c *connection) {
	if c.shared.trying {
		return
	}
	c.shared.trying = true
	g.runAt(g.clock().Add(min(firstBackoff<<min(c.unheard, 20), maxBackoff)), func() {
		c.shared.trying = false
		if g.agents[who] != c || len(c.shared.waiting) == 0 {
			return
		}
		if _, waits := c.shared.waiting[c.shared.tried]; waits {
			c.unheard++
		} else {
			c.unheard = 0
		}
		c.shared.misses, c.shared.tried = 0, g.offer(who, c, 1)
		g.try(who, c)
	})
}

// offer sends up to n of the waiting queries, the oldest first, and returns the last.
func (g *Gateway) offer(who agentRole, c *connection, n int) bcp.QueryID {
	var last bcp.QueryID
	open := g.state.OpenQueries(who.Agent)
	for _, id := range open {
		if _, waits := c.shared.waiting[id]; waits && n > 0 {
			delete(c.shared.waiting, id)
			g.dispatch(id)
			last, n = id, n-1
		}
	}
	if n > 0 { // the rest has ended
		clear(c.shared.waiting)
	}
	return last
}

// freed notes that a Reader has answered, so one of its connections has a free
// handler.
func (g *Gateway) freed(who agentRole) {
	if c := g.agents[who]; c != nil && c.ready && len(c.shared.waiting) > 0 {
		c.shared.misses = 0
		g.offer(who, c, 1)
	}
}

// lostOne sends the open queries of a Reader again when one of its sharing
// connections has ended: it is unknown which queries it had.
func (g *Gateway) lostOne(who agentRole, c *connection) {
	if who.Role != bcp.RoleReader || !g.state.SharesQueries(who.Agent) {
		return
	}
	for _, id := range g.state.OpenQueries(who.Agent) {
		c.shared.wait(id)
	}
	if c.ready {
		g.offer(who, c, len(c.shared.waiting))
	}
}
