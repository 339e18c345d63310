package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// maxEvents bounds the server's events that are kept while the journal
	// cannot be written.
	maxEvents = 4096
	// recoveryWait is the pause between attempts to open the journal again.
	recoveryWait = time.Second
	// countingInterval is how often refusals that were only counted are
	// recorded (PROTOCOL P4.7).
	countingInterval = time.Second
)

// Config is what a gateway needs.
type Config struct {
	// State is the mesh, its rules and constraints.
	State bcp.Config
	// Conn is the journal's connection to account CORE. It should reconnect by
	// itself. The gateway sets its DisconnectErrHandler. The caller closes it,
	// after Stop.
	Conn *nats.Conn
	// Connect returns a further connection to account CORE, of which the
	// gateway takes one for each agent and role: everything from and to that
	// agent goes over it, so that whoever floods has only itself to hurt. They
	// should reconnect by themselves; Stop closes them. It is required.
	Connect func() (*nats.Conn, error)
	// Kick, if set, is called by the gateway's goroutine to disconnect an
	// agent that floods: one with 1,000 refusals or more in a second that were
	// only counted (PROTOCOL P4.7). It must not block.
	Kick func(bcp.AgentName, bcp.Role)
	// Wake, if set, is called by the gateway's goroutine when something waits
	// for an agent that is not connected. It must not block.
	Wake func(bcp.AgentName)
	// Reload, if set, is called when the operator asks for it, by a goroutine
	// of its own: it ends in a call of [Gateway.Reload].
	Reload func(context.Context) (Reloaded, error)
	// Now is the clock; nil is the machine's.
	Now func() time.Time
	// Shard is the number of the journal, 0 on a single machine.
	Shard int
	// Snapshots, if set, bound what a start reads of the journal. One is made when
	// the gateway ends, and while it serves behind each SnapshotEvery decisions,
	// but not more often than once a minute; 0 is 100,000, and another number
	// has no least time.
	Snapshots     *jetstream.Snapshots
	SnapshotEvery uint64
	// Logger, nil discards. It never gets a byte of an agent's message.
	Logger hclog.Logger
	// OnDecision, if set, is called by the gateway's goroutine with each
	// decision once it is stored. It must not block, nor keep the pointer.
	OnDecision func(*bcp.Decision)
}

// Gateway decides, records and releases. Start makes one.
type Gateway struct {
	config Config
	log    hclog.Logger
	js     natsjs.JetStream

	inbox  *inbox
	events *lane // of what the server tells
	linked sync.Mutex
	links  map[agentRole]*nats.Conn           // guarded by linked
	calls  sync.WaitGroup                     // of Reload
	lost   atomic.Pointer[context.CancelFunc] // ends the step
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // why run ended, once done is closed

	snapshots chan bcp.Config // to be made under these definitions
	snapping  sync.WaitGroup  // of makeSnapshots
	// snappedUpTo is the decision that the newest snapshot stands behind.
	snappedUpTo atomic.Uint64

	// Owned by the goroutine of run.
	sound   bool      // the state is that of the journal
	snapped time.Time // when the last snapshot was begun
	state   *bcp.State
	journal *jetstream.Journal
	agents  map[agentRole]*connection
	sending map[bcp.DeliveryID]*sending
	notices map[bcp.DeliveryID]int // how often each was sent
	failed  error                  // of a reload whose record was not acknowledged
	// dispatched tells for each sending of an open query which attempt it was.
	dispatched map[bcp.QueryID][]int
	counts     map[counted]int
	counting   map[counted]int // the part of counts that this batch records
	timers     timers
	counted    time.Time // when counts were last recorded
	flaps      map[agentRole]flaps
}

// input is one message or event that waits to be decided.
type input struct {
	subject subjects.Subject
	reply   string
	body    []byte
	key     string // public key of the sender, of an approval
	event   *event // instead of a message
	unheard bool   // the server says that nobody listened to a message with this reply subject
}

// agentRole is one end of a connection: an agent has one set of credentials
// for each of its roles.
type agentRole struct {
	Agent bcp.AgentName
	Role  bcp.Role
}

// counted is what is recorded by number once a second.
type counted struct {
	kind    bcp.DecisionKind
	agent   agentRole
	subject string
}

// Start replays the journal and begins to serve. The streams exist already.
// Cancelling ctx begins what Stop does.
func Start(ctx context.Context, config Config) (*Gateway, error) {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Connect == nil {
		return nil, errNoConnect
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	js, err := natsjs.New(config.Conn)
	if err != nil {
		return nil, fmt.Errorf("starting the gateway: %w", err)
	}
	g := &Gateway{
		config: config, log: config.Logger, js: js,
		inbox: newInbox(), links: make(map[agentRole]*nats.Conn), done: make(chan struct{}),
		agents: make(map[agentRole]*connection), sending: make(map[bcp.DeliveryID]*sending), notices: make(map[bcp.DeliveryID]int),
		dispatched: make(map[bcp.QueryID][]int), counts: make(map[counted]int), counting: make(map[counted]int),
		flaps: make(map[agentRole]flaps), snapshots: make(chan bcp.Config),
	}
	g.events = g.inbox.lane()
	config.Conn.SetDisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil { // it is not closed
			g.log.Warn("the journal's connection is lost", "error", err)
		}
		if end := g.lost.Load(); end != nil {
			(*end)()
		}
	})
	runCtx, cancel := context.WithCancelCause(ctx)
	g.cancel = cancel
	if err := g.open(runCtx); err != nil {
		cancel(err)
		return nil, err
	}
	if err := g.subscribe(); err != nil {
		cancel(err)
		g.inbox.close()
		g.unlink()
		return nil, err
	}
	g.snapping.Go(func() { g.makeSnapshots(runCtx) })
	if g.snappedUpTo.Load() > 0 {
		g.snapping.Go(func() { g.checkJournal(runCtx) })
	}
	go g.run(runCtx)
	return g, nil
}

