package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// shared is what waits for room at the connections of a Reader that share its queries
// (PROTOCOL P9.5). The server gives each query to one of them, and one that has no
// handler free hands it back. It goes to another, until too many in a row had none: then
// the query waits until a connection answers, which has a handler free again, or until
// it is tried, since a handler that fails answers nothing.
type shared struct {
	begun   bool // the open queries were sent to the first connection that listened
	waiting map[bcp.QueryID]struct{}
	misses  int         // in a row
	trying  bool        // a timer runs
	tried   bcp.QueryID // what was sent when it last ended
}

func (s *shared) wait(id bcp.QueryID) {
	if s.waiting == nil {
		s.waiting = make(map[bcp.QueryID]struct{})
	}
	s.waiting[id] = struct{}{}
}

// handedBack notes that a connection of a Reader had no handler free for a query.
func (g *Gateway) handedBack(who agentRole, c *connection, id bcp.QueryID) {
	c.shared.wait(id)
	if c.shared.misses++; c.shared.misses <= missesOf*c.count {
		g.offer(who, c, 1)
	}
	g.try(who, c)
}

// missesOf is how often, for each connection of a Reader, a query may find none free in a
// row: with one of eight free, the chance that it is missed as often is 1.4 %.
const missesOf = 4

// try sends the oldest query that waits in a moment, and later each time that nobody
// takes it.
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

// offer sends up to n of the queries that wait, the oldest first, and returns the last.
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

// freed notes that a Reader has answered, so that one of its connections has a handler
// free.
func (g *Gateway) freed(who agentRole) {
	if c := g.agents[who]; c != nil && c.ready && len(c.shared.waiting) > 0 {
		c.shared.misses = 0
		g.offer(who, c, 1)
	}
}

// lostOne has the open queries of a Reader sent again when one of several connections
// that share them has ended: nobody knows which it had.
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
