package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// maxCounted bounds the different subjects of one second's violations; beyond
// it they are counted without their subject.
const maxCounted = 256

// decideEvent decides about a report of the server. Events that are only counted
// are counted at release, so that a failed record neither loses nor repeats one.
func (g *Gateway) decideEvent(in *input) (bcp.Decision, bool) {
	e := in.event
	switch {
	case e.call != nil, g.onlyCounted(e):
		return bcp.Decision{}, false
	case e.change != nil:
		return g.state.DecideCredential(g.moment(), e.change.Act, e.change.Agent, e.change.Key, e.change.CredentialChange), true
	case e.alert == bcp.AlertShared:
		return g.state.DecideShared(g.moment(), e.agent.Agent, e.agent.Role, e.key, e.note), true
	case e.alert == bcp.AlertExpiring:
		return g.state.DecideExpiring(g.moment(), e.agent.Agent, e.agent.Role, e.key), true
	case e.alert == bcp.AlertPanic:
		return g.state.DecidePanic(g.moment(), e.agent.Agent, e.agent.Role, e.channel, in.body), true
	case e.alert == bcp.AlertRollbackSeen, e.alert == bcp.AlertMarkStrange:
		d := g.state.DecideAlert(g.moment(), e.alert)
		d.Agent, d.Role = e.agent.Agent, e.agent.Role
		return d, true
	case e.kind == bcp.KindAlert:
		return g.state.DecideAlert(g.moment(), e.alert), true
	case e.kind == bcp.KindProcess:
		return g.state.DecideProcess(g.moment(), e.agent.Agent, e.process, e.note), true
	}
	return g.state.DecideConnection(g.moment(), e.kind, e.agent.Agent, e.agent.Role, e.key, e.note), true
}

// count adds to the next record of counts.
func (g *Gateway) count(c counted, n int) {
	if len(g.counts) == 0 {
		g.countingSince = g.clock()
	}
	if _, known := g.counts[c]; !known && len(g.counts) >= maxCounted {
		c.subject = ""
	}
	before := g.counts[c]
	g.counts[c] += max(1, n)
	if !floods(c, before) && floods(c, g.counts[c]) && g.config.Slow != nil {
		g.config.Slow(c.agent.Agent, c.agent.Role)
	}
}

// countingDue returns when the counts must be recorded, and false if there are none.
func (g *Gateway) countingDue() (time.Time, bool) {
	return g.countingSince.Add(countingInterval), len(g.counts) > 0
}

// nextCounted decides about the counts, once a second.
func (g *Gateway) nextCounted() (outcome, bool) {
	if at, ok := g.countingDue(); !ok || g.clock().Before(at) {
		return outcome{}, false
	}
	for c, n := range g.counts {
		if _, taken := g.counting[c]; !taken {
			g.counting[c] = g.state.Last() + 1
			return g.decideCounted(c, n), true
		}
	}
	return outcome{}, false
}

func (g *Gateway) decideCounted(c counted, n int) outcome {
	if c.kind == bcp.KindViolation {
		denied := []byte(c.subject)
		return outcome{in: &input{body: denied}, decision: g.state.DecideViolation(g.moment(), c.agent.Agent, c.agent.Role, c.act, subjects.Family(c.subject), denied, n)}
	}
	if s, err := subjects.Parse(c.subject); c.kind == bcp.KindRefusals && err == nil {
		return unasked(g.state.DecideLimited(g.moment(), s.Reader, s.Controller, s.Subscription, n))
	}
	return unasked(g.state.DecideEvent(g.moment(), c.kind, c.agent.Agent, c.agent.Role, n))
}

// countsRecorded removes the counts in this batch's decisions up to the last stored
// one. Nothing was counted since they were decided.
func (g *Gateway) countsRecorded(last uint64) {
	for c, seq := range g.counting {
		if seq <= last {
			delete(g.counts, c)
			g.countingSince = g.clock()
		}
	}
	clear(g.counting)
}
