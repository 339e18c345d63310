package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// maxNoticeBackoff is how often a notice is repeated to an agent that is
// connected and does not acknowledge it, as a plain NATS client may.
const maxNoticeBackoff = time.Minute

// sendNotices sends what a decision left for an agent beside deliveries.
func (g *Gateway) sendNotices(d *bcp.Decision) {
	who := agentRole{d.Reader, bcp.RoleReader}
	if d.Kind == bcp.KindPrompt {
		who = agentRole{d.Agent, d.Role}
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

// sendNoticesTo sends everything that waits for an agent that listens now.
func (g *Gateway) sendNoticesTo(who agentRole) {
	for _, n := range g.state.Notices(who.Agent, who.Role) {
		g.sendNotice(who, n)
	}
}

// sendNotice sends a notice now, and again until it is acknowledged or the
// connection ends.
func (g *Gateway) sendNotice(who agentRole, n bcp.Notice) {
	c, count := g.agents[who], g.notices[n.ID]
	g.notices[n.ID]++
	g.publish(who, subjects.Deliver(n.Role, n.Agent, n.Peer), subjects.ReplyAttempt(n.Role, n.Agent, n.ID, count), n.Message)
	wait := min(patience<<min(count, 20), maxNoticeBackoff)
	g.at(g.clock().Add(wait), func() {
		if g.agents[who] != c || g.notices[n.ID] != count+1 || !g.state.Waits(n.ID) {
			return
		}
		g.sendNotice(who, n)
	})
}

// wake has an agent's command started, where the agent is not there.
func (g *Gateway) wake(who agentRole) {
	if g.config.Wake != nil && g.agents[who] == nil {
		g.config.Wake(who.Agent)
	}
}
