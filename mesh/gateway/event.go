package gateway

import (
	"context"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// maxConnectionEvents is how many beginnings and ends of an agent's
	// connections, in one role, are recorded one by one in a minute. Beyond
	// it they are counted, like refusals beyond max_refusals.
	maxConnectionEvents = 30
	// floodRefusals is how many refusals of an agent in one second, beyond
	// max_refusals, or violations of its permissions, slow and disconnect it.
	floodRefusals = 1000
)

// event is a report of the server about an agent.
type event struct {
	kind    bcp.DecisionKind
	agent   agentRole
	act     string // of a violation: what the server denied
	subject string // of a violation, escaped
	count   int
	process string // of a process: its change
	note    string // of a process: how it ended; of a connection: its host
	key     string // of a connection: that of its credentials
	alert   bcp.AlertKind
	channel bcp.ChannelKey // of an alert about the input's message
	change  *Change
	// recorded, if set, is called once an alert is recorded.
	recorded func()
	call     func() // instead: has the gateway's goroutine call it
	flap     int    // number of a connection's event in its minute, once counted
}

// Connected tells the gateway that an agent's connection was accepted, with the
// public key of its credentials and its host.
func (g *Gateway) Connected(agent bcp.AgentName, role bcp.Role, key, host string) {
	g.tell(event{kind: bcp.KindConnect, agent: agentRole{agent, role}, key: key, note: host})
}

// Disconnected tells it that a connection ended.
func (g *Gateway) Disconnected(agent bcp.AgentName, role bcp.Role, key, host string) {
	g.tell(event{kind: bcp.KindDisconnect, agent: agentRole{agent, role}, key: key, note: host})
}

// Shared tells it that credentials are used in two places at once.
func (g *Gateway) Shared(agent bcp.AgentName, role bcp.Role, key, hosts string) {
	g.tell(event{kind: bcp.KindAlert, alert: bcp.AlertShared, agent: agentRole{agent, role}, key: key, note: hosts})
}

// Expiring tells it that credentials expire soon. The gateway's goroutine calls
// recorded once that is stored; if the gateway stops earlier, it is not called.
func (g *Gateway) Expiring(agent bcp.AgentName, role bcp.Role, key string, recorded func()) {
	g.tell(event{kind: bcp.KindAlert, alert: bcp.AlertExpiring, agent: agentRole{agent, role}, key: key, recorded: recorded})
}

// Change is one change of keys or credentials.
type Change struct {
	Act   bcp.CredentialAct
	Agent bcp.AgentName
	Key   string
	bcp.CredentialChange
	// Recorded is called by the gateway's goroutine once the change is recorded.
	Recorded func()
}

// Credential has it record a change. Where the gateway ends before, nothing calls
// Recorded.
func (g *Gateway) Credential(c Change) { g.tell(event{kind: bcp.KindCredential, change: &c}) }

// Denied tells it that the server denied an agent an act (a word of package server)
// on a subject, count times. The subject is already escaped and truncated.
func (g *Gateway) Denied(agent bcp.AgentName, role bcp.Role, act, subject string, count int) {
	g.tell(event{kind: bcp.KindViolation, agent: agentRole{agent, role}, act: act, subject: subject, count: count})
}

// Refused counts refusals without an agent: of those who ask to join too often.
func (g *Gateway) Refused(count int) { g.tell(event{kind: bcp.KindRefusals, count: count}) }

// Process tells it the change of an agent's command: one of the events of
// package bcp, and how it ended, in our own words.
func (g *Gateway) Process(agent bcp.AgentName, process, note string) {
	g.tell(event{kind: bcp.KindProcess, agent: agentRole{Agent: agent}, process: process, note: note})
}

// Alert makes it record an alert about the mesh, without a channel.
func (g *Gateway) Alert(kind bcp.AlertKind) { g.tell(event{kind: bcp.KindAlert, alert: kind}) }

// Record is Alert, and the gateway's goroutine calls recorded once it is stored. If the
// gateway stops earlier, it is not called.
func (g *Gateway) Record(kind bcp.AlertKind, recorded func()) {
	g.tell(event{kind: bcp.KindAlert, alert: kind, recorded: recorded})
}

func (g *Gateway) tell(e event) { g.tellUntil(context.Background(), e) }

// tellUntil is tell, but gives up if ctx ends before there is room.
func (g *Gateway) tellUntil(ctx context.Context, e event) { g.events.putUntil(ctx, &input{event: &e}) }

// onlyCounted reports whether an event gets no record of its own.
func (g *Gateway) onlyCounted(e *event) bool {
	switch e.kind {
	case bcp.KindConnect, bcp.KindDisconnect:
	default:
		return e.kind == bcp.KindViolation || e.kind == bcp.KindRefusals
	}
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

// countEvent counts an event without a record of its own.
func (g *Gateway) countEvent(e *event) {
	g.count(counted{kind: e.kind, agent: e.agent, act: e.act, subject: e.subject}, e.count)
	if e.kind == bcp.KindConnect || e.kind == bcp.KindDisconnect {
		g.noteConnection(&bcp.Decision{Kind: e.kind, Agent: e.agent.Agent, Role: e.agent.Role})
	}
}

// connectionEvents counts the connection events of an agent in a minute.
type connectionEvents struct {
	minute time.Time
	events int
}

// floods reports whether an agent has too many refusals or violations in a second.
func floods(c counted, count int) bool {
	return (c.kind == bcp.KindRefusals || c.kind == bcp.KindViolation) && c.agent.Agent != "" && count >= floodRefusals
}

// kickFlooder disconnects an agent that floods, once the record that counts its
// refusals is written.
func (g *Gateway) kickFlooder(d *bcp.Decision) {
	if floods(counted{kind: d.Kind, agent: agentRole{d.Agent, d.Role}}, d.Count) && g.config.Kick != nil {
		g.log.Warn("disconnecting an agent that floods", "agent", d.Agent, "role", d.Role, "refusals", d.Count)
		g.config.Kick(d.Agent, d.Role)
	}
}
