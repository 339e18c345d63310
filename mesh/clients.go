package mesh

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// maxPersonConnections is how many connections a person may have at once: a
// watching terminal, a browser, and commands as well.
const maxPersonConnections = 8

// spared is how long kickAll does not disconnect an agent again: its counts may
// still be those of the previous connection, up to two intervals ago.
const spared = 2 * time.Second

const (
	// fights is how often, within fightTime, a connection may replace another with
	// the same credentials before it counts as a fight: not a half-open connection
	// that was replaced, but two clients that replace each other in turn.
	fights    = 3
	fightTime = time.Minute
	// tellAgain is how long nothing more is said of the same credentials.
	tellAgain = 10 * time.Minute
)

// client is one open connection.
type client struct {
	id        server.ClientID
	key, host string
	since     time.Time
}

// copied records why credentials seem to be used in two places at once.
type copied struct {
	fought []time.Time // within fightTime
	told   time.Time
}

// clients limits each agent to its max_connections in each of its roles, and
// each person to maxPersonConnections. The newest wins (PROTOCOL P1.3): a dead
// connection must not lock its agent out. Its methods may be used concurrently.
type clients struct {
	kick func(server.ClientID) error
	log  hclog.Logger

	mu         sync.Mutex
	definition *bcp.Mesh
	open       map[server.Party][]client // oldest first
	copies     map[string]*copied        // by the public key of credentials
	kicked     map[server.Party]time.Time
	stopped    bool
	kicks      sync.WaitGroup
}

func newClients(definition *bcp.Mesh, kick func(server.ClientID) error, log hclog.Logger) *clients {
	return &clients{definition: definition, kick: kick, log: log, open: map[server.Party][]client{}, copies: map[string]*copied{}, kicked: map[server.Party]time.Time{}}
}

// use switches to other definitions of max_connections. Open connections stay.
func (c *clients) use(definition *bcp.Mesh) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definition = definition
}

// update handles an event of the server. If a connection begins with credentials
// that are also used elsewhere, it returns the hosts.
func (c *clients) update(e server.Connection) (shared string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.open[e.Party]
	if e.Connected {
		now := time.Now()
		next := client{id: e.ClientID, key: e.UserKey, host: e.Host, since: now}
		beyond := max(0, len(open)+1-c.limit(e.Party))
		shared = c.copy(open[:beyond], open[beyond:], next)
		c.disconnect(open[:beyond])
		open = append(slices.Clone(open[beyond:]), next)
	} else {
		open = slices.DeleteFunc(open, func(o client) bool { return o.id == e.ClientID })
	}
	if c.open[e.Party] = open; len(open) == 0 {
		delete(c.open, e.Party)
	}
	return shared
}

// copy compares a connection with those that it replaces and those that stay: the
// same credentials on two hosts, or in a fight, are a copy or a mistake. It
// returns the hosts.
func (c *clients) copy(replaced, stay []client, next client) string {
	hosts := []string{next.host}
	fought, beside := false, false
	for i, o := range slices.Concat(replaced, stay) {
		if o.key != next.key {
			continue
		}
		hosts = append(hosts, o.host)
		fought = fought || i < len(replaced)
		beside = beside || i >= len(replaced) && o.host != next.host
	}
	if !fought && !beside {
		return ""
	}
	maps.DeleteFunc(c.copies, func(_ string, k *copied) bool {
		k.fought = slices.DeleteFunc(k.fought, func(t time.Time) bool { return next.since.Sub(t) >= fightTime })
		return len(k.fought) == 0 && next.since.Sub(k.told) >= tellAgain
	})
	k := c.copies[next.key]
	if k == nil {
		k = &copied{}
		c.copies[next.key] = k
	}
	if fought {
		k.fought = append(k.fought, next.since)
	}
	if !beside && len(k.fought) < fights || next.since.Sub(k.told) < tellAgain {
		return ""
	}
	k.told = next.since
	slices.Sort(hosts)
	return strings.Join(slices.Compact(hosts), ", ")
}

// list returns the connections of agents and people, by name and role.
func (c *clients) list() []status.ClientConnection {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []status.ClientConnection{}
	for party, open := range c.open {
		for _, o := range open {
			list = append(list, status.ClientConnection{Key: o.key, Agent: party.Agent, Role: party.Role, Host: o.host, Since: o.since.UTC()})
		}
	}
	slices.SortFunc(list, func(a, b status.ClientConnection) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Role, b.Role), a.Since.Compare(b.Since))
	})
	return list
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

// kickAll disconnects an agent in one role without waiting, but at most once in
// two seconds.
func (c *clients) kickAll(agent bcp.AgentName, role bcp.Role) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := server.Party{Agent: agent, Role: role}
	if time.Since(c.kicked[p]) < spared {
		return
	}
	c.kicked[p] = time.Now()
	c.disconnect(c.open[p])
}

// disconnect begins to disconnect; c.mu is held.
func (c *clients) disconnect(list []client) {
	if c.stopped || len(list) == 0 {
		return
	}
	list = slices.Clone(list)
	c.kicks.Go(func() {
		for _, o := range list {
			if err := c.kick(o.id); err != nil && !errors.Is(err, server.ErrNoClient) {
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

// stop waits for pending disconnects and begins no more.
func (c *clients) stop() error {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.kicks.Wait()
	return nil
}
