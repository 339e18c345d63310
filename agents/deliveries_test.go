package agents_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// receiver is a started Controller whose handler reports what it gets.
func receiver(t *testing.T, url string, o agents.Options, handler func(context.Context, bcp.Delivery) error) *agents.Controller {
	t.Helper()
	o.Name = main
	controller := agents.NewController(connect(t, url, o))
	if handler != nil {
		controller.OnDelivery(handler)
	}
	noError(t, controller.Start(t.Context()))
	t.Cleanup(func() {
		noError(t, controller.Stop(context.Background()))
	})
	return controller
}

// reporting is a started Controller whose handler tells the ids of what it gets, and returns the error.
func reporting(t *testing.T, url string, err error) (*agents.Controller, <-chan bcp.DeliveryID) {
	t.Helper()
	handled := make(chan bcp.DeliveryID, 9)
	return receiver(t, url, agents.Options{}, func(_ context.Context, d bcp.Delivery) error {
		handled <- d.DeliveryID
		return err
	}), handled
}

// A delivery is acknowledged on its own reply subject, by an empty message,
// after the handler has returned nil and not before.
//
// covers P9.1, P2.1, SUB-101
func TestDeliveryIsAcknowledgedAfterItsHandler(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			s, g := startBoth(t, encoding)
			acks := g.listen(subjects.RepliesOf(bcp.RoleController, main))
			got, release := make(chan bcp.Delivery, 1), make(chan struct{})
			receiver(t, s.ClientURL(), agents.Options{Encoding: encoding}, func(_ context.Context, d bcp.Delivery) error {
				got <- d
				<-release
				return nil
			})
			want := pushed("d1", researcher)
			g.deliver(want)
			same(t, want, next(t, got, "the delivery"))
			none(t, acks, "an acknowledgement before the end of the handler")
			close(release)
			if m := next(t, acks, "the acknowledgement"); m.Subject != subjects.Reply(bcp.RoleController, main, "d1", 0) || len(m.Data) != 0 {
				t.Errorf("acknowledged by %q on %s", m.Data, m.Subject)
			}
		})
	}
}

// A delivery that comes again is acknowledged again, on its newest reply
// subject, and not handled again.
//
// covers P9.1
func TestDuplicateDeliveriesAreHandledOnce(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	acks := g.listen(subjects.RepliesOf(bcp.RoleController, main))
	var handled atomic.Int32
	entered, release := make(chan struct{}, 9), make(chan struct{})
	controller := receiver(t, s.ClientURL(), agents.Options{}, func(context.Context, bcp.Delivery) error {
		handled.Add(1)
		entered <- struct{}{}
		<-release
		return nil
	})
	g.deliver(pushed("d1", researcher))
	next(t, entered, "the handler")
	g.redeliver(pushed("d1", researcher), 1) // while it is being handled
	eventually(t, "the first duplicate", func() bool { return controller.Stats().Duplicates == 1 })
	close(release)
	repliedOn(t, acks, subjects.Reply(bcp.RoleController, main, "d1", 1))
	g.redeliver(pushed("d1", researcher), 2) // its acknowledgement was lost
	repliedOn(t, acks, subjects.Reply(bcp.RoleController, main, "d1", 2))
	expect(t, handled.Load(), 1, "handled")
}

