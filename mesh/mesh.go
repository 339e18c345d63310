package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Config says what to run and where.
type Config struct {
	// Definition is the mesh as package definition loaded it. It is required.
	Definition *bcp.Mesh
	// Load, if set, loads it again, for a reload that the operator asks for. An
	// error says what is wrong with the definitions, a line each.
	Load func() (*bcp.Mesh, error)
	// Folder is where agents' commands run: that of the definitions. Without one
	// no command is started.
	Folder string
	// Environ is the environment of this program, of which commands get the few
	// harmless keys.
	Environ []string
	// State is the folder of keys, streams and locks. It is required, and made
	// if it is not there; one mesh runs on it at a time.
	State string
	// Listen is the address for agents; the default is a free port of the
	// loopback interface. Anything else needs TLS.
	Listen string
	TLS    *tls.Config
	// AllowNetworkWithoutTLS lets agents connect from elsewhere without TLS:
	// everything that they say can then be read and changed on the way.
	AllowNetworkWithoutTLS bool
	// Version names the program in the audit.
	Version string
	// Now is the clock that sessions, deadlines and schedules go by; nil is the
	// machine's.
	Now func() time.Time
	// SnapshotEvery is how many decisions may stand behind a snapshot until the
	// next is made; 0 is the gateway's choice.
	SnapshotEvery uint64
	// Rebuild deletes audit, ledger and validated messages, and fills them again
	// from the journal.
	Rebuild bool
	// Logger, nil discards. It never gets a byte of an agent's message.
	Logger hclog.Logger
	// OnDecision, if set, is called with each decision once it is stored. It
	// must not block, nor keep the pointer.
	OnDecision func(*bcp.Decision)
	// OnReload, if set, is called with the definitions that a reload makes hold,
	// before the first decision under them. It must not block, nor change them.
	OnReload func(*bcp.Mesh)
}

// snapshotFolder is where the snapshots are, in the state folder.
const snapshotFolder = "snapshots"

// Mesh is a running mesh. Its methods may be used concurrently.
type Mesh struct {
	config     Config
	definition atomic.Pointer[bcp.Mesh]
	store      *accounts.Store
	server     *server.Server
	gateway    *gateway.Gateway
	clients    *clients
	running    atomic.Pointer[commands] // nil where none are started
	js         natsjs.JetStream

	reloading sync.Mutex // one reload at a time

	stopping sync.Once
	stopped  error
	undo     []func() error // what Start did, newest last
}

// Start runs a mesh until Stop, or until ctx is cancelled, which begins the
// same sequence without waiting for it.
func Start(ctx context.Context, config Config) (*Mesh, error) {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Definition == nil || config.State == "" {
		return nil, errIncomplete
	}
	m := &Mesh{config: config}
	m.definition.Store(config.Definition)
	if err := m.start(ctx, config); err != nil {
		return nil, errors.Join(err, m.Stop(context.WithoutCancel(ctx)))
	}
	return m, nil
}

var errIncomplete = errors.New("start the mesh: it needs a definition and a state folder")

func (m *Mesh) start(ctx context.Context, config Config) error {
	store, bundle, err := Keys(config.State, config.Definition)
	if err != nil {
		return err
	}
	m.store = store

	var discard []string
	if config.Rebuild {
		discard = jetstream.Projections()
	}
	// The server may refuse somebody before there is a gateway to record it.
	var denied atomic.Pointer[gateway.Gateway]
	m.server, err = server.Start(context.WithoutCancel(ctx), server.Config{
		Listen: config.Listen, StateDir: config.State, Bundle: bundle, Discard: discard, TLS: config.TLS,
		AllowNetworkWithoutTLS: config.AllowNetworkWithoutTLS, Logger: config.Logger.Named("server"),
		SyncAlways: config.Definition.SyncAlways, SyncInterval: config.Definition.SyncInterval,
		Denials: func(d server.Denial) {
			if g := denied.Load(); g != nil {
				g.Denied(d.Agent, d.Role, d.Operation.String()+" "+d.Subject, d.Count)
			}
		},
	})
	if err != nil {
		return err
	}
	m.later(func() error { return m.server.Stop(context.Background()) })

	conn, err := m.connect()
	if err != nil {
		return err
	}
	if m.js, err = natsjs.New(conn); err != nil {
		return fmt.Errorf("start the mesh: %w", err)
	}
	topology := jetstream.Topology{Replicas: config.Definition.Replicas, RawRetention: config.Definition.RawRetention}
	if err := jetstream.Create(ctx, m.js, topology); err != nil {
		return err
	}
	if err := m.project(config.Logger.Named("projector")); err != nil {
		return err
	}
	m.clients = newClients(config.Definition, m.server.Kick, config.Logger)
	m.later(m.clients.stop)
	m.gateway, err = gateway.Start(context.WithoutCancel(ctx), gateway.Config{
		State: m.stateOf(config.Definition),
		Conn:  conn, Connect: func() (*nats.Conn, error) { return m.server.Gateway() }, Kick: m.clients.kickAll,
		Snapshots: jetstream.NewSnapshots(filepath.Join(config.State, snapshotFolder)), SnapshotEvery: config.SnapshotEvery,
		Reload: m.reloadFiles, Wake: m.wake, Now: config.Now, Logger: config.Logger.Named("gateway"), OnDecision: config.OnDecision,
	})
	if err != nil {
		return err
	}
	denied.Store(m.gateway)
	m.later(m.gateway.Stop)

	unwatch, err := m.server.Watch(func(c server.Connection) {
		m.clients.note(c)
		if c.Connected {
			m.gateway.Connected(c.Agent, c.Role)
		} else {
			m.gateway.Disconnected(c.Agent, c.Role)
		}
	})
	if err != nil {
		return err
	}
	m.later(func() error { unwatch(); return nil })
	if err := m.startCommands(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = m.Stop(context.Background()) })
	m.later(func() error { stop(); return nil })
	return nil
}

