package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/cluster"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ShardServer is one gateway's server of one shard: active, or standby. Its
// methods may be used concurrently.
type ShardServer struct {
	gateway *Gateway
	shard   int
	log     hclog.Logger
	state   string // folder
	cluster *cluster.Cluster
	conn    *nats.Conn
	js      natsjs.JetStream
	lease   *jetstream.Lease

	onDecision func(*bcp.Decision)
	onReload   func(*bcp.Mesh)

	whole atomic.Pointer[bcp.Mesh] // the definitions of all shards, as last loaded
	def   atomic.Pointer[bcp.Mesh] // those of this one, as last served
	mesh  atomic.Pointer[Mesh]     // nil while on standby

	mu      sync.Mutex
	endTerm context.CancelCauseFunc // ends the term; nil while on standby
}

// prepare checks that this gateway could serve the shard.
func (s *ShardServer) prepare(ctx context.Context, def *bcp.Mesh) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	s.whole.Store(def)
	s.def.Store(def.OfShard(s.shard))
	config := s.gateway.config
	var err error
	s.cluster, err = cluster.Connect(ctx, cluster.Config{URL: config.URL, Creds: config.Creds, NATS: config.NATS, Name: config.Name, Shard: s.shard, Logger: s.log.Named("cluster")})
	if err != nil {
		return err
	}
	if err := s.cluster.Check(ctx, subjects.Permissions(def)); err != nil {
		return err
	}
	if s.conn, err = s.cluster.Gateway(); err != nil {
		return err
	}
	if s.js, err = natsjs.New(s.conn); err != nil {
		return err
	}
	return awaitStreams(ctx, s.js)
}

func (s *ShardServer) leave() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
}

// load loads the definitions of the shard.
func (s *ShardServer) load() (*bcp.Mesh, error) {
	def, err := s.gateway.config.Load()
	if err != nil {
		return nil, err
	}
	s.whole.Store(def)
	return def.OfShard(s.shard), nil
}

// notes says that a gateway keeps the number of shards that it started with.
func (s *ShardServer) notes() []string {
	if s.whole.Load().Shards() == len(s.gateway.shardServers) {
		return nil
	}
	return []string{fmt.Sprintf("there are %d shards, and this gateway has seats at %d: they hold from the next start on", s.whole.Load().Shards(), len(s.gateway.shardServers))}
}

// check makes sure that the cluster enforces the permissions of all shards in the
// definitions, as last loaded.
func (s *ShardServer) check(ctx context.Context, _ *bcp.Mesh) error {
	return s.cluster.Check(ctx, subjects.Permissions(s.whole.Load()))
}

// give ends the term in order, if this gateway serves.
func (s *ShardServer) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endTerm != nil {
		s.endTerm(errGiven)
	}
}

func (s *ShardServer) setGiving(cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endTerm = cancel
}

// errGiven says that a term ended so that another gateway can serve.
var errGiven = errors.New("another gateway takes over this shard")

// Shard is the number of the shard.
func (s *ShardServer) Shard() int { return s.shard }

// Active reports whether this gateway serves the shard.
func (s *ShardServer) Active() bool { return s.mesh.Load() != nil }

// Definition returns what this gateway serves or would serve of the shard; it must
// not be changed.
func (s *ShardServer) Definition() *bcp.Mesh {
	if m := s.mesh.Load(); m != nil {
		return m.Definition()
	}
	return s.def.Load()
}

// Inspect is [Mesh.Inspect] if this gateway serves; otherwise it returns [ErrStandby].
func (s *ShardServer) Inspect(ctx context.Context, f func(*state.State)) error {
	if m := s.mesh.Load(); m != nil {
		return m.Inspect(ctx, f)
	}
	return ErrStandby
}

// Connected is [Mesh.Connected] if this gateway serves.
func (s *ShardServer) Connected() map[bcp.Role]int {
	if m := s.mesh.Load(); m != nil {
		return m.Connected()
	}
	return nil
}

// Storage is [Mesh.Storage] if this gateway serves.
func (s *ShardServer) Storage() status.Storage {
	if m := s.mesh.Load(); m != nil {
		return m.Storage()
	}
	return status.Storage{}
}

