package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// maxNoticeBackoff is the maximum backoff for a notice to a connected agent
// that does not acknowledge it, as a plain NATS client may.
const maxNoticeBackoff = time.Minute

// sendNotices sends the notices of a decision for an agent, besides deliveries.
func (g *Gateway) sendNotices(d *bcp.Decision) {
	who := agentRole{d.Reader, bcp.RoleReader}
	if d.Kind == bcp.KindPrompt {
		who = agentRole{d.Agent, d.Role}
	}
	if g.isKernel(who.Agent) { // a kernel needs no results of its pushes
		g.todo(kernelReceipt{agentRole: who, id: d.Notice})
		return
	}
	if c := g.agents[who]; c == nil || !c.ready {
		g.wake(who)
		return
	}
	for _, n := range g.state.Notices(who.Agent, who.Role) {
		if n.ID == d.Notice {
			g.sendNotice(who, n)
		}
	}
}

// sendNoticesTo sends everything that waits for an agent that now listens.
func (g *Gateway) sendNoticesTo(who agentRole) {
	for _, n := range g.state.Notices(who.Agent, who.Role) {
		g.sendNotice(who, n)
	}
}

// sendNotice sends a notice now, and repeats it until it is acknowledged or the
// connection ends.
func (g *Gateway) sendNotice(who agentRole, n state.Notice) {
	s := &sending{to: who, backoff: patience}
	if before := g.notices[n.ID]; before != nil {
		s.count = before.count
	}
	g.notices[n.ID] = s
	g.repeatNotice(n, s)
}

func (g *Gateway) repeatNotice(n state.Notice, s *sending) {
	c := g.agents[s.to]
	g.publish(s.to, subjects.Deliver(n.Role, n.Agent, n.Peer), subjects.Reply(n.Role, n.Agent, n.ID, s.count), n.Message)
	s.count++
	count, backoff := s.count, s.backoff
	s.backoff = min(2*backoff, maxNoticeBackoff)
	s.again = func() {
		if s.count == count && g.notices[n.ID] == s && g.agents[s.to] == c && g.state.Waits(n.ID) {
			g.repeatNotice(n, s)
		}
	}
	g.runAt(g.clock().Add(backoff), s.again)
}

// wake starts an agent's command if the agent is not connected.
func (g *Gateway) wake(who agentRole) {
	if g.config.Wake != nil && g.agents[who] == nil {
		g.config.Wake(who.Agent)
	}
}

// kernelReceipt acknowledges a delivery or a notice for a kernel. The query of a delivery that
// was collected is forgotten.
type kernelReceipt struct {
	agentRole
	id    bcp.DeliveryID
	query bcp.QueryID
}

func (t kernelReceipt) decide(g *Gateway) (outcome, bool) {
	delete(g.runs.waits, t.query)
	d, waits := g.state.DecideAcknowledge(g.moment(), t.Agent, t.Role, t.id)
	return outcome{decision: d}, waits
}

// alert sends people an alert about a decision. The audit has the alerts that
// get lost.
func (g *Gateway) alert(d *bcp.Decision) {
	alert, ok := d.Alert()
	if !ok {
		return
	}
	g.publishAlert(alert)
}

func (g *Gateway) publishAlert(alert bcp.Alert) {
	switch alert.Alert {
	case bcp.AlertHeld, bcp.AlertFlood:
	case bcp.AlertModelFails, bcp.AlertModelWorks: // logged with what the provider says
	default:
		g.log.Warn("alert", "kind", string(alert.Alert), "agent", alert.Agent, "controller", alert.Controller, "reader", alert.Reader)
	}
	g.publish(agentRole{bcp.Operator, bcp.RoleOperator}, subjects.Alert(alert.Alert), "", alert)
}

// alertUnrecorded sends people an alert without a record.
func (g *Gateway) alertUnrecorded(a bcp.Alert) {
	g.publishAlert(a)
	if g.config.OnUnrecorded != nil {
		g.config.OnUnrecorded(a)
	}
}
