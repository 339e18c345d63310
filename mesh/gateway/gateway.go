package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// inboxSize bounds the messages that wait for the gateway; behind it NATS
	// buffers, and behind that an agent's retry.
	inboxSize = 4096
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
	// Conn is the gateway's own connection to account CORE. The caller closes
	// it, after Stop.
	Conn *nats.Conn
	// Shard is the number of the journal, 0 on a single machine.
	Shard int
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

	inbox  chan input
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // why run ended, once done is closed

	// Owned by the goroutine of run.
	state   *bcp.State
	journal *jetstream.Journal
	agents  map[agentRole]*connection
	sending map[bcp.DeliveryID]*sending
	// dispatched tells for each sending of an open query which attempt it was.
	dispatched map[bcp.QueryID][]int
	counts     map[counted]int
	timers     timers
	counted    time.Time // when counts were last recorded
}

// input is one message or event that waits to be decided.
type input struct {
	subject subjects.Subject
	reply   string
	body    []byte
	event   *event // instead of a message
	unheard bool   // the server says that nobody listened to a message with this reply subject
}

// event is something that the server tells about an agent.
type event struct {
	kind    bcp.DecisionKind
	agent   agentRole
	subject string // of a violation, escaped
	count   int
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
	js, err := natsjs.New(config.Conn)
	if err != nil {
		return nil, fmt.Errorf("starting the gateway: %w", err)
	}
	g := &Gateway{
		config: config, log: config.Logger, js: js,
		inbox: make(chan input, inboxSize), done: make(chan struct{}),
		agents: make(map[agentRole]*connection), sending: make(map[bcp.DeliveryID]*sending),
		dispatched: make(map[bcp.QueryID][]int), counts: make(map[counted]int),
	}
	runCtx, cancel := context.WithCancelCause(ctx)
	g.cancel = cancel
	if err := g.open(runCtx); err != nil {
		cancel(err)
		return nil, err
	}
	subscriptions, err := g.subscribe(runCtx)
	if err != nil {
		cancel(err)
		return nil, err
	}
	go g.run(runCtx, subscriptions)
	return g, nil
}

// Stop ends the gateway after the record that is being written, and returns
// why it had ended before, if it had. It is safe to call twice.
func (g *Gateway) Stop() error {
	g.cancel(errStopped)
	<-g.done
	return g.err
}

// Done is closed when the gateway ended, by Stop or because another gateway
// writes to its journal.
func (g *Gateway) Done() <-chan struct{} { return g.done }

var errStopped = errors.New("stopped")

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

func (g *Gateway) tell(e event) {
	select {
	case g.inbox <- input{event: &e}:
	case <-g.done:
	}
}

// subscribe listens to what agents may send. A message whose subject is not
// exactly one that package subjects makes is dropped: no credentials of ours
// can publish it.
func (g *Gateway) subscribe(ctx context.Context) ([]*nats.Subscription, error) {
	var subscriptions []*nats.Subscription
	for _, kind := range []subjects.Kind{subjects.KindAsk, subjects.KindPush, subjects.KindReply, subjects.KindSession, subjects.KindApproval} {
		sub, err := g.config.Conn.Subscribe(subjects.All(kind), func(m *nats.Msg) {
			subject, err := subjects.Parse(m.Subject)
			if err != nil {
				return
			}
			select {
			case g.inbox <- input{subject: subject, reply: m.Reply, body: m.Data, unheard: nobodyListens(m)}:
			case <-ctx.Done():
			}
		})
		if err != nil {
			return nil, fmt.Errorf("subscribing to %s: %w", kind, err)
		}
		subscriptions = append(subscriptions, sub)
	}
	return subscriptions, g.config.Conn.Flush()
}

// nobodyListens recognises what the server itself sends to the reply subject of
// a message that no agent was subscribed to: it must not count as an answer or
// an acknowledgement. What a Reader sends bears the sender's identity, which
// the server wrote; a Controller that forges this loses its own
// acknowledgement.
func nobodyListens(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503" && len(m.Header.Values(senderHeader)) == 0
}

// senderHeader is written by the server where an export shares the identity
// of the sender.
const senderHeader = "Nats-Request-Info"

// open makes the state from the journal and records that this gateway starts.
func (g *Gateway) open(ctx context.Context) error {
	state, err := bcp.NewState(g.config.State)
	if err != nil {
		return err
	}
	journal, err := jetstream.OpenJournal(ctx, g.js, g.config.Shard)
	if err != nil {
		return err
	}
	err = journal.Replay(ctx, func(record []byte) error {
		d, err := bcp.DecodeDecision(record)
		if err != nil {
			return err
		}
		return state.Apply(&d, bcp.RecordDigest(record))
	})
	if err != nil {
		return err
	}
	g.state, g.journal = state, journal
	g.log.Info("journal replayed", "decisions", state.Last())
	start := outcome{decision: state.DecideStart(g.moment(), g.config.State.Version)}
	if err := g.apply(&start); err != nil {
		return err
	}
	return g.record(ctx, []outcome{start})
}

// run is the gateway's one goroutine.
func (g *Gateway) run(ctx context.Context, subscriptions []*nats.Subscription) {
	defer close(g.done)
	defer func() {
		for _, s := range subscriptions {
			_ = s.Unsubscribe()
		}
	}()
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
		if err := g.step(context.WithoutCancel(ctx), batch); err != nil {
			if errors.Is(err, jetstream.ErrFenced) {
				g.log.Error("stepping down", "error", err)
				g.err = err
				return
			}
			batch = g.recover(ctx, batch, err)
			continue
		}
		batch = nil
	}
}

// wait returns the messages that are there, at least one, or none when a timer
// is due.
func (g *Gateway) wait(ctx context.Context) []input {
	timer := time.NewTimer(g.untilDue())
	defer timer.Stop()
	var batch []input
	select {
	case in := <-g.inbox:
		batch = append(batch, in)
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	bytes := 0
	for len(batch) < maxBatch {
		select {
		case in := <-g.inbox:
			batch = append(batch, in)
			if bytes += len(in.body); bytes > maxBatchBytes {
				return batch
			}
		default:
			return batch
		}
	}
	return batch
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
		} else if len(events) < inboxSize {
			events = append(events, in)
		}
	}
	for _, in := range batch {
		refuse(in)
	}
	for ctx.Err() == nil {
		err := g.open(ctx)
		if err == nil {
			g.forgetSent()
			g.resume()
			return events
		}
		g.log.Error("opening the journal", "error", err)
		for wait := time.After(recoveryWait); wait != nil; {
			select {
			case in := <-g.inbox:
				refuse(in)
			case <-wait:
				wait = nil
			case <-ctx.Done():
				return events
			}
		}
	}
	return events
}

// moment gives the next decision its time and its randomness.
func (g *Gateway) moment() bcp.Moment {
	m := bcp.Moment{Now: time.Now(), Fresh: rand.Text()}
	_, _ = rand.Read(m.Salt[:])
	return m
}
