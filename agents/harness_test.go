package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// This binary is also an agent whose stderr a test reads: `aloud URL`.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "aloud" {
		beAloud(os.Args[2])
		return
	}
	bcptest.LeaveOut(
		"TestCredentialsAreSwappedUnderTraffic",
	)
	bcptest.Parallel(8)
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen. Nothing is ever
// expected to take it.
const patience = 45 * time.Second

const (
	main       bcp.AgentName = "main"
	researcher bcp.AgentName = "researcher"
)

var boolean = bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}

// startServer runs a plain server: the tests play the gateway by hand.
func startServer(t *testing.T, change func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}
	if change != nil {
		change(o)
	}
	s := must(server.NewServer(o))
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	stopIf(t, !s.ReadyForConnections(patience), "the server does not start")
	return s
}

// logged is a log that a test reads, and options that write it.
func logged() (*lockedText, agents.Options) {
	log := &lockedText{}
	return log, agents.Options{Logger: hclog.New(&hclog.LoggerOptions{Output: log})}
}

// has counts a text in the log.
func (l *lockedText) has(text string) int { return strings.Count(l.String(), text) }

// connect dials a server. Unless o says otherwise nothing is asked again that is
// only late.
func connect(t *testing.T, url string, o agents.Options) *agents.Connection {
	t.Helper()
	if o.Attempt == 0 {
		o.Attempt = patience
	}
	if o.MaxWait == 0 {
		o.MaxWait = 20 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: t.Output()})
	}
	c := must(agents.Connect(t.Context(), url, agents.Credentials{}, o))
	t.Cleanup(c.Close)
	return c
}

// gateway is the other side, played by hand.
type gateway struct {
	t        *testing.T
	nc       *nats.Conn
	encoding bcp.Encoding
	results  int
}

func startGateway(t *testing.T, url string, encoding bcp.Encoding) *gateway {
	t.Helper()
	nc := must(nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(5*time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(patience)))
	t.Cleanup(nc.Close)
	return &gateway{t: t, nc: nc, encoding: encoding}
}

// startBoth runs a plain server and a gateway by hand.
func startBoth(t *testing.T, encoding bcp.Encoding) (*server.Server, *gateway) {
	t.Helper()
	s := startServer(t, nil)
	return s, startGateway(t, s.ClientURL(), encoding)
}

// listen returns what comes on a pattern.
func (g *gateway) listen(pattern string) <-chan *nats.Msg {
	g.t.Helper()
	got := make(chan *nats.Msg, 256)
	s := must(g.nc.Subscribe(pattern, func(m *nats.Msg) {
		// Where nobody listens, the server itself answers on the reply subject.
		if m.Header.Get("Status") == "" {
			got <- m
		}
	}))
	g.t.Cleanup(func() { _ = s.Unsubscribe() })
	g.flush()
	return got
}

func (g *gateway) flush() {
	g.t.Helper()
	noError(g.t, g.nc.FlushTimeout(patience))
}

func (g *gateway) encode(message any) []byte {
	g.t.Helper()
	b, err := bcp.Encode(message, g.encoding)
	failIf(g.t, err != nil, "%v", err)
	return b
}

func (g *gateway) decode(m *nats.Msg, message any) {
	g.t.Helper()
	if err := bcp.Decode(m.Data, g.encoding, message); err != nil {
		g.t.Errorf("decoding what came on %s: %v", m.Subject, err)
	}
}

func (g *gateway) respond(m *nats.Msg, message any) {
	g.t.Helper()
	if err := m.Respond(g.encode(message)); err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // by the end of the test
		g.t.Error(err)
	}
}

// retried loses its first reply, refuses the repeat as unavailable, and accepts what
// comes then, until the asker has ended. All have to be the same bytes.
func (g *gateway) retried(asked <-chan *nats.Msg, ended <-chan error, unavailable, accepted any) {
	g.t.Helper()
	first := next(g.t, asked, "what is asked")
	for n := 2; ; n++ {
		select {
		case m := <-asked:
			failIf(g.t, !bytes.Equal(first.Data, m.Data), "repeat %d differs: %s, %s", n, first.Data, m.Data)
			if n == 2 {
				g.respond(m, unavailable)
			} else {
				g.respond(m, accepted)
			}
		case err := <-ended:
			failIf(g.t, err != nil || n < 4, "asked %d times, %v", n-1, err)
			return
		case <-time.After(patience):
			g.t.Fatal("there is no end")
		}
	}
}

// send publishes a message with a reply subject of the gateway's choice.
func (g *gateway) send(subject, reply string, message any) {
	g.t.Helper()
	noError(g.t, g.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: g.encode(message)}))
	g.flush()
}

// result sends a Reader the result of an answer, and takes the receipt from its
// replies.
func (g *gateway) result(replies <-chan *nats.Msg, v bcp.ValidationResult) {
	g.t.Helper()
	g.results++
	reply := subjects.Reply(bcp.RoleReader, researcher, bcp.DeliveryID(fmt.Sprint("r", g.results)), 0)
	g.send(subjects.Deliver(bcp.RoleReader, researcher, main), reply, v)
	repliedOn(g.t, replies, reply)
}