// Shown is [Mesh.Shown] if this gateway serves.
func (s *ShardServer) Shown() uint64 {
	if m := s.mesh.Load(); m != nil {
		return m.Shown()
	}
	return 0
}

// run serves a term whenever it gets the lease, until ctx ends or no gateway can
// serve the journal.
func (s *ShardServer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		holder, ok := s.await(ctx)
		if !ok {
			break
		}
		err := s.term(ctx, holder)
		s.gateway.coordinator.shardLost(s.shard, err)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if isPermanent(err) {
			s.log.Error("no gateway can serve this journal", "error", err)
			return err
		}
		s.log.Error("the term ended", "error", err)
		pause := termPause // another may do better
		switch {
		case jetstream.Unanswered(err):
			pause = leaseKept
		case errors.Is(err, bcp.ErrMoved):
			pause = movedPause
		}
		sleep(ctx, pause)
	}
	return nil
}

// isPermanent reports whether an error is the same for every gateway, at least of this
// version.
func isPermanent(err error) bool {
	return slices.ContainsFunc([]error{jetstream.ErrRecord, jetstream.ErrLost, jetstream.ErrKeyLost, jetstream.ErrBase, state.ErrReplay, gateway.ErrPanic},
		func(e error) bool { return errors.Is(err, e) })
}

// await is on standby until this gateway has the lease. It returns false when ctx ends.
func (s *ShardServer) await(ctx context.Context) (jetstream.LeaseHolder, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(leaseKept)
	defer ticker.Stop()
	freed, stop, err := s.lease.Freed()
	if err != nil {
		s.log.Warn("a lease that is given back is not heard of", "error", err)
	} else {
		defer func() { _ = stop() }() // the connection may be gone
	}
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { s.follow(ctx) })
	told := false
	var blind time.Time // since when the holder is unknown
	var holder jetstream.LeaseHolder
	for {
		try, end := context.WithTimeout(ctx, leaseKept)
		var err error
		if blind.IsZero() || time.Since(blind) >= jetstream.LeaseTime { // no try of it counts any more
			holder = jetstream.LeaseHolder{Gateway: s.gateway.config.Name, Since: time.Now().UTC().Round(0)}
		}
		switch {
		case time.Since(blind) < deferred:
			var known jetstream.LeaseHolder
			if known, err = s.lease.Holder(try); err == nil {
				err = jetstream.ErrLeaseLost
			}
			if known == holder { // it was given to us, and the answer was lost
				err = s.lease.Take(try, holder)
			}
		case !s.gateway.coordinator.takes(s.shard, time.Now()):
			err = jetstream.ErrLeaseLost
		default:
			if err = s.lease.Take(try, holder); err != nil {
				s.gateway.coordinator.shardLost(s.shard, nil)
			}
		}
		end()
		if err == nil {
			return holder, true
		}
		if !errors.Is(err, jetstream.ErrLeaseLost) && ctx.Err() == nil {
			if blind = time.Now(); !told {
				s.log.Warn("looking for the lease", "error", err)
				told = true
			}
		}
		select {
		case <-ctx.Done():
			return holder, false
		case <-freed:
			blind = time.Time{}
			s.gateway.coordinator.freed(s.shard)
		case <-ticker.C:
		}
	}
}

// followPause keeps a gateway that takes over at once from reading the journal twice.
const followPause = 2 * leaseKept

// follow keeps the snapshots of a standby close to the journal.
func (s *ShardServer) follow(ctx context.Context) {
	if !sleep(ctx, followPause) {
		return
	}
	def, err := s.load()
	if err != nil {
		def = s.def.Load() // the edit of the definitions is not finished
	}
	config := s.gateway.config
	gateway.Follow(ctx, gateway.Config{
		State: newStateConfig(def, config.Version), Connect: func() (*nats.Conn, error) { return s.cluster.Gateway() },
		Snapshots: openSnapshots(s.state), SnapshotEvery: config.SnapshotEvery, Bases: openBases(s.state).Shared(s.js), Logger: s.log.Named("follower"),
	})
}

