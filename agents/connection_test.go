package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The zero value and every wrong one deny.
//
// covers P1.1
func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	for name, o := range map[string]agents.Options{
		"no name":           {},
		"reserved name":     {Name: bcp.Gateway},
		"name with a dot":   {Name: "a.b"},
		"unknown encoding":  {Name: main, Encoding: 3},
		"negative attempt":  {Name: main, Attempt: -1},
		"negative wait":     {Name: main, MaxWait: -1},
		"negative handlers": {Name: main, Handlers: -1},
	} {
		fails(t, errorOf(agents.Connect(t.Context(), s.ClientURL(), agents.Credentials{}, o)), nil, "Connect: %s: no error", name)
	}
	failing := func(*nats.Options) error { return errors.New("no") }
	_, err := agents.Connect(t.Context(), s.ClientURL(), agents.Credentials{}, agents.Options{Name: main, NATS: []nats.Option{nil, failing}})
	failIf(t, err == nil, "Connect ignored a failing option")
	_, err = agents.Connect(t.Context(), s.ClientURL(), agents.CredsFile("/no/such/file"), agents.Options{Name: main})
	failIf(t, err == nil, "Connect ignored missing creds")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, errorOf(agents.Connect(ctx, s.ClientURL(), agents.Credentials{}, agents.Options{Name: main})), context.Canceled,
		"Connect with a dead context")
}

// covers P7.5
func TestCredentialsShowNothing(t *testing.T) {
	t.Parallel()
	creds := agents.CredsText([]byte("SUSECRET"))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if text := fmt.Sprintf(verb, creds); strings.Contains(text, "SUSECRET") || strings.Contains(text, fmt.Sprintf("%x", "SUSECRET")) {
			t.Errorf("%s shows %s", verb, text)
		}
	}
}

// A connection ends with all that runs on it.
//
// covers P9.1
func TestCloseEndsAll(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	own := connect(t, s.ClientURL(), agents.Options{Name: main})
	expect(t, own.Name(), main, "the name")
	controller := agents.NewController(own)
	noError(t, controller.Start(t.Context()))
	own.Close()
	own.Close()
	expect(t, controller.Stop(t.Context()), nil, "stop after close")
	fails(t, controller.Start(t.Context()), nil, "started on a closed connection")
	failIf(t, !own.NATS().IsClosed(), "it is not closed")
	_, err := agents.NewController(own).Ask(within(t), researcher, boolean, agents.AskOptions{})
	failIf(t, !errors.Is(err, nats.ErrConnectionClosed), "ask on a closed connection: %v", err)
}

// The caller's own options apply, but for the inbox prefix, and an in-process server will do.
//
// covers P9.1
func TestCallersOptionsApply(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) { o.DontListen = true })
	c := must(agents.Connect(t.Context(), "", agents.Credentials{}, agents.Options{Name: main, NATS: []nats.Option{
		nats.InProcessServer(s),
		nats.CustomInboxPrefix("_OTHER"),
	}}))
	expect(t, c.NATS().Opts.Timeout, 10*time.Second, "a dial takes")
	expect(t, c.NATS().Opts.InboxPrefix, subjects.InboxPrefix(main), "the inbox prefix")
	c.Close()
}

// Asks, deliveries and queries go on after the server was away: nothing that
// was asked while it was is lost.
//
// covers P9.5, P2.6, P9.2
func TestServerRestart(t *testing.T) {
	t.Parallel()
	_, number, err := net.SplitHostPort(clustertest.FreeAddress(t))
	noError(t, err)
	port := must(strconv.Atoi(number))
	here := func(o *server.Options) { o.Port = port }
	s := startServer(t, here)
	g := startGateway(t, s.ClientURL(), bcp.JSON)
	asks, pushes := g.listen(subjects.All(subjects.KindAsk)), g.listen(subjects.All(subjects.KindPush))
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	controller, handled := reporting(t, s.ClientURL(), nil)
	calls := make(chan bcp.QueryID, 9)
	r := reader(t, s.ClientURL(), agents.Options{}, func(_ context.Context, q agents.Query) (any, error) {
		calls <- q.QueryID
		return urgent, nil
	}, nil)
	g.query("q1", 0)
	next(t, replies, "the answer")
	next(t, calls, "the call")

	s.Shutdown()
	s.WaitForShutdown()
	ended := make(chan error, 2)
	go func() { ended <- errorOf(controller.Ask(within(t), researcher, boolean, agents.AskOptions{})) }()
	go func() { ended <- errorOf(r.Push(within(t), main, "mail", urgent, agents.PushOptions{})) }()
	startServer(t, here)
	// The first attempts may be over when they are answered.
	for replied := 0; replied < 2; {
		select {
		case m := <-asks:
			g.respond(m, bcp.Accepted{QueryID: "q2"})
		case m := <-pushes:
			g.respond(m, bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: "mail", Success: true})
		case err := <-ended:
			if replied++; err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("no reply")
		}
	}
	g.query("q1", 1)
	repliedOn(t, replies, subjects.Reply(bcp.RoleReader, researcher, "q1", 1))
	none(t, calls, "a second call")
	next(t, g.persist(pushed("d1", researcher)), "the acknowledgement")
	nextIs(t, handled, "d1", "the delivery")
}

