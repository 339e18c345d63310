package server_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// watch returns a channel of all connections.
func (b *bench) watch() <-chan server.Connection {
	b.t.Helper()
	events := make(chan server.Connection, 1024)
	stop := must(b.Watch(func(c server.Connection) { events <- c }))
	b.t.Cleanup(stop)
	return events
}

func next[T any](t testing.TB, events <-chan T) T {
	t.Helper()
	return bcptest.Next(t, events, "what happens")
}

func none[T any](t *testing.T, events <-chan T) {
	t.Helper()
	select {
	case e := <-events:
		t.Errorf("also: %+v", e)
	default:
	}
}

// Who connects is told by its scope, and with the host that it comes from.
//
// covers BCP-7, A-SYS, A-REVOKED
func TestWatchTellsWhoConnectsByTheirScope(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.gateway()
	before := b.connect("relay", bcp.RoleReader, nats.Name("controller-main"))
	events := b.watch()
	got := next(t, events)
	want := server.Connection{Party: server.Party{Agent: "relay", Role: bcp.RoleReader}, Connected: true, ClientID: got.ClientID, UserKey: before.key, Host: "127.0.0.1"}
	equal(t, want, got)
	after := b.connect("relay", bcp.RoleController, from("127.0.0.5"))
	got = next(t, events)
	want = server.Connection{Party: server.Party{Agent: "relay", Role: bcp.RoleController}, Connected: true, ClientID: got.ClientID, UserKey: after.key, Host: "127.0.0.5"}
	equal(t, want, got)
	after.Close()
	want.Connected, want.Reason = false, "Client Closed"
	equal(t, want, next(t, events))
	b.gateway().Close()
	alice := b.connect("alice", bcp.RoleApprover)
	got = next(t, events)
	failIf(t, got.Party != (server.Party{Agent: "alice", Role: bcp.RoleApprover}) || got.UserKey != alice.key, "%+v", got)
	none(t, events)
}

// covers A-RECONN
func TestWatchOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	b := start(t)
	events := b.watch()
	last := b.connect("main", bcp.RoleController, nats.NoReconnect())
	lastID := next(t, events).ClientID
	for range 10 {
		noError(t, b.LoseMonitor())
		last.Close()
		last = b.connect("main", bcp.RoleController, nats.NoReconnect())
		id := must(last.GetClientID())
		began, ended := next(t, events), next(t, events)
		if !began.Connected {
			began, ended = ended, began
		}
		failIf(t, !began.Connected || began.ClientID.Number != id || ended.Connected || ended.ClientID != lastID || ended.Agent != "main",
			"%+v, %+v", began, ended)
		lastID = began.ClientID
	}
	none(t, events)
}

// covers A-RECONN
func TestKickClosesOneConnection(t *testing.T) { everyWay(t, kickClosesOneConnection) }

func kickClosesOneConnection(t *testing.T, w way) {
	b := start(t, w)
	events := b.watch()
	closed := make(chan bool, 1)
	b.connect("main", bcp.RoleController, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { closed <- true }))
	one := next(t, events)
	other := b.connect("main", bcp.RoleController)
	next(t, events)
	noError(t, b.Kick(one.ClientID))
	next(t, closed)
	got := next(t, events)
	failIf(t, got.Connected || got.ClientID != one.ClientID || got.Reason != "Kicked", "%+v", got)
	flush(t, other.Conn)
	fails(t, b.Kick(one.ClientID), server.ErrNoClient, "kicked twice")
	none(t, events)
}

// covers P1.5, A-REVOKED
func TestUpdateTouchesOnlyWhoChanged(t *testing.T) {
	t.Parallel()
	b := start(t)
	gateway, events := b.gateway(), b.watch()
	researcher, mailer, main := b.connect("researcher", bcp.RoleReader), b.connect("mailer", bcp.RoleReader), b.connect("main", bcp.RoleController)
	for range 3 {
		next(t, events)
	}
	core := listen(t, gateway, "bcp.>")
	fresh := subjects.Push("researcher", "main", "fresh")
	publish(t, researcher.Conn, fresh, "")
	equal(t, []string{"publish " + fresh}, researcher.refusals())

	edited := slices.Clone(b.scopes)
	for i, s := range edited {
		if s.Agent == "researcher" {
			edited[i].PubAllow = []string{fresh}
		}
	}
	noError(t, b.UpdateAccounts(t.Context(), b.compile(edited)))
	got := next(t, events)
	failIf(t, got.Connected || got.Agent != "researcher", "%+v", got)
	if got := next(t, events); !got.Connected || got.Agent != "researcher" || got.UserKey != researcher.key {
		t.Errorf("it did not come back with its creds: %+v", got)
	}
	old := subjects.Push("researcher", "main", "findings")
	publish(t, researcher.Conn, fresh, "")
	publish(t, researcher.Conn, old, "")
	equal(t, []string{"publish " + old}, researcher.refusals())
	publish(t, main.Conn, subjects.Session("main"), "")
	flush(t, main.Conn)
	flush(t, mailer.Conn)
	equal(t, []string{fresh, subjects.Session("main")}, subjectsOf(core()))

	// An agent that is no more, and creds that are revoked, are out.
	noError(t, b.store.Revoke(researcher.key))
	removed := slices.DeleteFunc(slices.Clone(edited), func(s subjects.Scope) bool { return s.Agent == "mailer" })
	noError(t, b.UpdateAccounts(t.Context(), b.compile(removed)))
	gone := []string{string(next(t, events).Agent), string(next(t, events).Agent)}
	equal(t, []string{"mailer", "researcher"}, sorted(gone))
	eventually(t, "both are cut off", func() bool { return !researcher.IsConnected() && !mailer.IsConnected() })
	researcher.Close()
	mailer.Close()
	flush(t, main.Conn)
	none(t, events)
	b.connect("researcher", bcp.RoleReader) // with fresh creds
}

