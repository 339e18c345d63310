package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/notify"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Config configures a mesh.
type Config struct {
	// Definition is the mesh as package definition loaded it. It is required. Its
	// replicas must be 1.
	Definition *bcp.Mesh
	// Load, if set, loads the definitions again, for a reload by the operator.
	// An error lists the problems of the definitions, one a line.
	Load func() (*bcp.Mesh, error)
	// Folder is the working directory of agents' commands: that of the
	// definitions. Without it no agent's command is started.
	Folder string
	// Environ is the environment of this program. Commands get a few harmless
	// variables of it, and notification routes the secrets that they name.
	Environ []string
	// Builtin is the command that runs an agent with its model, without the agent's name.
	// Without it, agents with `command: builtin` are not started.
	Builtin []string
	// Keeper is the argv of a program that confines commands with sandbox: required and
	// sends for them; --read=FILE, -- and the command are appended. Without it none of
	// these is started.
	Keeper []string
	// State is the folder of keys, streams and locks. It is required, and made
	// if it is not there; one mesh runs on it at a time.
	State string
	// Listen is the address for agents; the default is a free port of the
	// loopback interface. Anything else needs TLS.
	Listen string
	// TLS, if set, is required of agents.
	TLS *tls.Config
	// CA names the file with the CA certificate that agents need for TLS, unless
	// their system trusts it.
	CA string
	// Keys say how sealed keys are opened.
	Keys []accounts.OpenOption
	// Version names the program in the audit.
	Version string
	// Now is the clock of sessions, deadlines and schedules; nil is the
	// system's.
	Now func() time.Time
	// SnapshotEvery is how many decisions may follow a snapshot before the next
	// is made; 0 is the gateway's choice.
	SnapshotEvery uint64
	// Rebuild deletes audit and ledger, and builds them again from the journal.
	Rebuild bool
	// Witnesses cosign the checkpoints of the journal. If the definitions set
	// require_witness, there must be one.
	Witnesses []*Witness
	// AcceptRollback lets the mesh start although a witness, or agents and people in an
	// earlier run, have seen more of the journal than there is or another history. It is
	// recorded.
	AcceptRollback bool
	// Logger, nil discards. It never gets a byte of an agent's message.
	Logger hclog.Logger
	// OnDecision, if set, is called with each stored decision. It must not
	// block or keep the pointer.
	OnDecision func(*bcp.Decision)
	// OnNotified, if set, is called after each attempt to send a message by a notification
	// route; err says in our words why it was not taken. It must not block.
	OnNotified func(route string, err error)
	// OnReload, if set, is called with the definitions of a reload, before the
	// first decision under them. It must not block or change them.
	OnReload func(*bcp.Mesh)
}

// bus is the NATS of a mesh: the server in this process, or a cluster.
type bus interface {
	Gateway(...nats.Option) (*nats.Conn, error)
	Watch(func(server.Connection)) (stop func(), err error)
	Kick(server.ClientID) error
	Slow(server.Party)
	URL() string
}

// snapshotFolder is the folder of snapshots, in the state folder.
const snapshotFolder = "snapshots"

// Mesh is a running mesh. Its methods may be used concurrently.
type Mesh struct {
	config      Config
	definition  atomic.Pointer[bcp.Mesh]
	bus         bus
	store       *accounts.Store // nil on a cluster, as server is
	server      *server.Server
	gateway     *gateway.Gateway
	recorder    atomic.Pointer[gateway.Gateway] // nil until it has started: the server may refuse somebody before
	clients     *clients
	running     atomic.Pointer[commands] // nil if no commands are started
	js          natsjs.JetStream
	storage     atomic.Pointer[status.Storage] // nil until it was measured
	projector   *jetstream.Projector
	checkpoints *checkpoints // nil on a cluster
	truncating  func(step string) error
	// truncatedAtOnce is how many bytes of the journal are cut off between two steps.
	truncatedAtOnce uint64
	notices         *notify.Notifier
	projecting      jetstream.Interrupter // the projector's
	interrupter     jetstream.Interrupter // the gateway's

	// disk returns the free space and the size of the disk of the streams.
	disk func() (free, size int64, err error)

	// prepareAccounts returns what makes the bus enforce definitions, or refuses them.
	prepareAccounts func(*bcp.Mesh) (func(context.Context) error, error)
	reloading       sync.Mutex // one reload at a time

	stopping  sync.Once
	stopped   error
	undoing   sync.Mutex
	undo      []func() error // undo functions of Start, newest last; guarded by undoing, like stopBegun
	stopBegun bool
	displaced atomic.Bool // the state folder is not ours any more
}

