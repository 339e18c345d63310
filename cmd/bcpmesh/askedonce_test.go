package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// What is recorded anew each time it is asked for is asked for once, however long the
// answer takes.
//
// covers P11.5, P2.6
func TestRecordedActsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	const wait = 8 * time.Second // several attempts of most requests, and time to connect
	state, s := exportedToAnyone(t)
	noError(t, meshdir.WriteReady(server.ReadyOf(state), meshdir.Ready{URL: s.ClientURL(), State: state, Cluster: true}))
	gateway := must(nats.Connect(s.ClientURL(), nats.Timeout(time.Minute)))(t)
	t.Cleanup(gateway.Close)
	for act, ask := range map[string]func(t *testing.T){
		bcp.ControlErase: func(t *testing.T) {
			r := execute(t, "", "audit", "erase", "--state", state, "--channel", "main/researcher", "--before", "2026-03-15", "--yes", "--wait", wait.String())
			failIf(t, r.code != cli.ExitFailed || !strings.Contains(r.stderr, "no reply in time"),
				"exit code %d: %s", r.code, r.stderr)
		},
		bcp.ControlCredentials: func(t *testing.T) {
			store := must(accounts.Open(state))(t)
			f := keys.PushFlags{Where: meshdir.StateFlags{State: state}, URL: s.ClientURL(), Wait: cli.DurationFlag{Value: wait}}
			recorded, waiting, err := f.Record(t.Context(), store)
			failIf(t, recorded != 0 || waiting == 0 || err == nil, "%d recorded, %d wait, %v", recorded, waiting, err)
		},
	} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			must(gateway.Subscribe(subjects.Control(act), func(*nats.Msg) { asked.Add(1) }))(t)
			noError(t, gateway.FlushTimeout(time.Minute))
			ask(t)
			noError(t, gateway.FlushTimeout(time.Minute))
			n := asked.Load()
			failIf(t, n != 1, "asked for %d times", n)
		})
	}
}

// exportedToAnyone returns the state of a mesh whose accounts were exported, and a server
// that lets anyone in.
func exportedToAnyone(t *testing.T) (state string, s *natsserver.Server) {
	t.Helper()
	folder := t.TempDir()
	dir, state := filepath.Join(folder, "desk"), filepath.Join(folder, "keys")
	succeed(t, "init", dir)
	succeed(t, "accounts", "export", dir, "--state", state, "--out", filepath.Join(folder, "cluster"), "--gateway", "one")
	s = must(natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true}))(t)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	stopIf(t, !s.ReadyForConnections(time.Minute), "the server does not start")
	return state, s
}

// stingy listens in front of a server, and closes the first connection that comes.
func stingy(t *testing.T, s *natsserver.Server) (address string) {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if client, err := listener.Accept(); err == nil {
			_ = client.Close()
		}
		forward(listener, s.Addr().String())
	}()
	return listener.Addr().String()
}

// A server that does not let the push in at first is asked again.
//
// covers A-REVOKED
func TestPushRecordsThoughNotLetInAtFirst(t *testing.T) {
	t.Parallel()
	state, s := exportedToAnyone(t)
	gateway := must(nats.Connect(s.ClientURL(), nats.Timeout(time.Minute)))(t)
	t.Cleanup(gateway.Close)
	must(gateway.Subscribe(subjects.Control(bcp.ControlCredentials), func(m *nats.Msg) {
		changes, _ := bcp.ParseCredentialRecords(m.Data)
		answer, err := bcp.Encode(status.Applied{Recorded: len(changes), Connections: []status.ClientConnection{}}, bcp.JSON)
		if err == nil {
			err = m.Respond(answer)
		}
		failIf(t, err != nil, "%v", err)
	}))(t)
	noError(t, gateway.FlushTimeout(time.Minute))
	store := must(accounts.Open(state))(t)
	f := keys.PushFlags{Where: meshdir.StateFlags{State: state}, URL: "nats://" + stingy(t, s), Wait: cli.DurationFlag{Value: time.Minute}}
	recorded, waiting, err := f.Record(t.Context(), store)
	failIf(t, recorded == 0 || waiting > 0 || err != nil, "%d recorded, %d wait, %v", recorded, waiting, err)
}