func (g *gateway) deliver(d bcp.Delivery) { g.redeliver(d, 0) }

// redeliver sends a delivery once more: each sending has a reply subject of its
// own.
func (g *gateway) redeliver(d bcp.Delivery, sending int) {
	g.t.Helper()
	g.send(subjects.Deliver(bcp.RoleController, main, d.FromAgent), subjects.Reply(bcp.RoleController, main, d.DeliveryID, sending), d)
}

// persist does as the gateway does: it sends the deliveries again and again, in
// order, until each is acknowledged. The channel is closed then.
func (g *gateway) persist(deliveries ...bcp.Delivery) <-chan struct{} {
	g.t.Helper()
	acks := g.listen(subjects.RepliesOf(bcp.RoleController, main))
	done, ended := make(chan struct{}), make(chan struct{})
	g.t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		for sending := 0; len(deliveries) > 0; sending++ {
			for _, d := range deliveries {
				b, _ := bcp.Encode(d, g.encoding)
				_ = g.nc.PublishRequest(subjects.Deliver(bcp.RoleController, main, d.FromAgent), subjects.Reply(bcp.RoleController, main, d.DeliveryID, sending), b)
			}
			select {
			case m := <-acks:
				ack, _ := subjects.Parse(m.Subject)
				deliveries = slices.DeleteFunc(deliveries, func(d bcp.Delivery) bool { return string(d.DeliveryID) == ack.ID })
			case <-time.After(5 * time.Millisecond):
			case <-g.t.Context().Done():
				return
			}
		}
		close(done)
	}()
	return done
}

func (g *gateway) query(id bcp.QueryID, attempt int) {
	g.t.Helper()
	g.send(subjects.Query(researcher, main), subjects.Reply(bcp.RoleReader, researcher, id, attempt),
		bcp.Query{Type: bcp.TypeQuery, QueryID: id, Controller: main, Spec: boolean})
}

// accept answers every ask with the query id that it returns, until the test
// ends.
func (g *gateway) accept(id func(bcp.Ask) bcp.QueryID) {
	g.t.Helper()
	s := must(g.nc.Subscribe(subjects.All(subjects.KindAsk), func(m *nats.Msg) {
		var ask bcp.Ask
		g.decode(m, &ask)
		g.respond(m, bcp.Accepted{QueryID: id(ask), NominalBits: bcp.Bit, CapacityBits: 2 * bcp.Bit, RemainingBits: 6_906_890_596})
	}))
	g.t.Cleanup(func() { _ = s.Unsubscribe() })
	g.flush()
}

// pushed is a delivery of a push; answered one of a query.
func pushed(id bcp.DeliveryID, from bcp.AgentName) bcp.Delivery {
	return bcp.Delivery{
		Type: bcp.TypeResponseDelivery, DeliveryID: id, SubscriptionID: "mail", Category: 1, FromAgent: from,
		Response: []byte(`{"urgent":true}`), BandwidthBits: bcp.Bit, CapacityBits: 2 * bcp.Bit, Taint: bcp.TaintMedium, ChannelMode: "bcp",
	}
}

func answered(id bcp.DeliveryID, query bcp.QueryID) bcp.Delivery {
	d := pushed(id, researcher)
	d.SubscriptionID, d.QueryID = "", query
	return d
}

func outcome(id bcp.DeliveryID, query bcp.QueryID, code bcp.Code) bcp.Delivery {
	d := answered(id, query)
	d.Response, d.Outcome = nil, code
	return d
}

// next returns what comes next.
func next[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	return bcptest.Next(t, from, "%s", what)
}

// nextIs wants something to come next.
func nextIs[T comparable](t *testing.T, from <-chan T, want T, what string) {
	t.Helper()
	expect(t, next(t, from, what), want, "%s", what)
}

// repliedOn wants the next reply on a subject.
func repliedOn(t *testing.T, replies <-chan *nats.Msg, subject string) {
	t.Helper()
	m := next(t, replies, "a reply")
	failIf(t, m.Subject != subject, "the reply came on %s, want %s", m.Subject, subject)
}

// none fails if something is there, after the far side has been heard out.
func none[T any](t *testing.T, from <-chan T, what string) {
	t.Helper()
	select {
	case v := <-from:
		t.Errorf("there is %s: %v", what, v)
	default:
	}
}

func within(t testing.TB) context.Context { return bcptest.Within(t, patience) }

var noError, failIf, stopIf, fails = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Fails

var eventually = bcptest.Eventually

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

// same compares whole values.
func same(t *testing.T, want, got any) {
	t.Helper()
	expect(t, cmp.Diff(want, got), "", "what differs")
}

// later tells the error of what is done beside the test.
func later(do func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	return ended
}

// result is what a call came to that was made beside the test.
type result[T any] struct {
	value T
	err   error
}

func resultOf[T any](do func() (T, error)) <-chan result[T] {
	ended := make(chan result[T], 1)
	go func() {
		value, err := do()
		ended <- result[T]{value, err}
	}()
	return ended
}

// errorOf is the error of a call whose value does not matter.
func errorOf[T any](_ T, err error) error { return err }

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
