package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// subscribe listens to what agents and people may send, each with its own
// subscriptions and queue: one that sends more than the gateway reads loses only its
// own messages. A reload calls it before the server has the new permissions, and
// keeps the subscriptions of removed roles: what an agent may send under either
// definitions is decided and recorded.
func (g *Gateway) subscribe() error {
	mesh := g.config.State.Mesh
	today := definitions{Config: g.config.State}
	if runs := g.runState(); runs != nil {
		today.kernels = runs.Kernels()
	}
	g.definitions.Store(&today)
	everybody := []agentRole{{bcp.Operator, bcp.RoleOperator}}
	for _, a := range mesh.Agents {
		if a.Reader {
			everybody = append(everybody, agentRole{a.Name, bcp.RoleReader})
		}
		if a.Controller {
			everybody = append(everybody, agentRole{a.Name, bcp.RoleController})
		}
		if a.Kept() {
			everybody = append(everybody, agentRole{a.Name, bcp.RoleKeeper})
		}
	}
	for _, name := range mesh.Approvers {
		everybody = append(everybody, agentRole{name, bcp.RoleApprover})
	}
	runs, shows := requesters(mesh), mesh.RolesRequired()
	for _, who := range everybody {
		patterns := agentPatterns(who)
		if who.Role == bcp.RoleController && runs[who.Agent] {
			patterns = append(patterns, subjects.RunsOf(who.Agent))
		}
		if shows[who.Agent] && who.Role == g.rolesOver(who.Agent) { // of an agent with both roles only one counts
			patterns = append(patterns, subjects.RolesOf(who.Agent))
		}
		if err := g.link(who, patterns); err != nil {
			return err
		}
	}
	return g.listening()
}

// requesters returns the Controllers that may start runs. Only they have a subject for
// it.
func requesters(mesh *bcp.Mesh) map[bcp.AgentName]bool {
	all := map[bcp.AgentName]bool{}
	for i := range mesh.Kernels {
		for _, r := range mesh.Kernels[i].Runs {
			all[r.Requester] = true
		}
	}
	return all
}

// poolSize is how many connections agents and people share, if the server's proxy
// limits each agent's rate. On a cluster nothing does: there each has its own (ADR
// 0124).
const poolSize = 16

// pooled is a connection of the pool.
type pooled struct {
	*nats.Conn
	shares int
	grown  bool // the server may not have its newest subscriptions yet
}

// link is the share of an agent or a person, in one role, of a connection.
type link struct {
	conn *pooled
	lane *lane
	subs map[string]*nats.Subscription // by pattern
}

// link listens to one agent or person in one role, to each pattern once, from the moment
// that [Gateway.listening] returns. Messages to it use the same connection.
func (g *Gateway) link(who agentRole, patterns []string) error {
	of, err := g.linkFor(who)
	if err != nil {
		return fmt.Errorf("connecting for the %s %s: %w", who.Role, who.Agent, err)
	}
	for _, pattern := range patterns {
		if of.subs[pattern] != nil {
			continue
		}
		if of.subs[pattern], err = g.listen(of.conn.Conn, who, of.lane, pattern); err != nil {
			return fmt.Errorf("subscribing to %s: %w", pattern, err)
		}
		of.conn.grown = true
	}
	return nil
}

// listening returns when the server has all subscriptions.
func (g *Gateway) listening() error {
	g.linked.Lock()
	pool := slices.Clone(g.pool)
	g.linked.Unlock()
	for _, conn := range pool {
		if !conn.grown {
			continue
		}
		if err := conn.Flush(); err != nil {
			return err
		}
		conn.grown = false
	}
	return nil
}

// linkFor returns the shared connection of an agent, and assigns one if necessary.
func (g *Gateway) linkFor(who agentRole) (link, error) {
	g.linked.Lock()
	defer g.linked.Unlock()
	if of, ok := g.links[who]; ok {
		return of, nil
	}
	conn, err := g.share()
	if err != nil {
		return link{}, err
	}
	conn.shares++
	of := link{conn, g.inbox.lane(), map[string]*nats.Subscription{}}
	g.links[who] = of
	return of, nil
}

// drop stops listening to removed parties. A connection without users is closed.
func (g *Gateway) drop(gone func(agentRole) bool) {
	g.linked.Lock()
	defer g.linked.Unlock()
	for who, of := range g.links {
		if !gone(who) {
			continue
		}
		for _, sub := range of.subs {
			_ = sub.Unsubscribe() // a lost connection comes back without it
		}
		of.conn.shares--
		delete(g.links, who)
	}
	g.pool = slices.DeleteFunc(g.pool, func(conn *pooled) bool {
		if conn.shares == 0 {
			conn.Close()
		}
		return conn.shares == 0
	})
}

