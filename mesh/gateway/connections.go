package gateway

import (
	"cmp"
	"context"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Backoff of unacknowledged messages.
const (
	firstBackoff = time.Millisecond // a connect event is not readiness
	maxBackoff   = 5 * time.Second
	// patience is how long an agent may take to acknowledge its first message,
	// a Reader its subscriptions, before the rest is sent anyway: a plain NATS
	// client may only listen for queries.
	patience = 250 * time.Millisecond
)

// noteConnection follows the server's events.
func (g *Gateway) noteConnection(kind bcp.DecisionKind, who agentRole) {
	c := g.agents[who]
	if kind == bcp.KindDisconnect {
		if c != nil {
			if c.count--; c.count <= 0 {
				delete(g.agents, who)
				g.reportAbsent(who.Agent)
			} else {
				g.lostOne(who, c)
			}
		}
		return
	}
	if c == nil {
		c = &connection{}
		g.agents[who] = c
	}
	c.count++
	g.sendWaiting(who, c)
}

// sendWaiting sends what waits for an agent that has just connected: a Reader gets
// its subscriptions before anything else (PROTOCOL P9.3), then its open queries; a
// Controller gets its deliveries.
func (g *Gateway) sendWaiting(who agentRole, c *connection) {
	switch who.Role {
	case bcp.RoleReader:
		c.unheard, c.owed, c.acks = 0, true, acks{}
		c.handshake = bcp.DeliveryID(string(rune(handshakeLetter)) + g.moment().Fresh)
		g.sendSubscriptions(who, c.handshake, 0, g.clock())
	case bcp.RoleController:
		c.unheard = 0
		g.deliverInOrder(who, c, 0)
	}
}

// deliverInOrder sends a Controller, after a pause, what waits for it, one by one until
// it listens: of what was sent before, nobody knows how much has come.
func (g *Gateway) deliverInOrder(who agentRole, c *connection, pause time.Duration) {
	c.ready, c.resume = false, g.clock().Add(pause)
	send := func() { g.sendAllDeliveries(who.Agent) }
	for _, key := range g.state.ChannelsOf(who.Agent) {
		g.park(key)
	}
	if pause == 0 {
		send()
	} else {
		g.runAt(c.resume, send)
	}
	g.runAt(c.resume.Add(patience), func() {
		if g.agents[who] == c && !g.clock().Before(c.resume.Add(patience)) {
			g.listens(who)
		}
	})
}

// listens notes that a Controller has acknowledged something, or had its time
// for that: a plain NATS client may never acknowledge.
func (g *Gateway) listens(who agentRole) {
	c := g.agents[who]
	if c == nil || c.ready || who.Role != bcp.RoleController {
		return
	}
	c.ready, c.unheard = true, 0
	g.sendAllDeliveries(who.Agent)
	g.sendNoticesTo(who)
}

// sendSubscriptions sends bcp_subscriptions_active until it is acknowledged.
func (g *Gateway) sendSubscriptions(who agentRole, id bcp.DeliveryID, sending int, since time.Time) {
	c := g.agents[who]
	if c == nil || c.handshake != id {
		return
	}
	if c.owed && g.clock().Sub(since) >= patience {
		g.sendOpenQueries(who, c)
	}
	g.publish(who, subjects.Deliver(who.Role, who.Agent, bcp.Gateway), subjects.Reply(who.Role, who.Agent, id, sending),
		g.state.Subscriptions(who.Agent))
	backoff := min(firstBackoff<<min(sending, 20), maxBackoff)
	g.runAt(g.clock().Add(backoff), func() { g.sendSubscriptions(who, id, sending+1, since) })
}

// The first letter of the id distinguishes acknowledgements of a Reader for
// messages that are not queries: bcp_subscriptions_active, and the result of an
// answer. The ids of queries begin with other letters.
const (
	handshakeLetter = 'h'
	receiptLetter   = 'r'
	noticeLetter    = 'n'
)

// acknowledgedSubscriptions notes that a Reader is ready for its open queries: each of
// its connections acknowledged one sending. The newest may have been too late for earlier
// sendings, which the others acknowledged.
func (g *Gateway) acknowledgedSubscriptions(s subjects.Subject) {
	who := agentRole{s.Agent, s.Role}
	c := g.agents[who]
	if c == nil || c.handshake != bcp.DeliveryID(s.ID) || s.Attempt < c.acks.sending {
		return
	}
	if s.Attempt > c.acks.sending {
		c.acks = acks{sending: s.Attempt}
	}
	if c.acks.count++; c.acks.count < c.count {
		return
	}
	c.handshake = ""
	if c.owed || !c.ready {
		g.sendOpenQueries(who, c)
	}
}

func (g *Gateway) sendOpenQueries(who agentRole, c *connection) {
	c.ready, c.owed = true, false
	if c.shared.begun && g.state.SharesQueries(who.Agent) {
		g.offer(who, c, len(c.shared.waiting))
		g.sendQueries(who.Agent, false)
	} else {
		c.shared = shared{begun: true, trying: c.shared.trying}
		g.sendQueries(who.Agent, true)
	}
	g.sendNoticesTo(who)
}

// sendQueries sends the open queries of a Reader, also those that were sent before.
func (g *Gateway) sendQueries(reader bcp.AgentName, again bool) {
	for _, id := range g.state.OpenQueries(reader) {
		if again || len(g.dispatched[id]) == 0 {
			g.sendQuery(id)
		}
	}
}

// sendQuery sends an open query to its Reader, if the Reader listens.
func (g *Gateway) sendQuery(id bcp.QueryID) {
	_, reader, _, open := g.state.Open(id)
	if !open {
		return
	}
	who := agentRole{reader, bcp.RoleReader}
	switch c := g.agents[who]; {
	case c == nil || !c.ready:
		g.wake(who)
	case len(c.shared.waiting) > 0:
		c.shared.wait(id)
	default:
		g.dispatch(id)
	}
}

// dispatch sends an open query. Each sending has its own reply subject: for the
// server a second message with the same one would use up the answer that the first
// allows (PROTOCOL P9.5).
func (g *Gateway) dispatch(id bcp.QueryID) {
	query, reader, attempt, open := g.state.Open(id)
	if !open || !g.runQuery(id, &query) || !g.fillIn(&query) {
		return
	}
	sending := len(g.dispatched[id])
	g.dispatched[id] = append(g.dispatched[id], attempt)
	g.publish(agentRole{reader, bcp.RoleReader}, subjects.Query(reader, query.Controller), subjects.Reply(bcp.RoleReader, reader, id, sending), query)
}

// noteUnheard sends the open queries of a Reader again, with a backoff, if it
// did not listen to one; likewise a notice, and the deliveries of a Controller, from
// the first on. A Reader's subscriptions are repeated anyway.
func (g *Gateway) noteUnheard(s subjects.Subject) {
	who := agentRole{s.Agent, s.Role}
	c := g.agents[who]
	delivery := g.sending[bcp.DeliveryID(s.ID)]
	if sent := cmp.Or(delivery, g.notices[bcp.DeliveryID(s.ID)]); sent != nil {
		switch {
		case sent.parked || sent.to != who || sent.count != s.Attempt+1:
		case delivery == nil:
			// An agent that takes a while to subscribe gets it within another such while.
			sent.unheard++
			g.runAt(g.clock().Add(firstBackoff<<min(sent.unheard, 20)), sent.again)
		case c != nil:
			c.unheard++
			g.deliverInOrder(who, c, min(firstBackoff<<min(c.unheard, 20), maxBackoff))
		}
		return
	}
	if _, _, _, open := g.state.Open(bcp.QueryID(s.ID)); !open || c == nil || !c.ready {
		return
	}
	if g.state.SharesQueries(who.Agent) {
		g.handedBack(who, c, bcp.QueryID(s.ID))
		return
	}
	c.ready = false
	c.unheard++
	wait := min(firstBackoff<<min(c.unheard, 20), maxBackoff)
	g.runAt(g.clock().Add(wait), func() {
		if g.agents[who] == c && !c.ready {
			g.sendOpenQueries(who, c)
		}
	})
}

// sendingAttempt returns the attempt of a sending of a query; if this gateway did
// not make it, it was an early one.
func (g *Gateway) sendingAttempt(id bcp.QueryID, sending int) int {
	if attempts := g.dispatched[id]; sending < len(attempts) {
		return attempts[sending]
	}
	return 0
}

// connects is the beginning or the end of an agent's connection.
type connects struct {
	kind      bcp.DecisionKind
	agent     agentRole
	key, host string
	flap      int // its number in its minute, once counted
}

// Connected tells the gateway that an agent's connection was accepted, with the
// public key of its credentials and its host.
func (g *Gateway) Connected(agent bcp.AgentName, role bcp.Role, key, host string) {
	g.tell(&connects{kind: bcp.KindConnect, agent: agentRole{agent, role}, key: key, host: host})
}

// Disconnected tells it that a connection ended.
func (g *Gateway) Disconnected(agent bcp.AgentName, role bcp.Role, key, host string) {
	g.tell(&connects{kind: bcp.KindDisconnect, agent: agentRole{agent, role}, key: key, host: host})
}

func (e *connects) decide(g *Gateway, _ *outcome) (bcp.Decision, bool) {
	if g.onlyCounted(e) {
		return bcp.Decision{}, false
	}
	return g.state.DecideEvent(g.moment(), bcp.Decision{Kind: e.kind, Agent: e.agent.Agent, Role: e.agent.Role, Key: e.key, Note: e.host}), true
}

// onlyCounted reports whether it gets no record of its own.
func (g *Gateway) onlyCounted(e *connects) bool {
	if e.flap == 0 { // not yet in a batch whose record failed
		f := g.flaps[e.agent]
		if minute := g.clock().Truncate(time.Minute); !f.minute.Equal(minute) {
			f = connectionEvents{minute: minute}
		}
		f.events++
		g.flaps[e.agent], e.flap = f, f.events
	}
	return e.flap > maxConnectionEvents
}

func (e *connects) recorded(g *Gateway, d *bcp.Decision) { g.noteConnection(e.kind, e.agent) }

func (e *connects) unrecorded(g *Gateway) {
	g.count(counted{kind: e.kind, agent: e.agent}, 1)
	g.noteConnection(e.kind, e.agent)
}

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

// runQuery adds to a kernel's query what its Reader needs. It returns false while that
// is not known: the query is sent once the ask was repeated.
func (g *Gateway) runQuery(id bcp.QueryID, q *bcp.Query) bool {
	if !g.isKernel(q.Controller) {
		return true
	}
	r, open := g.runState().Waiting(g.runs.waits[id])
	if !open || r.Schema == nil {
		return false
	}
	q.Instruction, q.Content = r.Instruction, string(r.Content)
	return true
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
