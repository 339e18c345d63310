package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Gateway decides, records and releases. Start makes one.
type Gateway struct {
	config Config
	log    hclog.Logger
	js     natsjs.JetStream
	keys   *jetstream.SealingKeys

	inbox       *inbox
	events      *lane // reports of the server
	linked      sync.Mutex
	links       map[agentRole]link     // guarded by linked, as the next is
	pool        []*pooled              // connections that agents share
	calls       sync.WaitGroup         // of Reload and reconcile
	interrupter *jetstream.Interrupter // the journal
	cancel      context.CancelCauseFunc
	ending      <-chan struct{} // closed when the gateway is about to end
	done        chan struct{}
	err         error // why run ended, once done is closed

	beside sync.WaitGroup // for goroutines that run until the gateway ends
	// snapshotting is held while a snapshot is made of the journal.
	snapshotting sync.Mutex
	// reading is held by those that read all of the journal, while nothing may be cut off.
	reading sync.RWMutex
	// damage, if not nil, is damage of the journal found while the gateway serves.
	damage atomic.Pointer[error]
	// snappedUpTo is the last decision in the newest snapshot.
	snappedUpTo atomic.Uint64

	// Owned by the goroutine of run.
	outcomes []outcome // empty: the room of the last batch
	records  []byte    // of the last batch
	sound    bool      // the state is that of the journal
	checked  bool      // the whole journal was read before anybody was served
	released uint64    // the last decision that may have been sent
	began    struct {  // to serve
		at       time.Time
		decision uint64
	}
	observed uint64 // the last decision passed to OnDecision
	// uncertain is the batch whose record was not acknowledged, and stored the last
	// of its decisions that was found in the journal nevertheless.
	uncertain []outcome
	stored    uint64
	snapped   time.Time // when the last snapshot was begun
	state     *state.State
	journal   *jetstream.Journal
	agents    map[agentRole]*connection
	leaving   map[bcp.AgentName]func([]string) // callers that wait for the absence of an agent
	modelSaid map[bcp.AgentName]string         // what the provider of an agent's model says while that fails
	sending   map[bcp.DeliveryID]*sending
	notices   map[bcp.DeliveryID]*sending
	failed    error // of a reload whose record was not acknowledged
	// working is the work that a panic would belong to; mistakes are the alerts of panics
	// that have not been sent yet.
	working     work
	mistakes    []*input
	ownMistake  time.Time // when the last alert without a message was recorded
	quarantined quarantine
	// dueAside is what is due but must wait since it caused a panic; overdue says that
	// something due in the last step was not decided.
	dueAside map[state.Due]aside
	overdue  bool
	// asked are the requests that wait for the same slow answer.
	asked singleflight.Group
	// dispatched is the attempt of each sending of an open query.
	dispatched map[bcp.QueryID][]int
	counts     map[counted]count
	counting   map[agentRole]countingRecord // the part of counts that this batch records
	countedAt  map[agentRole]time.Time      // when counts of them were recorded last
	timers     timers
	tellings   map[agentRole]*telling
	flaps      map[agentRole]connectionEvents
	crowding   map[bcp.AgentName]time.Time // when it was told last that the journal takes no more of an agent
	runs       runs

	challenges map[bcp.AgentName]challenge // for agents of other organisations

	// definitions are those that messages are prepared under, before they are decided about.
	definitions atomic.Pointer[definitions]
	preparing   sync.Mutex
	judged      int // of the batch of this step
}

// agentRole is one end of a connection: an agent has one set of credentials
// for each of its roles.
type agentRole struct {
	Agent bcp.AgentName
	Role  bcp.Role
}

var errStopped = errors.New("stopped")

var errEnded = errors.New("the gateway has ended")

// replicated reports whether the journal has copies on other servers.
func (g *Gateway) replicated() bool { return g.config.State.Mesh.Replicas > 1 }

// moment gives the next decision its time and its randomness.
func (g *Gateway) moment() bcp.Moment {
	m := bcp.Moment{Now: g.clock(), Fresh: rand.Text()}
	_, _ = rand.Read(m.Salt[:])
	return m
}

// runState returns the state of the runs.
func (g *Gateway) runState() *kernel.State { return g.state.Runs() }

// isKernel reports whether a Controller is a kernel of today's definitions.
func (g *Gateway) isKernel(name bcp.AgentName) bool {
	return g.runState().Kernels()[name] != nil
}

// runMoment returns a moment of journal time for the decisions of both states.
func (g *Gateway) runMoment() bcp.Moment {
	m := g.moment()
	m.Now = g.state.JournalTime(m)
	return m
}

const (
	// reloadTimeout is the timeout of a reload, and recordTimeout that of its record.
	reloadTimeout = 30 * time.Second
	recordTimeout = 10 * time.Second
	// reconcileTimeout bounds the reading of a whole journal.
	reconcileTimeout = 10 * time.Minute
)
