package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// maxCounted bounds the different subjects of one agent's violations that wait to be
	// recorded; beyond it they are counted without their subject.
	maxCounted = 16
	// crowdedInterval is how often the counts of an agent are recorded of which the
	// journal takes no more, and how often people are told so.
	crowdedInterval = time.Minute
)

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
	case e.alert == bcp.AlertRollbackSeen, e.alert == bcp.AlertMarkStrange, e.alert == bcp.AlertShare:
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

// count adds to the next record of counts of an agent.
func (g *Gateway) count(c counted, n int) {
	waiting := 0
	for other := range g.counts {
		if other.agent == c.agent {
			waiting++
		}
	}
	if _, known := g.counts[c]; !known && waiting >= maxCounted {
		c.subject = ""
	}
	before := g.counts[c].n
	since := g.counts[c].since
	if before == 0 {
		since = g.clock()
	}
	g.counts[c] = count{before + max(1, n), since}
	if !floods(c, before) && floods(c, g.counts[c].n) && g.config.Slow != nil {
		g.config.Slow(c.agent.Agent, c.agent.Role)
	}
}

// countDue is when a count must be recorded: each agent has one record an interval.
func (g *Gateway) countDue(c counted) time.Time {
	interval := countingInterval
	if g.state.ExceedsShare(c.agent.Agent) {
		interval = crowdedInterval
	}
	at, last := g.counts[c].since.Add(interval), g.countedAt[c.agent].Add(interval)
	if last.After(at) {
		return last
	}
	return at
}

// countingDue returns when the first counts must be recorded, and false if there are none.
func (g *Gateway) countingDue() (due time.Time, ok bool) {
	for c := range g.counts {
		if at := g.countDue(c); !ok || at.Before(due) {
			due, ok = at, true
		}
	}
	return due, ok
}

// nextCounted decides about counts that are due.
func (g *Gateway) nextCounted() (outcome, bool) {
	g.working = work{counts: true}
	for c, count := range g.counts {
		if _, taken := g.counting[c.agent]; !taken && !g.clock().Before(g.countDue(c)) {
			g.counting[c.agent] = countingRecord{c, g.state.Last() + 1}
			return g.decideCounted(c, count.n), true
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
	for agent, record := range g.counting {
		if record.seq <= last {
			delete(g.counts, record.counted)
			g.countedAt[agent] = g.clock()
		}
	}
	clear(g.counting)
}

// tellShare tells people that the journal takes no more of an agent until it is truncated.
func (g *Gateway) tellShare(who agentRole) {
	if now := g.clock(); now.Sub(g.crowding[who.Agent]).Abs() >= crowdedInterval*60 {
		g.crowding[who.Agent] = now
		g.log.Warn("an agent has more of the journal than is free: its messages are refused until the journal is truncated", "agent", who.Agent)
		g.raiseAlert(bcp.AlertShare, who)
	}
}