// Start runs a mesh until Stop, or until ctx is cancelled, which begins to stop
// it without waiting.
func Start(ctx context.Context, config Config) (*Mesh, error) {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Definition == nil || config.State == "" {
		return nil, errors.New("start the mesh: it needs a definition and a state folder")
	}
	if err := CheckReplicas(config.Definition); err != nil {
		return nil, fmt.Errorf("start the mesh: %w", err)
	}
	if config.Definition.RequireWitness > 0 && len(config.Witnesses) == 0 {
		return nil, fmt.Errorf("start the mesh: %w", ErrRequireWitness)
	}
	m := newMesh(config)
	if err := m.start(ctx, config); err != nil {
		return nil, errors.Join(err, m.Stop(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func newMesh(config Config) *Mesh {
	m := &Mesh{config: config, truncating: func(string) error { return nil }, truncatedAtOnce: jetstream.TruncatedBytes}
	m.definition.Store(config.Definition)
	return m
}

// ErrDisplaced says that a mesh ended because its records went to files that nobody can open again.
var ErrDisplaced = errors.New("the state folder was removed or replaced while the mesh ran")

// ErrReplicas says that definitions require several replicas of each stream, which
// one server cannot keep.
var ErrReplicas = errors.New("one server keeps one copy of each stream")

// CheckReplicas returns [ErrReplicas] for definitions that only a cluster can run. A mesh
// in one process refuses them at a start and at a reload.
func CheckReplicas(def *bcp.Mesh) error {
	if def.Replicas > 1 {
		return fmt.Errorf("%w, and replicas is %d", ErrReplicas, def.Replicas)
	}
	return nil
}

var errGatewayEnded = errors.New("the gateway has ended")

func (m *Mesh) start(ctx context.Context, config Config) error {
	compiled := time.Now()
	store, bundle, err := Keys(config.State, config.Definition, config.Keys...)
	if err != nil {
		return err
	}
	m.store = store

	marks, err := m.openMarks()
	if err != nil {
		return err
	}
	if err := m.prepareCheckpoints(marks); err != nil {
		return err
	}
	var discard []string
	if config.Rebuild {
		discard = jetstream.Projections()
	}
	m.server, err = server.Start(context.WithoutCancel(ctx), server.Config{
		Listen: config.Listen, StateDir: config.State, Bundle: bundle, Discard: discard, TLS: config.TLS,
		Logger: config.Logger.Named("server"), Shut: true,
		MaxStore: config.Definition.MaxDisk, SyncAlways: config.Definition.SyncInterval == 0, SyncInterval: config.Definition.SyncInterval,
		Denials: func(d server.Denial) {
			if g := m.recorder.Load(); g != nil {
				g.Denied(d.Agent, d.Role, string(d.Operation), d.Subject, d.Count)
			}
		},
		Unwritten: func(reason string) {
			m.checkpoints.interrupter.Interrupt(reason)
			m.interrupt(reason)
		},
	})
	if err != nil {
		return err
	}
	m.onStop(func() error { return m.server.Stop(context.Background()) })
	m.bus, m.prepareAccounts = m.server, m.signAccounts
	m.disk = func() (free, size int64, err error) { return Disk(config.State) }
	var syncKeys func() error
	if config.Definition.SyncInterval > 0 {
		syncKeys = func() error { return m.server.Sync(jetstream.KeyStream) }
	}
	if err := m.serve(ctx, gateway.Config{SyncKeys: syncKeys, Acts: map[string]gateway.Act{bcp.ControlCredentials: m.lookAtKeys}, Closed: m.checkpoints.witnesses.closed, Marks: marks, ConnectTool: m.server.Dispatcher, Unheard: m.server.Unheard}); err != nil {
		return err
	}
	e := &expiring{store: m.store, log: config.Logger, now: time.Now, tell: m.gateway.Happened, told: map[string]time.Time{}}
	m.nowAndEvery(expiringInterval, e.look)
	m.startWitnesses(ctx, m.checkpoints.witnesses)
	if err := m.acceptRollback(ctx, marks, m.checkpoints.witnesses); err != nil {
		return err
	}
	m.watchKeys(compiled)
	if err := m.serveJoins(); err != nil {
		return err
	}
	m.runEvery(time.Second, func(context.Context) {
		if m.server.Displaced() {
			m.displaced.Store(true)
			m.gateway.End(ErrDisplaced)
		}
	})
	m.server.Open()
	if err := m.startCommands(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = m.Stop(context.Background()) })
	m.onStop(func() error { stop(); return nil })
	return nil
}

// serve runs everything on top of the bus, which sets some of the gateway's
// configuration.
func (m *Mesh) serve(ctx context.Context, own gateway.Config) error {
	config := m.config
	conn, err := m.connect()
	if err != nil {
		return err
	}
	if m.js, err = natsjs.New(conn); err != nil {
		return fmt.Errorf("start the mesh: %w", err)
	}
	create := jetstream.Create
	if m.clustered() {
		// Whether a record on its way to the previous leader is stored will never be answered. This
		// connection waits for the replies; losing it ends them too.
		if _, err := conn.Subscribe(subjects.JournalLeaders, func(*nats.Msg) { m.interrupt("the journal has a new leader") }); err != nil {
			return fmt.Errorf("start the mesh: %w", err)
		}
		// The projector makes its own streams: they may be without leaders for a while.
		create = jetstream.CreateJournal
	}
	if err := create(ctx, m.js, newTopology(config.Definition)); err != nil {
		return err
	}
	if !m.clustered() {
		if err := jetstream.ResumeTruncation(ctx, m.js); err != nil {
			return err
		}
	}
	if err := m.project(config.Logger.Named("projector")); err != nil {
		return err
	}
	m.expireRaw(config.Logger)
	if m.checkpoints != nil {
		if err := m.checkpoints.start(ctx, m); err != nil {
			return err
		}
	}
	m.clients = newClients(config.Definition, m.bus.Kick, config.Logger)
	m.onStop(m.clients.stop)
	own.State, own.Conn, own.Connect = m.stateConfig(config.Definition), conn, func() (*nats.Conn, error) { return m.bus.Gateway() }
	own.Slow, own.Kick = func(agent bcp.AgentName, role bcp.Role) { m.bus.Slow(server.Party{Agent: agent, Role: role}) }, m.clients.kickAll
	own.Snapshots, own.SnapshotEvery = openSnapshots(config.State), config.SnapshotEvery
	own.Bases, own.Wake = openBases(config.State), func(agent bcp.AgentName) {
		if c := m.running.Load(); c != nil {
			c.supervisor.Wake(agent)
		}
	}
	if m.clustered() {
		own.Bases = own.Bases.Shared(m.js)
	}
	own.Roles = m.roles()
	own.Cluster, own.Interrupter = m.clustered(), &m.interrupter
	own.Now, own.Logger = config.Now, config.Logger.Named("gateway")
	if m.notices, err = m.newNotices(); err != nil {
		return err
	}
	own.OnDecision, own.OnView = func(d *bcp.Decision) {
		m.notices.Observe(d)
		if config.OnDecision != nil {
			config.OnDecision(d)
		}
	}, m.notices.Seen
	own.OnUnrecorded = m.notices.Unrecorded
	own.Acts[bcp.ControlReload], own.Acts[bcp.ControlStorage], own.Acts[bcp.ControlAgents] = m.reloadFiles, m.tellStorage, m.tellAgents
	if !m.clustered() { // each node of a cluster would cut at another moment
		own.Acts[bcp.ControlTruncate] = m.truncateAsked
	}
	started := make(chan struct{})
	for act, f := range own.Acts {
		own.Acts[act] = func(ctx context.Context, body []byte) (any, error) {
			<-started // in a cluster the operator may ask before
			return f(ctx, body)
		}
	}
	m.gateway, err = gateway.Start(context.WithoutCancel(ctx), own)
	close(started)
	if err != nil {
		return err
	}
	m.recorder.Store(m.gateway)
	m.onStop(m.gateway.Stop)
	m.watchStorage()
	m.nowAndEvery(cursorsInterval, m.dropCursors)
	m.onStop(func() error { m.notices.Stop(); return nil })
	m.notices.Use(config.Definition)
	unwatch, err := m.bus.Watch(func(c server.Connection) {
		if shared := m.clients.update(c); shared != "" {
			m.gateway.Happened(bcp.Decision{Kind: bcp.KindAlert, Agent: c.Agent, Role: c.Role, Event: string(bcp.AlertShared), Key: c.UserKey, Note: shared}, nil)
		}
		if c.Connected {
			m.gateway.Connected(c.Agent, c.Role, c.UserKey, c.Host)
		} else {
			m.gateway.Disconnected(c.Agent, c.Role, c.UserKey, c.Host)
		}
	})
	if err != nil {
		return err
	}
	m.onStop(func() error { unwatch(); return nil })
	return nil
}

// clustered reports whether the streams are on a cluster, however many copies they have:
// a stream may be without a leader for a while.
func (m *Mesh) clustered() bool { return m.server == nil }

// newTopology returns the settings of the streams.
func newTopology(def *bcp.Mesh) jetstream.Topology {
	return jetstream.Topology{Replicas: def.Replicas, MaxDisk: def.MaxDisk}
}

// stateConfig returns the settings of the gateway's decisions.
func (m *Mesh) stateConfig(def *bcp.Mesh) state.Config { return newStateConfig(def, m.config.Version) }

func newStateConfig(def *bcp.Mesh, version string) state.Config {
	return state.Config{Mesh: def, Constraints: constraint.Compile, Verify: accounts.Verify, VerifyPasskey: accounts.VerifiesPasskey, Schedules: definition.ParseSchedule,
		Definitions: definition.Digest(def), Version: version}
}

// connect returns a connection of the gateway's, closed at Stop.
func (m *Mesh) connect() (*nats.Conn, error) {
	conn, err := m.bus.Gateway()
	if err != nil {
		return nil, err
	}
	m.onStop(func() error { conn.Close(); return nil })
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
	m.projector = jetstream.NewProjector(js, newTopology(m.config.Definition), &m.projecting, log)
	m.inBackground(m.projector.Run)
	return nil
}

// interrupt tells the gateway and the projector why their pending requests to the
// streams will get no reply.
func (m *Mesh) interrupt(reason string) {
	m.projecting.Interrupt(reason)
	m.interrupter.Interrupt(reason)
}

// expireInterval is how often expired raw messages are looked for.
const expireInterval = time.Hour

// expireRaw makes raw messages older than raw_retention unreadable, before anybody
// is served and every hour. On a cluster another gateway did so within the last
// hour, so nobody waits for it. Their keys are overwritten meanwhile.
func (m *Mesh) expireRaw(log hclog.Logger) {
	now := m.config.Now
	if now == nil {
		now = time.Now
	}
	keys := jetstream.NewSealingKeys(m.js)
	expire := func(ctx context.Context) {
		if err := keys.ExpireRaw(ctx, now(), m.Definition().RawRetention); err != nil && ctx.Err() == nil {
			log.Warn("expiring raw messages", "error", err)
		}
	}
	if !m.clustered() {
		expire(context.Background())
	}
	m.nowAndEvery(expireInterval, func(ctx context.Context) {
		expire(ctx)
		if n, err := keys.OverwriteExpired(ctx); err != nil && ctx.Err() == nil {
			log.Warn("overwriting the keys of raw messages", "error", err)
		} else if n > 0 {
			log.Info("raw messages expired", "keys", n)
		}
	})
}

// Stop ends the mesh in order: no more messages, the last record, the streams.
// It may be called several times; ctx bounds the wait of the first. After [ErrDisplaced] it leaves everything as it is: to
// tidy up would be to tidy the folder of somebody else. The process has to end then.
func (m *Mesh) Stop(ctx context.Context) error {
	if m.displaced.Load() {
		return ErrDisplaced
	}
	m.stopping.Do(func() {
		m.undoing.Lock()
		undo := m.undo
		m.stopBegun = true
		m.undoing.Unlock()
		if g := m.recorder.Load(); g != nil { // otherwise callers that wait to tell it something hold up what is stopped before it
			g.Hasten()
		}
		done := make(chan error, 1)
		go func() {
			var err error
			for i := len(undo) - 1; i >= 0; i-- {
				err = errors.Join(err, undo[i]())
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

// URL returns the URL for agents.
func (m *Mesh) URL() string { return m.bus.URL() }

// Definition returns the running definitions; they must not be changed.
func (m *Mesh) Definition() *bcp.Mesh { return m.definition.Load() }

// Inspect calls f with the gateway's state, between two steps. f must not keep
// it or take long.
func (m *Mesh) Inspect(ctx context.Context, f func(*state.State)) error {
	return m.gateway.Inspect(ctx, f)
}

// Connected returns the number of connected agents and people by role; one with
// several connections in a role counts once.
func (m *Mesh) Connected() map[bcp.Role]int { return m.clients.connected() }

// Connections returns the open connections of agents and people, by name and role.
func (m *Mesh) Connections() []status.ClientConnection { return m.clients.list() }

// Issue makes credentials for a client in this process, or one that it starts.
// role may be zero if the agent has exactly one; expires may be zero for never.
// The audit shows their connections, but not their issue.
func (m *Mesh) Issue(agent bcp.AgentName, role bcp.Role, expires time.Duration, options ...accounts.IssueOption) (accounts.Creds, error) {
	return m.store.Issue(agent, role, expires, append(options, accounts.ForItself)...)
}

// Projected waits until the audit shows the decision with this number.
func (m *Mesh) Projected(ctx context.Context, seq uint64) error {
	return jetstream.Projected(ctx, m.js, seq)
}

// Shown returns the number of the newest decision in audit and ledger, as far
// as this process knows: 0 before the first.
func (m *Mesh) Shown() uint64 { return m.projector.Shown() }

// Flush waits until everything that the gateway has sent to connected agents is
// on its way.
func (m *Mesh) Flush(ctx context.Context) error { return m.gateway.Flush(ctx) }

// Keys opens or creates the key store of a state folder, and compiles the permissions
// of a mesh into it. The mesh may be running or stopped. If the keys are sealed, an option
// says how to get their passphrase.
func Keys(state string, m *bcp.Mesh, options ...accounts.OpenOption) (*accounts.Store, accounts.Bundle, error) {
	store, err := accounts.Open(state, options...)
	if errors.Is(err, fs.ErrNotExist) {
		store, err = accounts.Create(state)
		if errors.Is(err, fs.ErrExist) { // another process created them meanwhile
			store, err = accounts.Open(state, options...)
		}
	}
	if err != nil {
		return nil, accounts.Bundle{}, err
	}
	bundle, err := compile(store, m)
	return store, bundle, err
}

// signAccounts signs accounts for definitions, which takes the most of a large reload, and
// returns what gives them to the server of this process.
func (m *Mesh) signAccounts(def *bcp.Mesh) (func(context.Context) error, error) {
	bundle, err := compile(m.store, def)
	return func(ctx context.Context) error { return m.server.UpdateAccounts(ctx, bundle) }, err
}

// updateAccounts updates the server of this process from definitions.
func (m *Mesh) updateAccounts(ctx context.Context, def *bcp.Mesh) error {
	update, err := m.signAccounts(def)
	if err != nil {
		return err
	}
	return update(ctx)
}

// compile returns what the server needs of the keys and of a mesh.
func compile(store *accounts.Store, m *bcp.Mesh) (accounts.Bundle, error) {
	return accounts.Compile(store, subjects.Permissions(m), time.Now())
}