// When the server drops an agent, as it does when its permissions change, the
// agent is back at once, with its subscriptions.
//
// covers P1.5
func TestBackAtOnceAfterADisconnect(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	c := must(agents.Connect(t.Context(), s.ClientURL(), agents.Credentials{}, agents.Options{Name: main}))
	defer c.Close()
	handled := make(chan struct{}, 1)
	controller := agents.NewController(c)
	controller.OnDelivery(func(context.Context, bcp.Delivery) error { handled <- struct{}{}; return nil })
	noError(t, controller.Start(t.Context()))
	// Stock options wait for 2 s, each time; a machine that is busy takes as long now and then.
	for round := uint64(1); ; round++ {
		id := must(c.NATS().GetClientID())
		dropped := time.Now()
		noError(t, s.DisconnectClientByID(id))
		eventually(t, "the reconnect", func() bool { return c.NATS().Stats().Reconnects == round })
		took := time.Since(dropped)
		if took < 2*time.Second {
			break
		}
		stopIf(t, round == 3, "back after %v", took)
	}
	g.persist(pushed("d1", researcher))
	next(t, handled, "a delivery")
}

// What was asked on a connection that broke is asked again as soon as there is
// another: nobody can have answered.
//
// covers P2.6, P9.5
func TestAskedAgainAtOnceAfterADisconnect(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	pushes := g.listen(subjects.All(subjects.KindPush))
	c := connect(t, s.ClientURL(), agents.Options{Name: researcher, Attempt: time.Hour})
	pushed := later(func() error {
		return errorOf(agents.NewReader(c).Push(within(t), main, "mail", urgent, agents.PushOptions{}))
	})
	first := next(t, pushes, "the push")
	id := must(c.NATS().GetClientID())
	noError(t, s.DisconnectClientByID(id))
	again := next(t, pushes, "the push again")
	failIf(t, !bytes.Equal(again.Data, first.Data), "%s, and then %s", first.Data, again.Data)
	g.respond(again, bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: "mail", Success: true})
	noError(t, next(t, pushed, "the result"))
}

// cuttable is a connection that ends in place of the next flush once cut is set.
type cuttable struct {
	net.Conn
	cut *atomic.Bool
}

func (c cuttable) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("PING\r\n")) && c.cut.CompareAndSwap(true, false) {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return c.Conn.Write(b)
}

// cutter dials them.
type cutter struct{ cut atomic.Bool }

func (c *cutter) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return cuttable{conn, &c.cut}, nil
}

// A client starts although its connection is lost just then.
//
// covers P9.1, A-RECONN
func TestStartWaitsForTheConnection(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	dial := &cutter{}
	c := connect(t, s.ClientURL(), agents.Options{Name: main, NATS: []nats.Option{nats.SetCustomDialer(dial)}})
	handled := make(chan struct{}, 1)
	controller := agents.NewController(c)
	controller.OnDelivery(func(context.Context, bcp.Delivery) error { handled <- struct{}{}; return nil })
	dial.cut.Store(true)
	noError(t, controller.Start(within(t)))
	expect(t, c.NATS().Stats().Reconnects, 1, "reconnects")
	g.deliver(pushed("d1", researcher))
	next(t, handled, "a delivery")

	s.Shutdown()
	s.WaitForShutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	fails(t, agents.NewReader(c).Start(ctx), context.DeadlineExceeded, "without a server")
}

// lockedText collects a log.
type lockedText struct{ bcptest.Log }

// Whatever goes wrong with a message, its words stay out of the log.
//
// covers P2.5
func TestLogsHoldNoContent(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	s, g := startBoth(t, bcp.JSON)
	log := &lockedText{}
	o := agents.Options{Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: log})}
	o.Handlers = 1
	calls := make(chan struct{}, 9)
	receiver(t, s.ClientURL(), o, func(_ context.Context, d bcp.Delivery) error {
		calls <- struct{}{}
		if d.DeliveryID == "d1" {
			panic(string(d.Response))
		}
		return errors.New(string(d.Response))
	})
	r := reader(t, s.ClientURL(), o, func(_ context.Context, q agents.Query) (any, error) {
		calls <- struct{}{}
		if q.QueryID == "q1" {
			panic(q.Fields[0].Name)
		}
		return q.Fields[0].Name, nil
	}, nil)
	for _, id := range []bcp.DeliveryID{"d1", "d2"} {
		d := pushed(id, researcher)
		d.Response = []byte(`{"canary":"canary"}`)
		d.FromAgent = bcp.AgentName("from-" + string(id))
		g.deliver(d)
	}
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: canary, Type: bcp.TypeBoolean}}}
	for _, id := range []bcp.QueryID{"q1", "q2"} {
		g.send(subjects.Query(researcher, main), subjects.Reply(bcp.RoleReader, researcher, id, 0), bcp.Query{Type: bcp.TypeQuery, QueryID: id, Controller: main, Spec: spec})
	}
	g.send(subjects.Query(researcher, main), "_INBOX_"+canary, bcp.Query{Type: bcp.TypeQuery, QueryID: canary, Controller: main, Spec: spec})
	g.send(subjects.Query(researcher, main), subjects.Reply(bcp.RoleReader, researcher, canary, 0), canary)
	g.send(subjects.Deliver(bcp.RoleReader, researcher, main), "", canary)
	eventually(t, "the messages to be dropped", func() bool { return r.Stats().Foreign == 2 && r.Stats().Malformed == 1 })
	for range 4 {
		next(t, calls, "a call")
	}
	eventually(t, "the failures to be logged", func() bool { return strings.Count(log.String(), "handler failed") >= 4 })
	text := log.String()
	failIf(t, strings.Contains(text, canary), "the log has words of a message:\n%s", text)
}