// Stop ends the gateway after the record that is being written, and returns
// why it had ended before, if it had. It is safe to call twice.
func (g *Gateway) Stop() error {
	g.cancel(errStopped)
	<-g.done
	g.calls.Wait()
	return g.err
}

// Done is closed when the gateway ended, by Stop or because another gateway
// writes to its journal.
func (g *Gateway) Done() <-chan struct{} { return g.done }

var (
	errStopped   = errors.New("stopped")
	errNoConnect = errors.New("starting the gateway: it needs connections for the agents")
)

// open makes the state from the journal and records that this gateway starts.
func (g *Gateway) open(ctx context.Context) error {
	journal, err := jetstream.OpenJournal(ctx, g.js, g.config.Shard)
	if err != nil {
		return err
	}
	r, err := replay(ctx, journal, g.config.Snapshots, g.config.State, g.log)
	if err != nil {
		return err
	}
	state := r.state
	if err := jetstream.CheckEnd(ctx, g.js, state.Last()); err != nil {
		return err
	}
	g.state, g.journal = state, journal
	g.snappedUpTo.Store(state.Last() - r.read)
	g.log.Info("journal replayed", "decisions", state.Last(), "read", r.read)
	if err := g.take(ctx); err != nil {
		return err
	}
	g.sound = true
	return nil
}

// take records that this gateway writes from here on. Whoever wrote meanwhile was
// quicker: what it wrote is read, and then it is tried again. The other one is
// fenced by the record and steps down.
func (g *Gateway) take(ctx context.Context) error {
	for tries := 1; ; tries++ {
		start := g.state.DecideStart(g.moment(), g.config.State.Version)
		record, err := bcp.EncodeDecision(&start)
		if err != nil {
			return err
		}
		switch err := g.journal.Append(ctx, [][]byte{record}); {
		case err == nil:
			if err := g.state.Apply(&start, bcp.RecordDigest(record)); err != nil {
				return err
			}
			if g.config.OnDecision != nil {
				g.config.OnDecision(&start)
			}
			return nil
		case !errors.Is(err, jetstream.ErrFenced) || tries == maxTakes:
			return err
		}
		behind := jetstream.Position{Sequence: g.journal.Last(), Head: g.state.Head()}
		if err := g.journal.ReplayBehind(ctx, behind, applyTo(g.state)); err != nil {
			return err
		}
	}
}

// maxTakes is how often a gateway tries to be quicker than the one that it takes
// over from.
const maxTakes = 100

// run is the gateway's one goroutine.
func (g *Gateway) run(ctx context.Context) {
	defer close(g.done)
	defer func() {
		g.cancel(errEnded) // also where it ended by itself
		g.snapping.Wait()
		g.lastSnapshot()
	}()
	defer g.unlink()
	defer g.inbox.close()
	g.resume()
	var batch []input
	for {
		if len(batch) == 0 {
			batch = g.wait(ctx)
		}
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
				g.err = cause
			}
			return
		}
		err := g.stepConnected(context.WithoutCancel(ctx), batch)
		if err == nil { // everybody of the batch has been answered
			batch, err, g.failed = nil, g.failed, nil
		}
		if err == nil {
			g.snapshotDue()
		} else {
			g.sound = false
			if errors.Is(err, jetstream.ErrFenced) {
				g.log.Error("stepping down", "error", err)
				g.err = err
				return
			}
			batch = g.recover(ctx, batch, err)
		}
	}
}

// stepConnected is step, which ends with an error where the journal's
// connection is lost: the acknowledgement would not come.
func (g *Gateway) stepConnected(ctx context.Context, batch []input) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.lost.Store(&cancel)
	return g.step(ctx, batch)
}

// wait returns the messages that are there, at least one, or none when a timer
// is due.
func (g *Gateway) wait(ctx context.Context) []input {
	timer := time.NewTimer(g.untilDue())
	defer timer.Stop()
	return g.inbox.next(ctx, timer.C)
}

// recover throws the state away, since nobody knows what of the last record is
// stored, and makes it again from the journal. Whoever waits hears unavailable
// and tries again. What the server told meanwhile about agents is returned: it
// will not be told again.
func (g *Gateway) recover(ctx context.Context, batch []input, cause error) (events []input) {
	g.log.Error("a record was not acknowledged; reading the journal again", "error", cause)
	refuse := func(in input) {
		if in.event == nil {
			g.answer(in, g.refusal(in, bcp.Unavailable))
		} else if len(events) < maxEvents {
			events = append(events, in)
		}
	}
	for _, in := range batch {
		refuse(in)
	}
	clear(g.counting)
	for ctx.Err() == nil {
		err := g.open(ctx)
		if err == nil {
			g.forgetSent()
			g.resume()
			return events
		}
		g.log.Error("opening the journal", "error", err)
		wait, cancel := context.WithTimeout(ctx, recoveryWait)
		for wait.Err() == nil {
			for _, in := range g.inbox.next(wait, nil) {
				refuse(in)
			}
		}
		cancel()
	}
	return events
}

// moment gives the next decision its time and its randomness.
func (g *Gateway) moment() bcp.Moment {
	m := bcp.Moment{Now: g.clock(), Fresh: rand.Text()}
	_, _ = rand.Read(m.Salt[:])
	return m
}
