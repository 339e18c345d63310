package mesh

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

// run serves a term whenever it gets the lease, until ctx ends or no gateway can
// serve the journal.
func (g *Gateway) run(ctx context.Context) {
	defer close(g.done)
	defer g.leave()
	g.err = g.terms(ctx)
}

func (g *Gateway) terms(ctx context.Context) error {
	for ctx.Err() == nil {
		holder, ok := g.await(ctx)
		if !ok {
			break
		}
		err := g.term(ctx, holder)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if isPermanent(err) {
			g.log.Error("no gateway can serve this journal", "error", err)
			return err
		}
		g.log.Error("the term ended", "error", err)
		pause := termPause // another may do better
		if jetstream.Unanswered(err) {
			pause = leaseKept
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
func (g *Gateway) await(ctx context.Context) (jetstream.LeaseHolder, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(leaseKept)
	defer ticker.Stop()
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { g.follow(ctx) })
	told := false
	var blind time.Time // since when the holder is unknown
	var holder jetstream.LeaseHolder
	for {
		try, end := context.WithTimeout(ctx, leaseKept)
		var err error
		if blind.IsZero() || time.Since(blind) >= jetstream.LeaseTime { // no try of it counts any more
			holder = jetstream.LeaseHolder{Gateway: g.config.Cluster.Name, Since: time.Now().UTC().Round(0)}
		}
		if time.Since(blind) < deferred {
			var known jetstream.LeaseHolder
			if known, err = g.lease.Holder(try); err == nil {
				err = jetstream.ErrLeaseLost
			}
			if known == holder { // it was given to us, and the answer was lost
				err = g.lease.Take(try, holder)
			}
		} else {
			err = g.lease.Take(try, holder)
		}
		end()
		if err == nil {
			return holder, true
		}
		if !errors.Is(err, jetstream.ErrLeaseLost) && ctx.Err() == nil {
			if blind = time.Now(); !told {
				g.log.Warn("looking for the lease", "error", err)
				told = true
			}
		}
		select {
		case <-ctx.Done():
			return holder, false
		case <-ticker.C:
		}
	}
}

// followPause keeps a gateway that takes over at once from reading the journal twice.
const followPause = 2 * leaseKept

// follow keeps the snapshots of a standby close to the journal.
func (g *Gateway) follow(ctx context.Context) {
	if !sleep(ctx, followPause) {
		return
	}
	def, err := g.config.Load()
	if err != nil {
		def = g.def.Load() // the edit of the definitions is not finished
	}
	config := g.config
	gateway.Follow(ctx, gateway.Config{
		State: newStateConfig(def, config.Version), Connect: func() (*nats.Conn, error) { return g.cluster.Gateway() },
		Snapshots: openSnapshots(config.State), SnapshotEvery: config.SnapshotEvery, Bases: openBases(config.State).Shared(g.js), Logger: g.log.Named("follower"),
	})
}

// term serves for as long as the lease is kept. An error says why the term ended
// before ctx did.
func (g *Gateway) term(ctx context.Context, holder jetstream.LeaseHolder) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := g.keepLease(ctx, holder); err != nil {
			cancel(err)
		}
	})
	defer func() {
		cancel(nil)
		keeping.Wait()
		release, end := context.WithTimeout(context.Background(), releaseTimeout)
		defer end()
		if failed := g.lease.Release(release); failed != nil {
			g.log.Info("the lease is not given back", "error", failed)
		}
	}()
	m, err := g.serve(ctx)
	if err != nil {
		cause := context.Cause(ctx)
		return errors.Join(cause, err, m.Stop(context.Background()))
	}
	g.mesh.Store(m)
	g.log.Info("term", "active", true)
	select {
	case <-ctx.Done():
	case <-m.Done():
	}
	g.mesh.Store(nil)
	g.def.Store(m.Definition())
	if cause := context.Cause(ctx); cause != nil {
		m.gateway.Unwritten(cause.Error()) // it is not waited for
	}
	err = m.Stop(context.Background())
	g.log.Info("term", "active", false)
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	if err == nil && ctx.Err() == nil {
		err = errGatewayEnded
	}
	return err
}

// keepLease renews the lease until ctx ends or another gateway has it. If the holder is
// unknown because the bucket has no leader, the term goes on: nobody else can take the
// lease then, and whoever takes it later wins by writing to the journal.
func (g *Gateway) keepLease(ctx context.Context, holder jetstream.LeaseHolder) error {
	for sleep(ctx, leaseKept) {
		try, cancel := context.WithTimeout(ctx, keepAttempt)
		err := g.lease.Keep(try)
		if errors.Is(err, jetstream.ErrLeaseLost) {
			err = g.lease.Take(try, holder)
		}
		cancel()
		if errors.Is(err, jetstream.ErrLeaseLost) {
			return err
		}
	}
	return nil
}

// recordChanges records the operator's changes of the key store.
func (m *Mesh) recordChanges(ctx context.Context, body []byte) (any, error) {
	changes, code := bcp.ParseCredentialRecords(body)
	if code != "" {
		return nil, errors.New(code.Info().Text)
	}
	if len(changes) == 0 { // the caller wants to see who is connected
		return status.Applied{Connections: m.Connections()}, nil
	}
	if err := m.record(ctx, changes); err != nil {
		return nil, err
	}
	return status.Applied{Recorded: len(changes)}, nil
}

// serve begins a term, under the definitions as they are now.
func (g *Gateway) serve(ctx context.Context) (*Mesh, error) {
	config := g.config.Config
	m := &Mesh{config: config, bus: g.cluster, prepareAccounts: func(def *bcp.Mesh) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return g.check(ctx, def) }, nil
	}, disk: func() (free, size int64, err error) {
		store := g.cluster.Fullest()
		return store.Limit - min(store.Limit, store.Used), store.Limit, nil
	}}
	def, err := config.Load()
	if err != nil {
		return m, err
	}
	if err := g.check(ctx, def); err != nil {
		return m, err
	}
	m.config.Definition = def
	m.definition.Store(def)
	if config.OnReload != nil {
		config.OnReload(def)
	}
	return m, m.serve(ctx, gateway.Config{Acts: map[string]gateway.Act{bcp.ControlCredentials: m.recordChanges}, ConnectTool: g.cluster.Dispatcher})
}