// What a handler is at work on when its connection ends is answered when it comes again, on the new connection, without
// another call, and not before: the server permits a reply only where the message came.
//
// covers P9.1, P9.4, P9.5, P7.6, A-RECONN
func TestHandlersOutlastTheirConnection(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		what    string
		role    bcp.Role
		subject string
		message any
	}{
		{"query", bcp.RoleReader, subjects.Query(main, researcher), bcp.Query{Type: bcp.TypeQuery, QueryID: "x1", Controller: researcher, Spec: boolean}},
		{"result", bcp.RoleReader, subjects.Deliver(bcp.RoleReader, main, researcher),
			bcp.ValidationResult{Type: bcp.TypeValidationResult, QueryID: "q1", Success: true, Status: bcp.StatusDelivered}},
		{"delivery", bcp.RoleController, subjects.Deliver(bcp.RoleController, main, researcher), pushed("x1", researcher)},
		{"prompt", bcp.RoleController, subjects.Deliver(bcp.RoleController, main, bcp.Gateway), bcp.Prompt{Type: bcp.TypePrompt, PromptID: "x1"}},
		{"prompt", bcp.RoleReader, subjects.Deliver(bcp.RoleReader, main, bcp.Gateway), bcp.Prompt{Type: bcp.TypePrompt, PromptID: "x1"}},
	} {
		t.Run(of.what+" of a "+of.role.String(), func(t *testing.T) {
			t.Parallel()
			s, g := startBoth(t, bcp.JSON)
			replies := g.listen(subjects.RepliesOf(of.role, main))
			c := connect(t, s.ClientURL(), agents.Options{Name: main})
			entered, release := make(chan struct{}, 9), make(chan struct{})
			handle := func() {
				entered <- struct{}{}
				<-release
			}
			controller, reader := agents.NewController(c), agents.NewReader(c)
			controller.OnDelivery(func(context.Context, bcp.Delivery) error { handle(); return nil })
			reader.OnQuery(func(context.Context, agents.Query) (any, error) { handle(); return urgent, nil })
			reader.OnResult(func(bcp.ValidationResult) { handle() })
			client := map[bcp.Role]prompted{bcp.RoleController: controller, bcp.RoleReader: reader}[of.role]
			client.OnPrompt(func(context.Context, bcp.Prompt) { handle() })
			send := func(sending int) { g.send(of.subject, subjects.Reply(of.role, main, "x1", sending), of.message) }
			t.Cleanup(func() { _ = client.Stop(context.Background()) })
			noError(t, client.Start(t.Context()))
			send(0)
			next(t, entered, "the handler")
			noError(t, c.NATS().ForceReconnect())
			eventually(t, "the reconnect", func() bool { return c.NATS().Stats().Reconnects == 1 && c.NATS().IsConnected() })
			close(release)
			noError(t, client.Stop(t.Context()))
			noError(t, c.NATS().FlushTimeout(patience))
			g.flush()
			none(t, replies, "a reply on the reply subject of the connection before")
			noError(t, client.Start(t.Context()))
			send(1)
			repliedOn(t, replies, subjects.Reply(of.role, main, "x1", 1))
			none(t, entered, "a second call")
		})
	}
}

// What contradicts its own subject, or is no delivery, is dropped.
//
// covers P9.1, A-REPLY
func TestInconsistentDeliveriesAreDropped(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	controller := receiver(t, s.ClientURL(), agents.Options{}, func(_ context.Context, d bcp.Delivery) error {
		t.Errorf("handled %v", d)
		return nil
	})
	subject, reply := subjects.Deliver(bcp.RoleController, main, researcher), subjects.Reply(bcp.RoleController, main, "d1", 0)
	both, neither, typed := pushed("d1", researcher), pushed("d1", researcher), pushed("d1", researcher)
	both.QueryID = "q1"
	neither.SubscriptionID = ""
	typed.Type = bcp.TypeQuery
	for _, message := range []any{
		pushed("d2", researcher), pushed("d1", "other"), both, neither, typed, map[string]any{},
		bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: "mail"}, "text",
	} {
		g.send(subject, reply, message)
	}
	noError(t, g.nc.PublishRequest(subject, reply, []byte("{")))
	eventually(t, "all to be dropped", func() bool { return controller.Stats().Malformed == 9 })
}

// Deliveries of one channel are handled in the order in which they came, also around
// one whose handler fails and panics; those of another do not wait for them.
//
// covers P9.1
func TestOrderIsKeptPerChannel(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	acks := g.listen(subjects.RepliesOf(bcp.RoleController, main))
	handled := make(chan bcp.DeliveryID, 99)
	log, o := logged()
	oops, boom := errors.New("not now"), errors.New("boom")
	tries := 0
	receiver(t, s.ClientURL(), o, func(_ context.Context, d bcp.Delivery) error {
		if d.DeliveryID == "a2" {
			if tries++; tries == 1 {
				return oops
			} else if tries == 2 {
				panic(boom)
			}
		}
		handled <- d.DeliveryID
		return nil
	})
	var want, got []bcp.DeliveryID
	for i := range 20 {
		id := bcp.DeliveryID(fmt.Sprintf("a%d", i))
		want = append(want, id)
		g.deliver(pushed(id, researcher))
	}
	g.deliver(pushed("b0", "other"))
	for range 21 {
		if id := next(t, handled, "a delivery"); id != "b0" {
			got = append(got, id)
		}
		next(t, acks, "an acknowledgement")
	}
	same(t, want, got)
	failIf(t, tries != 3 || log.has("panicked=false") != 1 || log.has("panicked=true") != 1, "%d calls; %s", tries, log.String())
}

