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

// poolSize is how many connections agents and people share, if the server's proxy
// limits each agent's rate. On a cluster nothing does: there each has its own (ADR
// 0124).
const poolSize = 16

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

// answer replies to a message in its sender's encoding, in the sender's own inbox. Without
// a message there is no reply.
func (g *Gateway) answer(m *message, reply any) {
	if m == nil {
		return
	}
	to, from := g.replyTo(m), g.sender(m)
	if to == "" {
		return
	}
	if !g.publish(from, to, "", reply) {
		g.publish(from, to, "", bcp.RefusalOf(bcp.Internal))
	}
}

// replyTo returns the gateway's subject for the answer to a message, or nothing if it does
// not name an inbox of its sender. The subject of an auditor's request does not say
// whose it is: its answer may go to any person.
func (g *Gateway) replyTo(m *message) string {
	if m.reply == "" {
		return ""
	}
	who := g.sender(m)
	if m.subject.Kind == subjects.KindControl && slices.Contains(bcp.AuditorActs(), m.subject.Event) {
		who.Agent = subjects.InboxOwner(m.reply)
	}
	return subjects.Answer(who.Role, who.Agent, m.reply)
}
