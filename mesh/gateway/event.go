package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// maxConnectionEvents is how many beginnings and ends of an agent's
	// connections, in one role, are recorded one by one in a minute. Beyond
	// it they are counted, like refusals beyond max_refusals.
	maxConnectionEvents = 30
	// floodRefusals is how many refusals of an agent in one second, beyond
	// max_refusals, disconnect it.
	floodRefusals = 1000
)

// event is something that the server tells about an agent.
type event struct {
	kind    bcp.DecisionKind
	agent   agentRole
	subject string // of a violation, escaped
	count   int
	process string // of a process: what became of it
	note    string // of a process: how it ended
	call    func() // instead: has the gateway's goroutine call it
}

// Connected tells the gateway that an agent's connection was accepted.
func (g *Gateway) Connected(agent bcp.AgentName, role bcp.Role) {
	g.tell(event{kind: bcp.KindConnect, agent: agentRole{agent, role}})
}

// Disconnected tells it that one ended.
func (g *Gateway) Disconnected(agent bcp.AgentName, role bcp.Role) {
	g.tell(event{kind: bcp.KindDisconnect, agent: agentRole{agent, role}})
}

// Denied tells it that the server refused an agent a subject, count times. The
// subject is escaped and truncated already.
func (g *Gateway) Denied(agent bcp.AgentName, role bcp.Role, subject string, count int) {
	g.tell(event{kind: bcp.KindViolation, agent: agentRole{agent, role}, subject: subject, count: count})
}

// Process tells it what became of an agent's command: one of the events of
// package bcp, and how it ended, in our own words.
func (g *Gateway) Process(agent bcp.AgentName, process, note string) {
	g.tell(event{kind: bcp.KindProcess, agent: agentRole{Agent: agent}, process: process, note: note})
}

func (g *Gateway) tell(e event) { g.events.put(input{event: &e}) }

// onlyCounted says that an event gets no record of its own.
func (g *Gateway) onlyCounted(e *event) bool {
	switch e.kind {
	case bcp.KindConnect, bcp.KindDisconnect:
	default:
		return e.kind != bcp.KindProcess
	}
	f := g.flaps[e.agent]
	if minute := g.clock().Truncate(time.Minute); !f.minute.Equal(minute) {
		f = flaps{minute: minute}
	}
	f.events++
	g.flaps[e.agent] = f
	return f.events > maxConnectionEvents
}

// countEvent counts what gets no record of its own.
func (g *Gateway) countEvent(e *event) {
	g.count(counted{kind: e.kind, agent: e.agent, subject: e.subject}, e.count)
	if e.kind == bcp.KindConnect || e.kind == bcp.KindDisconnect {
		g.noteConnection(&bcp.Decision{Kind: e.kind, Agent: e.agent.Agent, Role: e.agent.Role})
	}
}

// flaps counts the connection events of an agent in a minute.
type flaps struct {
	minute time.Time
	events int
}

// kickFlooder disconnects an agent whose refusals of a second were too many,
// once the record that counts them is written.
func (g *Gateway) kickFlooder(d *bcp.Decision) {
	if d.Count >= floodRefusals && g.config.Kick != nil {
		g.log.Warn("disconnecting an agent that floods", "agent", d.Agent, "role", d.Role, "refusals", d.Count)
		g.config.Kick(d.Agent, d.Role)
	}
}