// Stop waits for the handler that is at work, then for its context's end.
//
// covers P9.1
func TestStop(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	acks := g.listen(subjects.RepliesOf(bcp.RoleController, main))
	entered := make(chan struct{}, 9)
	controller := agents.NewController(connect(t, s.ClientURL(), agents.Options{Name: main}))
	expect(t, controller.Stop(t.Context()), nil, "stop before start")
	controller.OnDelivery(func(ctx context.Context, d bcp.Delivery) error {
		entered <- struct{}{}
		if d.DeliveryID == "patient" {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	noError(t, controller.Start(t.Context()))
	fails(t, controller.Start(t.Context()), agents.ErrStarted, "second start")
	g.deliver(pushed("endless", researcher))
	g.deliver(pushed("queued", researcher))
	next(t, entered, "the handler")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	fails(t, controller.Stop(ctx), context.DeadlineExceeded, "stop of an endless handler")
	expect(t, controller.Stop(t.Context()), nil, "second stop")
	none(t, acks, "an acknowledgement of what failed or was queued")

	// It can start again, and ends with the context of Start too.
	again, end := context.WithCancel(t.Context())
	noError(t, controller.Start(again))
	g.deliver(pushed("patient", researcher))
	next(t, acks, "the acknowledgement")
	g.deliver(pushed("endless", researcher))
	for range 2 {
		next(t, entered, "the handler")
	}
	end()
	expect(t, controller.Stop(t.Context()), nil, "stop after the context's end")
}

// An answer may overtake the reply to its ask; held is not the end.
//
// covers P9.1, P7.6
func TestAskAndWait(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	asks, acks := g.listen(subjects.All(subjects.KindAsk)), g.listen(subjects.RepliesOf(bcp.RoleController, main))
	controller, handled := reporting(t, s.ClientURL(), nil)
	ask := func(o agents.AskOptions) <-chan result[bcp.Delivery] {
		return resultOf(func() (bcp.Delivery, error) { return controller.AskAndWait(within(t), researcher, boolean, o) })
	}

	ended := ask(agents.AskOptions{})
	m := next(t, asks, "the ask")
	g.deliver(outcome("d1", "q1", bcp.Held))
	g.deliver(answered("d2", "q1"))
	g.deliver(answered("d3", "another"))
	g.deliver(pushed("d4", researcher)) // behind d3, and so not before it
	g.deliver(pushed("d5", "other"))
	nextIs(t, handled, "d5", "the other channel's push")
	next(t, acks, "its acknowledgement")
	g.respond(m, bcp.Accepted{QueryID: "q1"})
	r := next(t, ended, "the answer")
	failIf(t, r.err != nil || r.value.DeliveryID != "d2", "got %v, %v", r.value, r.err)
	for _, want := range []bcp.DeliveryID{"d3", "d4"} {
		nextIs(t, handled, want, "what was nobody's answer")
	}
	for range 4 {
		next(t, acks, "an acknowledgement")
	}

	ended = ask(agents.AskOptions{ReturnHeld: true})
	g.respond(next(t, asks, "the ask"), bcp.Accepted{QueryID: "q2"})
	g.deliver(outcome("d6", "q2", bcp.Held))
	r = next(t, ended, "held")
	failIf(t, r.err != nil || r.value.Outcome != bcp.Held, "got %v, %v", r.value, r.err)
	g.deliver(answered("d7", "q2"))
	nextIs(t, handled, "d7", "the final outcome")

	ended = ask(agents.AskOptions{})
	g.respond(next(t, asks, "the ask"), bcp.Refusal{Error: bcp.NoChannel, Detail: "none"})
	var refused *agents.RefusedError
	r = next(t, ended, "the refusal")
	failIf(t, !errors.As(r.err, &refused), "got %v", r.err)
}

// A handler may ask and wait on the channel whose delivery it handles.
//
// covers P9.1
func TestAskAndWaitInAHandler(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	asks := g.listen(subjects.All(subjects.KindAsk))
	got := make(chan bcp.Delivery, 1)
	var controller *agents.Controller
	ready := make(chan struct{})
	controller = receiver(t, s.ClientURL(), agents.Options{Handlers: 1}, func(ctx context.Context, _ bcp.Delivery) error {
		<-ready
		d, err := controller.AskAndWait(ctx, researcher, boolean, agents.AskOptions{})
		got <- d
		return err
	})
	close(ready)
	g.deliver(pushed("d1", researcher))
	g.respond(next(t, asks, "the ask"), bcp.Accepted{QueryID: "q1"})
	g.deliver(answered("d2", "q1"))
	d := next(t, got, "the answer")
	failIf(t, d.DeliveryID != "d2", "got %v", d)
}

// Who gives up waiting loses no answer: it is an ordinary delivery then.
//
// covers P9.1
func TestAskAndWaitGivesUp(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	g.accept(func(bcp.Ask) bcp.QueryID { return "q1" })
	controller, handled := reporting(t, s.ClientURL(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	fails(t, errorOf(controller.AskAndWait(ctx, researcher, boolean, agents.AskOptions{})), context.DeadlineExceeded, "an ask without an answer")
	g.deliver(answered("d1", "q1"))
	nextIs(t, handled, "d1", "the answer")
	accepted := make(chan struct{}, 9)
	g.accept(func(bcp.Ask) bcp.QueryID { accepted <- struct{}{}; return "q1" })
	ended := later(func() error {
		return errorOf(controller.AskAndWait(within(t), researcher, boolean, agents.AskOptions{}))
	})
	next(t, accepted, "the ask")
	noError(t, controller.Stop(within(t)))
	fails(t, next(t, ended, "the end"), agents.ErrNotStarted, "of a Controller that has stopped")
}

// Without a handler, what nobody waits for stays with the gateway, and comes
// when somebody does.
//
// covers P9.1, P9.2
func TestUnclaimedDeliveriesStayWithTheGateway(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	g.accept(func(bcp.Ask) bcp.QueryID { return "q1" })
	controller := receiver(t, s.ClientURL(), agents.Options{}, nil)
	unclaimed, claimed := g.persist(pushed("d1", researcher)), g.persist(answered("d2", "q1"))
	d, err := controller.AskAndWait(within(t), researcher, boolean, agents.AskOptions{})
	failIf(t, err != nil || d.DeliveryID != "d2", "got %v, %v", d, err)
	next(t, claimed, "the acknowledgement of the answer")
	none(t, unclaimed, "an acknowledgement of what nobody got")
	noError(t, controller.Stop(within(t)))
	controller.OnDelivery(func(context.Context, bcp.Delivery) error { return nil })
	noError(t, controller.Start(within(t)))
	next(t, unclaimed, "the acknowledgement of the push")
}

// A kept delivery is handled once, holds up nothing, and ends when it is
// acknowledged, in any order, on the newest reply subject.
//
// covers P9.1
func TestKeptDeliveries(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	acks := g.listen(subjects.RepliesOf(bcp.RoleController, main))
	controller, kept := reporting(t, s.ClientURL(), agents.ErrKeep)
	for _, id := range []bcp.DeliveryID{"d1", "d2"} {
		g.deliver(pushed(id, researcher))
		nextIs(t, kept, id, "the handler")
	}
	g.redeliver(pushed("d1", researcher), 1)
	eventually(t, "the repeat", func() bool { return controller.Stats().Duplicates == 1 })
	failIf(t, controller.Acknowledge("d3"), "an unknown delivery is acknowledged")
	for _, want := range []struct {
		id      bcp.DeliveryID
		sending int
	}{{"d2", 0}, {"d1", 1}} {
		failIf(t, !controller.Acknowledge(want.id), "%s does not wait", want.id)
		repliedOn(t, acks, subjects.Reply(bcp.RoleController, main, want.id, want.sending))
	}
	failIf(t, controller.Acknowledge("d1"), "it is acknowledged twice")
	none(t, kept, "a delivery that was handled twice")
}
