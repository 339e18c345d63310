package server_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func TestMain(m *testing.M) {
	bcptest.LeaveOut(
		"TestBoundsHoldOnEachWay", "TestForgedUsersAreRefused", "TestRestartedServerIsNotAwaited", "TestTLSIsRequiredOfClients",
	)
	bcptest.Parallel(8)
	goleak.VerifyTestMain(m)
}

const patience = 45 * time.Second

// mesh is the seed's example, with a second Controller, an agent in both
// roles, a Reader without subscriptions, and people.
func mesh() *bcp.Mesh {
	channel := func(controller, reader bcp.AgentName, ids ...bcp.SubscriptionID) bcp.Channel {
		c := bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: controller, Reader: reader}, QueryTTL: time.Hour}
		for _, id := range ids {
			c.Subscriptions = append(c.Subscriptions, bcp.Subscription{ID: id})
		}
		return c
	}
	return &bcp.Mesh{
		Approvers: []bcp.AgentName{"alice"},
		Auditors:  []bcp.AgentName{"bob"},
		Agents: []bcp.Agent{
			{Name: "mailer", Reader: true},
			{Name: "main", Controller: true},
			{Name: "relay", Controller: true, Reader: true},
			{Name: "researcher", Reader: true},
			{Name: "writer", Controller: true},
		},
		Channels: []bcp.Channel{
			channel("main", "relay", "digest"),
			channel("main", "researcher", "findings", "alerts"),
			channel("relay", "mailer"),
			channel("writer", "researcher", "findings"),
		},
	}
}

// bench is a server with its key store.
type bench struct {
	*server.Server
	t      *testing.T
	store  *accounts.Store
	state  string
	scopes []subjects.Scope
	bundle accounts.Bundle
	way    way
}

// start runs a server for the test. Each of the changes is applied to the
// scopes or to the config before.
func start(t *testing.T, change ...any) *bench {
	t.Helper()
	b := &bench{t: t, state: t.TempDir(), scopes: subjects.Permissions(mesh())}
	var err error
	if b.store, err = accounts.Create(b.state); err != nil {
		t.Fatal(err)
	}
	config := server.Config{StateDir: b.state}
	for _, c := range change {
		switch c := c.(type) {
		case func([]subjects.Scope):
			c(b.scopes)
		case func(*server.Config):
			c(&config)
		case way:
			c.change(t, &config)
			b.way = c
		default:
			t.Fatalf("cannot change by %T", c)
		}
	}
	b.bundle = b.compile(b.scopes)
	config.Bundle = b.bundle
	b.Server = must(server.Start(t.Context(), config))
	t.Cleanup(func() { stop(t, b.Server) })
	return b
}

func stop(t *testing.T, s *server.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.Stop(ctx)
	failIf(t, err != nil, "%v", err)
}

func (b *bench) compile(scopes []subjects.Scope) accounts.Bundle {
	b.t.Helper()
	return must(accounts.Compile(b.store, scopes, time.Now()))
}

func (b *bench) issue(agent bcp.AgentName, role bcp.Role) accounts.Creds {
	b.t.Helper()
	return must(b.store.Issue(agent, role, 0))
}

func (b *bench) gateway() *nats.Conn {
	b.t.Helper()
	nc, err := b.Gateway(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, io.ErrClosedPipe) { // by the end of the test
			b.t.Error("gateway:", err)
		}
	}))
	noError(b.t, err)
	b.t.Cleanup(nc.Close)
	return nc
}

// agent is a stock client, and what the server refused it.
type agent struct {
	*nats.Conn
	t    *testing.T
	name bcp.AgentName
	key  string

	mu      sync.Mutex
	cond    sync.Cond
	refused []string // "publish subject", "subscribe subject"
}

