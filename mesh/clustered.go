package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// On a cluster there are several gateways. Only the holder of the lease serves; the others
// are on standby, and take over when the lease is given back or expires. The lease keeps them apart, and the
// journal keeps them exact: a write by a gateway that does not know the journal's end is
// refused, so that gateway stores nothing and releases nothing.

const (
	// leaseKept is how often a lease is renewed, and how often a lease of another
	// gateway is tried.
	leaseKept = jetstream.LeaseTime / 6
	// deferred is how long a standby leaves an available lease to its last holder: a
	// bucket without a leader lets all leases expire.
	deferred = 3 * leaseKept
	// keepAttempt bounds one attempt to keep the lease.
	keepAttempt = 2 * leaseKept
	// termPause is the pause after a term that could not begin. If only the leaders
	// of the streams were missing, it is leaseKept.
	termPause = 2 * time.Second
	// releaseTimeout bounds giving the lease back.
	releaseTimeout = 2 * time.Second
	// prepareTimeout is the timeout for a gateway's checks before it goes on
	// standby: a gateway that starts together with its cluster waits for leaders to be
	// elected.
	prepareTimeout = 30 * time.Second
)

// GatewayConfig is the configuration of a gateway on a cluster.
type GatewayConfig struct {
	// Config has what a gateway takes of it: Load, which is required and called at the
	// start, when this gateway takes over, and at a reload; State, the folder of snapshots,
	// a cache that only this gateway uses, which is required, too; Folder, Environ, Version,
	// Now, SnapshotEvery, Logger, and what begins with On. OnReload is also called when this
	// gateway takes over.
	Config
	// Cluster says where it is. Its URL, Creds and Name, which is unique among the mesh's
	// gateways, are required.
	Cluster server.ClusterConfig
}

// ErrStandby says that this gateway is not serving: another one is, or none.
var ErrStandby = errors.New("this gateway is on standby")

// Gateway is one of the gateways on a cluster: active, or on standby. Its methods may be
// used concurrently.
type Gateway struct {
	config  GatewayConfig
	log     hclog.Logger
	cluster *server.Cluster
	conn    *nats.Conn
	js      natsjs.JetStream
	lease   *jetstream.Lease

	def  atomic.Pointer[bcp.Mesh] // as last served, or loaded
	mesh atomic.Pointer[Mesh]     // nil while on standby

	lock   *flock.Flock
	cancel context.CancelFunc
	done   chan struct{}
	err    error // why it ended, once done is closed
}

// StartGateway connects to a cluster and, until Stop, serves or is on
// standby. If the cluster's permissions differ from those of the definitions,
// the error wraps [server.ErrClaims].
func StartGateway(ctx context.Context, config GatewayConfig) (*Gateway, error) {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Load == nil || config.Cluster.URL == "" || config.Cluster.Creds == "" || config.Cluster.Name == "" || config.State == "" {
		return nil, errors.New("start the gateway: it needs definitions, a cluster, creds, a name and a state folder")
	}
	g := &Gateway{config: config, log: config.Logger, done: make(chan struct{})}
	if err := g.prepare(ctx); err != nil {
		g.leave()
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.cancel = cancel
	go g.run(running)
	return g, nil
}

// prepare checks that this gateway could serve.
func (g *Gateway) prepare(ctx context.Context) error {
	def, err := g.config.Load()
	if err != nil {
		return err
	}
	if def.RequireWitness > 0 { // gateways have no key that signs
		return errWitnessOnCluster
	}
	if g.lock, err = server.Lock(g.config.State, server.GatewayLock); err != nil {
		return err
	}
	g.def.Store(def)
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	g.config.Cluster.Logger = g.log.Named("cluster")
	g.cluster, err = server.ConnectCluster(ctx, g.config.Cluster)
	if err != nil {
		return err
	}
	if err := g.check(ctx, def); err != nil {
		return err
	}
	if g.conn, err = g.cluster.Gateway(); err != nil {
		return err
	}
	if g.js, err = natsjs.New(g.conn); err != nil {
		return err
	}
	if err := awaitStreams(ctx, g.js); err != nil {
		return err
	}
	g.lease, err = jetstream.OpenLease(ctx, g.js, def.Replicas)
	return err
}

func (g *Gateway) leave() {
	if g.lock != nil {
		_ = g.lock.Close() // the end of the process gives it back
	}
	if g.conn != nil {
		g.conn.Close()
	}
	if g.cluster != nil {
		g.cluster.Close()
	}
}

// Stop stops this gateway: it gives its lease back, so that another takes over
// within [jetstream.LeaseTime]/6. It may be called several times; ctx bounds the wait of the first call.
func (g *Gateway) Stop(ctx context.Context) error {
	g.cancel()
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return fmt.Errorf("stop the gateway: %w", context.Cause(ctx))
	}
}

// Done is closed when this gateway has ended, by Stop or because the journal is
// damaged; [Gateway.Stop] then says why.
func (g *Gateway) Done() <-chan struct{} { return g.done }

// URL returns the URL for agents.
func (g *Gateway) URL() string { return g.config.Cluster.URL }

// check makes sure that the cluster enforces the permissions of the definitions.
func (g *Gateway) check(ctx context.Context, def *bcp.Mesh) error {
	return g.cluster.Check(ctx, subjects.Permissions(def))
}

// Inspect is [Mesh.Inspect] if this gateway serves; otherwise it returns [ErrStandby].
func (g *Gateway) Inspect(ctx context.Context, f func(*state.State)) error {
	if m := g.mesh.Load(); m != nil {
		return m.Inspect(ctx, f)
	}
	return ErrStandby
}

// Connected is [Mesh.Connected] if this gateway serves.
func (g *Gateway) Connected() map[bcp.Role]int {
	if m := g.mesh.Load(); m != nil {
		return m.Connected()
	}
	return nil
}

// Storage is [Mesh.Storage] if this gateway serves.
func (g *Gateway) Storage() status.Storage {
	if m := g.mesh.Load(); m != nil {
		return m.Storage()
	}
	return status.Storage{}
}
