package gateway

import (
	"cmp"
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

// connection is a connected agent in one role.
type connection struct {
	count     int
	handshake bcp.DeliveryID // of bcp_subscriptions_active, until acknowledged
	acks      acks           // of the connection
	// ready says that the agent listens, or that patience has ended. Until then
	// a Reader's queries wait, so that none is lost or repeated, and a
	// Controller's deliveries come one at a time, in order.
	ready bool
	// owed says that a new connection of the Reader has not been sent its open
	// queries yet.
	owed bool
	// unheard counts how often queries, or deliveries, were sent and nobody listened.
	unheard int
	// resume is from when on a Controller that did not listen is sent deliveries again.
	resume time.Time
	shared shared
}

// acks counts the acknowledgements of a sending. Each of several connections
// acknowledges it once.
type acks struct{ sending, count int }

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

// resume greets everybody again after the state was read from the journal, and wakes
// absent agents: messages for them may be stored although they were not
// acknowledged.
func (g *Gateway) resume() {
	g.guard("the runs", g.resumeRuns)
	for who, c := range g.agents {
		g.guard("a connection", func() { g.sendWaiting(who, c) })
	}
	for _, agent := range g.config.State.Mesh.Agents {
		if len(g.state.OpenQueries(agent.Name)) > 0 {
			g.wake(agentRole{agent.Name, bcp.RoleReader})
		}
	}
	for _, c := range g.config.State.Mesh.Channels {
		if len(g.state.Outbox(c.ChannelKey)) > 0 {
			g.wake(agentRole{c.Controller, bcp.RoleController})
		}
	}
}

// carryOn continues under other definitions with connected agents: Readers get
// their subscriptions again, and everybody gets what waits only now. Agents do
// not get again what they already have: a second answer would count as a refusal.
func (g *Gateway) carryOn() {
	g.guard("the runs", g.resumeRuns)
	for id := range g.dispatched {
		if _, _, _, open := g.state.Open(id); !open {
			delete(g.dispatched, id)
		}
	}
	for who, c := range g.agents {
		if who.Role != bcp.RoleReader {
			g.sendAllDeliveries(who.Agent)
			continue
		}
		c.handshake, c.acks = bcp.DeliveryID(string(rune(handshakeLetter))+g.moment().Fresh), acks{}
		g.sendSubscriptions(who, c.handshake, 0, g.clock())
		g.sendQueries(who.Agent, false)
	}
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

// handshakes are the acknowledgements of bcp_subscriptions_active.
type handshakes struct{ undecided }

func (handshakes) answer(g *Gateway, o *outcome) { g.acknowledgedSubscriptions(o.message.subject) }

// receipts are the acknowledgements of results of answers, which change nothing.
type receipts struct{ undecided }

// acknowledgements are those of deliveries and notices.
type acknowledgements struct{ plain }

func (acknowledgements) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	s := &o.message.subject
	return g.state.DecideAcknowledge(now, s.Agent, s.Role, bcp.DeliveryID(s.ID))
}

func (acknowledgements) release(g *Gateway, o *outcome) {
	d := &o.decision
	delete(g.sending, d.Delivery)
	delete(g.notices, d.Notice)
	g.listens(agentRole{d.Agent, d.Role})
}

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
			g.sendUnheard(sent)
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