func (b *bench) connect(name bcp.AgentName, role bcp.Role, options ...nats.Option) *agent {
	b.t.Helper()
	creds := b.issue(name, role)
	a := &agent{t: b.t, name: name, key: creds.PublicKey}
	a.cond.L = &a.mu
	options = append([]nats.Option{
		nats.UserCredentialBytes(creds.Text()),
		nats.CustomInboxPrefix(subjects.InboxPrefix(name)),
		nats.SkipSubjectValidation(),
		nats.SyncQueueLen(16), // otherwise each subscription takes megabytes
		nats.ErrorHandler(a.onError), nats.Timeout(patience),
		nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0),
	}, options...)
	var err error
	if a.Conn, err = nats.Connect(b.URL(), append(options, b.way.options(b)...)...); err != nil {
		b.t.Fatalf("%s as %s: %v", name, role, err)
	}
	b.t.Cleanup(a.Close)
	return a
}

func (a *agent) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	// What a connection hears that the server ends: one without a scope may
	// have no subscriptions either.
	for _, end := range []error{nats.ErrAuthRevoked, nats.ErrAuthorization, nats.ErrMaxSubscriptionsExceeded} {
		if errors.Is(err, end) {
			return
		}
	}
	if !errors.Is(err, nats.ErrPermissionViolation) {
		a.t.Errorf("%s: %v", a.name, err)
		return
	}
	_, text, _ := strings.Cut(err.Error(), ": Permissions Violation for ")
	operation, rest, _ := strings.Cut(text, " to ")
	if operation == "Subscription" {
		operation = "subscribe"
	} else if operation == "Publish" {
		operation = "publish"
	} else {
		operation, rest = "reply", strings.TrimPrefix(text, "Publish with Reply of ")
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		a.t.Errorf("cannot read %q", rest)
		return
	}
	subject, _ := strconv.Unquote(quoted)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = append(a.refused, operation+" "+subject)
	a.cond.Broadcast()
}

// refusals returns all that the server has refused so far, and forgets it. It
// provokes one more, behind which nothing can be on its way.
func (a *agent) refusals() []string {
	a.t.Helper()
	const last = "refuse.me"
	noError(a.t, a.Publish(last, nil))
	noError(a.t, a.FlushTimeout(patience))
	defer time.AfterFunc(patience, a.cond.Broadcast).Stop()
	deadline := time.Now().Add(patience)
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := len(a.refused); n == 0 || a.refused[n-1] != "publish "+last; n = len(a.refused) {
		stopIf(a.t, time.Now().After(deadline), "%s: the last refusal did not come", a.name)
		a.cond.Wait()
	}
	refused := a.refused[:len(a.refused)-1]
	a.refused = nil
	return refused
}

// listen subscribes and returns what has arrived by the time that take is
// called, when whatever was sent before the sender's flush has.
func listen(t *testing.T, nc *nats.Conn, subject string) (take func() []*nats.Msg) {
	t.Helper()
	messages := make(chan *nats.Msg, 1<<16)
	subscription := must(nc.ChanSubscribe(subject, messages))
	flush(t, nc)
	t.Cleanup(func() { _ = subscription.Unsubscribe() })
	return func() []*nats.Msg {
		flush(t, nc)
		var list []*nats.Msg
		for len(messages) > 0 {
			list = append(list, <-messages)
		}
		return list
	}
}

func flush(t *testing.T, nc *nats.Conn) {
	t.Helper()
	noError(t, nc.FlushTimeout(patience))
}

func subjectsOf(messages []*nats.Msg) []string {
	list := make([]string, len(messages))
	for i, m := range messages {
		list[i] = m.Subject
	}
	return list
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

var noError, failIf, stopIf, fails = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Fails

var eventually = bcptest.Eventually

// equal compares what is wanted with what there is.
func equal(t testing.TB, want, got any, options ...cmp.Option) {
	t.Helper()
	diff := cmp.Diff(want, got, options...)
	failIf(t, diff != "", "%v", diff)
}

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}

// errorOf is the error of a call whose value does not matter.
func errorOf[T any](_ T, err error) error { return err }