// share returns the connection with the fewest users.
func (g *Gateway) share() (*pooled, error) {
	if len(g.pool) >= poolSize && !g.config.Cluster {
		return slices.MinFunc(g.pool, func(a, b *pooled) int { return a.shares - b.shares }), nil
	}
	conn, err := g.config.Connect()
	if err != nil {
		return nil, err
	}
	before := conn.ReconnectHandler()
	conn.SetReconnectHandler(func(conn *nats.Conn) {
		if before != nil {
			before(conn)
		}
		// Answers were lost with the connection, and nobody else repeats a query.
		g.tell(call(func() {
			for who, c := range g.agents {
				if g.agentLink(who) == conn {
					g.guard("a connection", func() { g.sendWaiting(who, c) })
				}
			}
		}))
	})
	of := &pooled{Conn: conn}
	g.pool = append(g.pool, of)
	return of, nil
}

func (g *Gateway) agentLink(who agentRole) *nats.Conn {
	g.linked.Lock()
	defer g.linked.Unlock()
	if of, ok := g.links[who]; ok {
		return of.conn.Conn
	}
	return nil
}

// connections returns those of the pool.
func (g *Gateway) connections() []*nats.Conn {
	g.linked.Lock()
	defer g.linked.Unlock()
	all := make([]*nats.Conn, 0, len(g.pool))
	for _, conn := range g.pool {
		all = append(all, conn.Conn)
	}
	return all
}

// publish sends a message to an agent in its encoding, or to a person or a keeper in
// JSON. Whoever waits for the reply repeats lost messages. It returns false for a message
// that cannot be sent, for example because it is too large.
func (g *Gateway) publish(to agentRole, subject, reply string, message any) bool {
	conn, encoding := g.agentLink(to), bcp.JSON
	if conn == nil {
		return true
	}
	if to.Role == bcp.RoleController || to.Role == bcp.RoleReader {
		encoding = cmp.Or(g.state.Encoding(to.Agent), encoding)
	}
	b, err := bcp.Encode(message, encoding)
	if err != nil {
		g.log.Warn("spelling a message", "error", err)
		return false
	}
	header := g.markFor(to, reply != "" && to.Role == bcp.RoleController)
	if err = conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: b, Header: header}); err != nil {
		g.log.Warn("sending a message", "error", err)
	}
	return !errors.Is(err, nats.ErrMaxPayload)
}

// Flush returns when the server has everything that was sent to agents before.
func (g *Gateway) Flush(ctx context.Context) error {
	for _, conn := range g.connections() {
		if err := conn.FlushWithContext(ctx); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("flushing to the agents: %w", err)
		}
	}
	return nil
}

// unlink closes the connections of the pool.
func (g *Gateway) unlink() {
	for _, conn := range g.connections() {
		conn.Close()
	}
}

func agentPatterns(who agentRole) []string {
	switch who.Role {
	case bcp.RoleReader:
		return []string{subjects.PushesOf(who.Agent), subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleController:
		return []string{subjects.AsksOf(who.Agent), subjects.Session(who.Agent), subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleKeeper:
		return []string{subjects.Egress(who.Agent), subjects.Usage(who.Agent)}
	case bcp.RolePlanner, bcp.RoleSubplanner, bcp.RoleTool:
		return []string{subjects.RepliesOf(who.Role, who.Agent)}
	case bcp.RoleApprover:
		return []string{subjects.ApprovalsOf(who.Agent)}
	case bcp.RoleOperator:
		return []string{subjects.Controls()}
	}
	return nil
}

// prune stops listening to agents and people that are not in the definitions.
func (g *Gateway) prune() {
	known := map[bcp.AgentName]bool{bcp.Operator: true}
	for _, a := range g.config.State.Mesh.Agents {
		known[a.Name] = true
	}
	for _, name := range g.config.State.Mesh.Approvers {
		known[name] = true
	}
	serves := map[agentRole]bool{}
	if state := g.runState(); state != nil {
		for _, k := range state.Kernels() {
			for _, who := range servesKernel(k) {
				serves[who] = true
			}
		}
	}
	g.drop(func(who agentRole) bool { return !known[who.Agent] && !serves[who] })
}