// term serves for as long as the lease is kept. An error says why the term ended
// before ctx did.
func (s *ShardServer) term(ctx context.Context, holder jetstream.LeaseHolder) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.setGiving(cancel)
	defer s.setGiving(nil)
	keeping := make(chan struct{})
	go func() {
		defer close(keeping)
		if err := s.keepLease(ctx, holder); err != nil {
			cancel(err)
		}
	}()
	defer func() {
		cancel(nil)
		<-keeping
		release, end := context.WithTimeout(context.Background(), releaseTimeout)
		defer end()
		if failed := s.lease.Release(release); failed != nil {
			s.log.Info("the lease is not given back", "error", failed)
		}
	}()
	m, err := s.serve(ctx)
	if err != nil {
		cause := context.Cause(ctx)
		return notBegun(cause, errors.Join(err, m.Stop(context.Background())))
	}
	s.gateway.coordinator.serves()
	s.mesh.Store(m)
	s.log.Info("term", "active", true)
	select {
	case <-ctx.Done():
	case <-m.Done():
	}
	s.mesh.Store(nil)
	s.def.Store(m.Definition())
	if cause := context.Cause(ctx); cause != nil {
		m.gateway.Unwritten(cause.Error()) // it is not waited for
	}
	err = m.Stop(context.Background())
	s.log.Info("term", "active", false)
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, errGiven) {
		err = errors.Join(cause, err)
	}
	if err == nil && ctx.Err() == nil {
		err = errGatewayEnded
	}
	return err
}

// notBegun returns why a term did not begin, from the cause of its context's end and
// its error: nil if it was given back, so that the gateway does not count as unable to
// serve.
func notBegun(cause, err error) error {
	if errors.Is(cause, errGiven) {
		return nil
	}
	return errors.Join(cause, err)
}

// keepLease renews the lease until ctx ends or another gateway has it. If the holder is
// unknown because the bucket has no leader, the term goes on: nobody else can take the
// lease then, and whoever takes it later wins by writing to the journal.
func (s *ShardServer) keepLease(ctx context.Context, holder jetstream.LeaseHolder) error {
	for sleep(ctx, leaseKept) {
		try, cancel := context.WithTimeout(ctx, keepAttempt)
		err := s.lease.Keep(try)
		if errors.Is(err, jetstream.ErrLeaseLost) {
			err = s.lease.Take(try, holder)
		}
		cancel()
		if errors.Is(err, jetstream.ErrLeaseLost) {
			return err
		}
	}
	return nil
}

// recordChanges records the operator's changes of the key store.
func (m *Mesh) recordChanges(ctx context.Context, body []byte) (gateway.Applied, error) {
	changes, code := bcp.ParseCredentialRecords(body)
	if code != "" {
		return gateway.Applied{}, errors.New(code.Info().Text)
	}
	if len(changes) == 0 { // the caller wants to see who is connected
		return gateway.Applied{Connections: m.Connections()}, nil
	}
	if err := m.record(ctx, changes); err != nil {
		return gateway.Applied{}, err
	}
	return gateway.Applied{Recorded: len(changes)}, nil
}

// serve begins a term, under the definitions as they are now.
func (s *ShardServer) serve(ctx context.Context) (*Mesh, error) {
	config := s.gateway.config
	m := &Mesh{config: Config{
		Load: s.load, State: s.state, Version: config.Version, Now: config.Now, SnapshotEvery: config.SnapshotEvery,
		Logger: s.log, OnDecision: s.onDecision, OnReload: s.onReload, Folder: config.Folder, Environ: config.Environ,
	}, bus: s.cluster, switchAccounts: s.check, notes: s.notes, disk: func() (free, size int64, err error) {
		store := s.cluster.Fullest()
		return store.Limit - min(store.Limit, store.Used), store.Limit, nil
	}}
	if config.OnNotified != nil {
		m.config.OnNotified = func(route string, err error) { config.OnNotified(s.shard, route, err) }
	}
	def, err := s.load()
	if err != nil {
		return m, err
	}
	if err := s.check(ctx, def); err != nil {
		return m, err
	}
	m.config.Definition = def
	m.definition.Store(def)
	if s.onReload != nil {
		s.onReload(def)
	}
	return m, m.serve(ctx, nil, gateway.Config{Credentials: m.recordChanges, ConnectTool: s.cluster.Dispatcher})
}
