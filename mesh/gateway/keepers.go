package gateway

import (
	"cmp"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

// keeping is of the requests of keepers.
type keeping struct{ plain }

// channel stands for all of the agent's own, in either role.
func (keeping) channel(_ *Gateway, m *message) bcp.ChannelKey {
	return bcp.ChannelKey{Controller: m.subject.Agent, Reader: m.subject.Agent}
}

// egresses are requests of agents to hosts.
type egresses struct{ keeping }

func (egresses) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	return g.state.DecideEgress(now, o.message.subject.Agent, o.message.body)
}

func (e egresses) answer(g *Gateway, o *outcome) { e.release(g, o) } // reserved before

func (egresses) release(g *Gateway, o *outcome) {
	d := &o.decision
	g.answer(o.message, bcp.KeeperReceipt[guard.Code]{Type: bcp.TypeEgress, Allowed: d.Verdict == bcp.Accept, Code: d.Egress.Why})
}

// usages are calls of agents' models.
type usages struct{ keeping }

func (usages) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	return g.state.DecideUsage(now, o.message.subject.Agent, o.message.body)
}

func (usages) answer(g *Gateway, o *outcome) {
	d := &o.decision
	g.answer(o.message, bcp.KeeperReceipt[bcp.Code]{Type: bcp.TypeUsage, Allowed: d.Verdict == bcp.Accept, Code: d.Code})
}

func (u usages) release(g *Gateway, o *outcome) {
	u.answer(g, o)
	g.logModel(o)
}

// logModel says when the model of an agent begins to fail, and when it works again. What
// its provider says is kept for the operator as long as it fails.
func (g *Gateway) logModel(o *outcome) {
	d := &o.decision
	if d.Usage.Act != bcp.UsageReport || d.Verdict != bcp.Accept {
		return
	}
	said := ""
	if r, code := bcp.ParseUsage(o.body); code == "" {
		said = inert.Line(r.Said)
	}
	g.modelSaid[d.Agent] = said
	switch alert, _ := d.Alert(); alert.Alert {
	case bcp.AlertModelFails:
		g.log.Warn("an agent's model did not answer", "agent", d.Agent, "why", alert.Model.String(), "provider_says", hclog.Quote(cmp.Or(said, "nothing")))
	case bcp.AlertModelWorks:
		delete(g.modelSaid, d.Agent)
		g.log.Warn("the model of an agent works again", "agent", d.Agent, "failed_for", d.At().Sub(time.Unix(0, d.Usage.Since)).Round(time.Second))
	}
}

// ModelSaid is what the provider of an agent's model says while that fails, harmless to
// show, and for the operator alone. Call it within [Gateway.Inspect].
func (g *Gateway) ModelSaid(agent bcp.AgentName) string { return g.modelSaid[agent] }
