package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// countingInterval is how often counted refusals are recorded (PROTOCOL
	// P4.7).
	countingInterval = time.Second
	// maxCounted bounds the different subjects of one agent's violations that wait to be
	// recorded; beyond it they are counted without their subject.
	maxCounted = 16
	// crowdedInterval is how often the counts of an agent are recorded of which the
	// journal takes no more, and how often people are told so.
	crowdedInterval = time.Minute
)

// counted is the key of what is recorded once a second as a number.
type counted struct {
	kind    bcp.DecisionKind
	agent   agentRole
	act     string // of a violation: what the server denied
	subject string // denied to an agent, or pushed to too often
}

// count is how many there were, and when the first of them was.
type count struct {
	n     int
	since time.Time
}

// countingRecord says which counts a decision records.
type countingRecord struct {
	counted
	seq uint64
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
	if !c.floods(before) && c.floods(g.counts[c].n) && g.config.Slow != nil {
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
		return outcome{body: denied, decision: g.state.DecideViolation(g.moment(), c.agent.Agent, c.agent.Role, c.act, subjects.Family(c.subject), denied, n)}
	}
	said := bcp.Decision{Kind: c.kind, Agent: c.agent.Agent, Role: c.agent.Role, Count: n}
	if s, err := subjects.Parse(c.subject); c.kind == bcp.KindRefusals && err == nil { // beyond max_rate, or what a window takes
		said.Agent, said.Role, said.Reader, said.Controller, said.Subscription = s.Reader, bcp.RoleReader, s.Reader, s.Controller, s.Subscription
		said.Check, said.Code = bcp.CheckRate, bcp.RateLimited
	}
	return outcome{decision: g.state.DecideEvent(g.moment(), said)}
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

// floods reports whether an agent has too many refusals or violations in a second.
func (c counted) floods(count int) bool {
	return (c.kind == bcp.KindRefusals || c.kind == bcp.KindViolation) && c.agent.Agent != "" && count >= floodRefusals
}

// release disconnects an agent that floods, once the record that counts its refusals is
// written.
func (counts) release(g *Gateway, o *outcome) {
	d := &o.decision
	if (counted{kind: d.Kind, agent: agentRole{d.Agent, d.Role}}).floods(d.Count) && g.config.Kick != nil {
		g.log.Warn("disconnecting an agent that floods", "agent", d.Agent, "role", d.Role, "refusals", d.Count)
		g.config.Kick(d.Agent, d.Role)
	}
}
