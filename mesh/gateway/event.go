package gateway

import (
	"context"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
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

// An event is a report about an agent, or about the mesh.
type event interface {
	// decide returns false if there is nothing to record. Events that are only counted are
	// counted at release, so that a failed record neither loses nor repeats one.
	decide(*Gateway, *outcome) (bcp.Decision, bool)
	// recorded is called once it is recorded, and unrecorded in place of a record.
	recorded(*Gateway, *bcp.Decision)
	unrecorded(*Gateway)
}

// quiet is of events of which nothing follows besides their record.
type quiet struct{}

func (quiet) recorded(*Gateway, *bcp.Decision) {}
func (quiet) unrecorded(*Gateway)              {}

// call is a function that the gateway's goroutine calls.
type call func()

func (call) decide(*Gateway, *outcome) (bcp.Decision, bool) { return bcp.Decision{}, false }
func (call) recorded(*Gateway, *bcp.Decision)               {}
func (c call) unrecorded(*Gateway)                          { c() }

// connectionEvents counts the connection events of an agent in a minute.
type connectionEvents struct {
	minute time.Time
	events int
}

// counts are refusals, or denied acts, which are recorded as a number.
type counts struct {
	quiet
	counted
	n int
}

// Denied tells it that the server denied an agent an act (a word of package server)
// on a subject, count times. The subject is already escaped and truncated.
func (g *Gateway) Denied(agent bcp.AgentName, role bcp.Role, act, subject string, count int) {
	g.tell(counts{counted: counted{kind: bcp.KindViolation, agent: agentRole{agent, role}, act: act, subject: subject}, n: count})
}

// Refused counts refusals without an agent: of those who ask to join too often.
func (g *Gateway) Refused(count int) {
	g.tell(counts{counted: counted{kind: bcp.KindRefusals}, n: count})
}

func (counts) decide(*Gateway, *outcome) (bcp.Decision, bool) { return bcp.Decision{}, false }
func (e counts) unrecorded(g *Gateway)                        { g.count(e.counted, e.n) }

// report is what is recorded as it is.
type report struct {
	quiet
	// made is the decision.
	made func(bcp.Moment) bcp.Decision
	done func() // called once it is recorded, if it is set
}

func (e report) decide(g *Gateway, _ *outcome) (bcp.Decision, bool) { return e.made(g.moment()), true }

func (e report) recorded(*Gateway, *bcp.Decision) {
	if e.done != nil {
		e.done()
	}
}

// Record has it record what the state makes of something that happened. The gateway's
// goroutine calls made, between two decisions, and recorded, if that is set, once it is
// stored; if the gateway ends earlier, it is not called.
func (g *Gateway) Record(made func(*state.State, bcp.Moment) bcp.Decision, recorded func()) {
	g.tell(report{made: func(m bcp.Moment) bcp.Decision { return made(g.state, m) }, done: recorded})
}

// Happened is Record of an event.
func (g *Gateway) Happened(said bcp.Decision, recorded func()) {
	g.Record(func(s *state.State, m bcp.Moment) bcp.Decision { return s.DecideEvent(m, said) }, recorded)
}

// Alert is Record of an alert about the mesh, without a channel.
func (g *Gateway) Alert(kind bcp.AlertKind, recorded func()) {
	g.Record(func(s *state.State, m bcp.Moment) bcp.Decision { return s.DecideAlert(m, kind) }, recorded)
}

// panicked is a mistake of this program, over a message if there is one.
type panicked struct {
	quiet
	agent   agentRole
	channel bcp.ChannelKey
	body    []byte
}

func (e panicked) decide(g *Gateway, o *outcome) (bcp.Decision, bool) {
	o.body = e.body
	return g.state.DecidePanic(g.moment(), e.agent.Agent, e.agent.Role, e.channel, e.body), true
}

func (g *Gateway) tell(e event) { g.tellUntil(context.Background(), e) }

// tellUntil is tell, but gives up if ctx ends before there is room.
func (g *Gateway) tellUntil(ctx context.Context, e event) { g.events.putUntil(ctx, &input{event: e}) }