// covers P1.5
func TestUpdateRefusesWhatCannotChange(t *testing.T) {
	t.Parallel()
	b, other := start(t), start(t)
	for name, next := range map[string]accounts.Bundle{"nothing": {}, "another mesh": other.bundle} {
		fails(t, b.UpdateAccounts(t.Context(), next), server.ErrUpdate, "%s", name)
	}
	// The same again is no change, and so is nothing at all.
	noError(t, b.UpdateAccounts(t.Context(), b.compile(b.scopes)))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	researcher := b.connect("researcher", bcp.RoleReader)
	nobody := b.compile(nil)
	err := b.UpdateAccounts(done, nobody)
	failIf(t, !errors.Is(err, server.ErrUpdate) || !errors.Is(err, context.Canceled), "cancelled: %v", err)
	// The next one makes up for it.
	noError(t, b.UpdateAccounts(t.Context(), nobody))
	eventually(t, "who was removed is cut off", func() bool { return !researcher.IsConnected() })
}

// auditStream makes what an auditor may read.
func auditStream(t *testing.T, gateway *nats.Conn) natsjs.JetStream {
	t.Helper()
	js := must(natsjs.New(gateway))
	for name, kind := range map[string]subjects.Kind{subjects.AuditStream: subjects.KindAudit, "BCP_KEYS": subjects.KindKey} {
		must(js.CreateStream(t.Context(), natsjs.StreamConfig{Name: name, Subjects: []string{subjects.All(kind)}, AllowDirect: true}))
	}
	return js
}

// covers P11.1
func TestOneServerRunsOnAStateFolder(t *testing.T) {
	t.Parallel()
	b := start(t)
	config := server.Config{StateDir: b.state, Bundle: b.bundle}
	if _, err := server.Start(t.Context(), config); !errors.Is(err, server.ErrInUse) {
		t.Fatalf("two servers run on one folder: %v", err)
	}
	js := auditStream(t, b.gateway())
	must(js.Publish(t.Context(), subjects.Audit("", "", "start"), nil))
	stop(t, b.Server)
	stop(t, b.Server)
	<-b.Done()

	ctx, cancel := context.WithCancel(t.Context())
	again := must(server.Start(ctx, config))
	gateway := must(again.Gateway())
	js = must(natsjs.New(gateway))
	stream, err := js.Stream(t.Context(), subjects.AuditStream)
	failIf(t, err != nil || stream.CachedInfo().State.Msgs != 1, "what was written is gone: %v", err)
	gateway.Close()
	cancel()
	bcptest.Next(t, again.Done(), "it ends with its context")
	stop(t, again)
	fails(t, errorOf(server.Start(ctx, config)), context.Canceled, "started without its context")
}

// covers BCP-19
func TestStartRefusesABadConfig(t *testing.T) {
	t.Parallel()
	b := start(t)
	for name, spoil := range map[string]func(*server.Config){
		"no state":        func(c *server.Config) { c.StateDir = "" },
		"no bundle":       func(c *server.Config) { c.Bundle = accounts.Bundle{} },
		"bad operator":    func(c *server.Config) { c.Bundle.Operator = "x" },
		"no accounts":     func(c *server.Config) { c.Bundle.Accounts = nil },
		"no monitor":      func(c *server.Config) { c.Bundle.Monitor = accounts.Login{} },
		"no port":         func(c *server.Config) { c.Listen = "127.0.0.1" },
		"large port":      func(c *server.Config) { c.Listen = "127.0.0.1:65536" },
		"port in use":     func(c *server.Config) { c.Listen = b.URL()[len("nats://"):] },
		"back in time":    func(c *server.Config) { c.SyncInterval = -1 },
		"state is a file": func(c *server.Config) { c.StateDir = b.state + "/server.lock" },
	} {
		config := server.Config{StateDir: t.TempDir(), Bundle: b.bundle}
		spoil(&config)
		if s, err := server.Start(t.Context(), config); err == nil {
			stop(t, s)
			t.Errorf("%s: started", name)
		}
	}
}

// covers P11.1
func TestStartAndStopAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		s := must(server.Start(ctx, server.Config{StateDir: t.TempDir(), Bundle: b.bundle}))
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { stop(t, s) })
		}
		group.Go(cancel)
		group.Wait()
		fails(t, errorOf(s.Gateway()), nil, "connected to a server that ended")
	}
}