// stateOf is what the gateway decides by.
func (m *Mesh) stateOf(def *bcp.Mesh) bcp.Config {
	return bcp.Config{Mesh: def, Constraints: constraint.Compile, Verify: accounts.Verify, Schedules: definition.ParseSchedule,
		Definitions: definition.Digest(def), Version: m.config.Version}
}

// wake has an agent's command started.
func (m *Mesh) wake(agent bcp.AgentName) {
	if c := m.running.Load(); c != nil {
		c.supervisor.Wake(agent)
	}
}

// connect returns a connection of the gateway's, closed at Stop.
func (m *Mesh) connect() (*nats.Conn, error) {
	conn, err := m.server.Gateway()
	if err != nil {
		return nil, err
	}
	m.later(func() error { conn.Close(); return nil })
	return conn, nil
}

// project keeps the projections up with the journal, over a connection of
// their own.
func (m *Mesh) project(log hclog.Logger) error {
	conn, err := m.connect()
	if err != nil {
		return err
	}
	js, err := natsjs.New(conn)
	if err != nil {
		return fmt.Errorf("start the projections: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		jetstream.NewProjector(js, log).Run(ctx)
	}()
	m.later(func() error { cancel(); <-done; return nil })
	return nil
}

func (m *Mesh) later(undo func() error) { m.undo = append(m.undo, undo) }

// Stop ends the mesh in order: no more messages, the last record, the streams.
// It may be called several times; ctx bounds the wait of the first.
func (m *Mesh) Stop(ctx context.Context) error {
	m.stopping.Do(func() {
		done := make(chan error, 1)
		go func() {
			var err error
			for i := len(m.undo) - 1; i >= 0; i-- {
				err = errors.Join(err, m.undo[i]())
			}
			done <- err
		}()
		select {
		case m.stopped = <-done:
		case <-ctx.Done():
			m.stopped = fmt.Errorf("stop the mesh: %w", context.Cause(ctx))
		}
	})
	return m.stopped
}

// Done is closed when the gateway has ended, by Stop or because another gateway
// writes to its journal; [Mesh.Stop] then says why.
func (m *Mesh) Done() <-chan struct{} { return m.gateway.Done() }

// URL is where agents connect.
func (m *Mesh) URL() string { return m.server.URL() }

// Definition is what the mesh runs; it must not be changed.
func (m *Mesh) Definition() *bcp.Mesh { return m.definition.Load() }

// Inspect has f called with the gateway's state, between two steps. f must not
// keep it, nor take long.
func (m *Mesh) Inspect(ctx context.Context, f func(*bcp.State)) error {
	return m.gateway.Inspect(ctx, f)
}

// Connected counts the agents and people that are connected, by role; one with
// several connections in a role counts once.
func (m *Mesh) Connected() map[bcp.Role]int { return m.clients.connected() }

// Issue makes credentials for an agent or a person; role may be zero where it
// has exactly one, and expires zero for never.
func (m *Mesh) Issue(agent bcp.AgentName, role bcp.Role, expires time.Duration) (accounts.Creds, error) {
	return m.store.Issue(agent, role, expires)
}

// Projected waits until the audit shows the decision with this number.
func (m *Mesh) Projected(ctx context.Context, seq uint64) error {
	return jetstream.Projected(ctx, m.js, seq)
}

// Flush waits until everything that the gateway has sent to agents is on its
// way to those that are connected.
func (m *Mesh) Flush(ctx context.Context) error { return m.gateway.Flush(ctx) }

// Keys opens the key store of a state folder, or makes one, and compiles the
// permissions of a mesh into it. It works while the mesh runs or rests.
func Keys(state string, m *bcp.Mesh) (*accounts.Store, accounts.Bundle, error) {
	store, err := accounts.Open(state)
	if errors.Is(err, fs.ErrNotExist) {
		store, err = accounts.Create(state)
	}
	if err != nil {
		return nil, accounts.Bundle{}, err
	}
	bundle, err := accounts.Compile(store, subjects.Permissions(m), time.Now())
	return store, bundle, err
}
