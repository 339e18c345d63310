package mesh

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// maxPersonConnections is how many connections a person may have at once: a
// watching terminal, a browser, and commands beside them.
const maxPersonConnections = 8

// spared is how old a connection has to be for kickAll: what an agent is
// disconnected for was said up to two countings ago, by the connection before.
const spared = 2 * time.Second

// client is one connection.
type client struct {
	id    uint64
	since time.Time
}

// clients keeps each agent to its max_connections, in each of its roles, and
// each person to maxPersonConnections. The newest wins (PROTOCOL P1.3): a
// connection whose other end is gone without a word must not lock its agent
// out. Its methods may be used concurrently.
type clients struct {
	kick func(clientID uint64) error
	log  hclog.Logger

	mu         sync.Mutex
	definition *bcp.Mesh
	open       map[server.Party][]client // oldest first
	stopped    bool
	kicks      sync.WaitGroup
}

func newClients(definition *bcp.Mesh, kick func(uint64) error, log hclog.Logger) *clients {
	return &clients{definition: definition, kick: kick, log: log, open: map[server.Party][]client{}}
}

// use has other definitions say how many connections an agent may have. Those
// that are open stay.
func (c *clients) use(definition *bcp.Mesh) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definition = definition
}

// note follows the server's events.
func (c *clients) note(e server.Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.open[e.Party]
	if e.Connected {
		open = append(open, client{e.ClientID, time.Now()})
		if beyond := len(open) - c.limit(e.Party); beyond > 0 {
			c.disconnect(open[:beyond])
			open = slices.Clone(open[beyond:])
		}
	} else {
		open = slices.DeleteFunc(open, func(one client) bool { return one.id == e.ClientID })
	}
	if c.open[e.Party] = open; len(open) == 0 {
		delete(c.open, e.Party)
	}
}

// connected counts the parties, by role.
func (c *clients) connected() map[bcp.Role]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := make(map[bcp.Role]int)
	for party := range c.open {
		count[party.Role]++
	}
	return count
}

// kickAll disconnects an agent in one role, without waiting for it. Connections
// that have just begun are spared.
func (c *clients) kickAll(agent bcp.AgentName, role bcp.Role) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.open[server.Party{Agent: agent, Role: role}]
	recent := slices.IndexFunc(open, func(one client) bool { return time.Since(one.since) < spared })
	if recent < 0 {
		recent = len(open)
	}
	c.disconnect(open[:recent])
}

// disconnect begins to; c.mu is held.
func (c *clients) disconnect(list []client) {
	if c.stopped || len(list) == 0 {
		return
	}
	list = slices.Clone(list)
	c.kicks.Go(func() {
		for _, one := range list {
			if err := c.kick(one.id); err != nil && !errors.Is(err, server.ErrNoClient) {
				c.log.Error("disconnecting a client", "error", err)
			}
		}
	})
}

func (c *clients) limit(p server.Party) int {
	if p.Role != bcp.RoleReader && p.Role != bcp.RoleController {
		return maxPersonConnections
	}
	agent, _ := c.definition.Agent(p.Agent)
	return max(1, agent.MaxConnections)
}

// stop waits for what was begun, and begins no more.
func (c *clients) stop() error {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.kicks.Wait()
	return nil
}
