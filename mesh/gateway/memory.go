package gateway

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// What the gateway remembers besides the state: whom it is connected with, and what is on its way. Nothing of it
// survives the process.

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

// shared is the queue for the connections of a Reader that share its queries (PROTOCOL
// P9.5). The server gives each query to one of them, which hands it back if it has no
// free handler. It then goes to another, until too many in a row had none: then the
// query waits until a connection answers, which then has a free handler, or until it is
// tried, since a failing handler answers nothing.
type shared struct {
	begun   bool // the open queries were sent to the first listening connection
	waiting map[bcp.QueryID]struct{}
	misses  int         // in a row
	trying  bool        // a timer runs
	tried   bcp.QueryID // sent when it last ended
}

func (s *shared) wait(id bcp.QueryID) {
	if s.waiting == nil {
		s.waiting = make(map[bcp.QueryID]struct{})
	}
	s.waiting[id] = struct{}{}
}

// sending is a delivery on its way to its Controller, or a notice to its agent.
type sending struct {
	to      agentRole
	count   int // sendings so far: each has its own reply subject
	backoff time.Duration
	parked  bool   // waits for room in the window
	again   func() // of a notice: sends it again, unless that was done since the last sending
	unheard int    // of a notice: sendings of this connection without a listener
}

// pooled is a connection of the pool.
type pooled struct {
	*nats.Conn
	shares int
	grown  bool // the server may not have its newest subscriptions yet
}

// runs is the gateway's state of runs, besides decisions about messages.
type runs struct {
	// todo has consequences of recorded decisions that are decisions themselves: an ask
	// to a Reader, its answer, a repeated call. They are decided in this order.
	todo []task
	// resuming says that todo does not have everything yet that waits since the start.
	resuming bool
	// waits has what runs wait for from Readers, by query.
	waits map[bcp.QueryID]string
	// sent has the calls that this process sent, with the newest attempt.
	sent map[string]int
	// unmade has the calls of this process that had no listener, with the newest
	// attempt: they are made when there is one.
	unmade map[string]int
	// unheard counts the sendings of plan requests without a listener.
	unheard map[string]int
	// dispatchers make the calls of each kernel.
	dispatchers map[bcp.AgentName]*dispatcher
	// stuck is until when nothing is decided, after a mistake or while all is closed.
	stuck time.Time
	// suspects says that somebody with unfinished runs may be suspended.
	suspects bool
}

// A task is a consequence of a recorded decision that is a decision itself. It is false if
// there is nothing to decide any more.
type task interface {
	decide(*Gateway) (outcome, bool)
}

func (g *Gateway) todo(t task) { g.runs.todo = append(g.runs.todo, t) }

// definitions are what messages are prepared under.
type definitions struct {
	state.Config
	kernels map[bcp.AgentName]*kernel.Kernel
}

// challenge is the gateway's challenge to an agent of another organisation.
type challenge struct {
	nonce, requirement string
	until              time.Time
}

// link is the share of an agent or a person, in one role, of a connection.
type link struct {
	conn *pooled
	lane *lane
	subs map[string]*nats.Subscription // by pattern
}
