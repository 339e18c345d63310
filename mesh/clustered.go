package mesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/home"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// On a cluster there are several gateways. Each has a shard server for each shard of the
// mesh. At a shard only the holder of its lease serves; the others are on standby, and
// take over when the lease is given back or expires. The lease keeps them apart, and the
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
	// movedPause is the pause after a term that could not begin because of the
	// definitions: it took reading a whole journal, and only an edit of the definitions
	// changes the result.
	movedPause = 30 * time.Second
	// releaseTimeout bounds giving the lease back.
	releaseTimeout = 2 * time.Second
	// prepareTimeout is the timeout for a gateway's checks of a shard before it goes on
	// standby: a gateway that starts together with its cluster waits for leaders to be
	// elected.
	prepareTimeout = 30 * time.Second
)

// GatewayConfig is the configuration of a gateway on a cluster.
type GatewayConfig struct {
	// Load loads the definitions of all shards: at the start, when this gateway takes
	// over, and at a reload. The number of shards is fixed at the start. Load is
	// required.
	Load func() (*bcp.Mesh, error)
	// URL is the URLs of some servers of the cluster, separated by commas. Creds is
	// the folder of the gateway's creds files, and Name its name, unique among the
	// mesh's gateways. They are required.
	URL, Creds, Name string
	// NATS are further options of each connection, for example for TLS.
	NATS []nats.Option
	// State is the folder of snapshots: a cache, used only by this gateway. It
	// is required, and created if it does not exist.
	State string
	// Folder and Environ are where notification routes look for secrets and commands:
	// the folder of the definitions, and the environment of this program.
	Folder  string
	Environ []string
	// OnNotified is as in [Config], with the number of the shard.
	OnNotified func(shard int, route string, err error)
	// Version, Now, SnapshotEvery and Logger are as in [Config].
	Version       string
	Now           func() time.Time
	SnapshotEvery uint64
	Logger        hclog.Logger
	// Observe, if set, is called once for each shard, before the first decision on it.
	// It returns functions as in [Config]; OnReload is also called when this gateway
	// takes over. Either may be nil.
	Observe func(shard int) (onDecision func(*bcp.Decision), onReload func(*bcp.Mesh))
}

// ErrStandby says that this gateway is not serving: another one is, or none.
var ErrStandby = errors.New("this gateway is on standby")

// Gateway is one of the gateways on a cluster. Its methods may be used concurrently.
type Gateway struct {
	config       GatewayConfig
	log          hclog.Logger
	shardServers []*ShardServer // by shard
	coordinator  *coordinator   // nil if there is only one shard
	lock         *flock.Flock
	cancel       context.CancelFunc
	done         chan struct{}
	err          error // why it ended, once done is closed

	stopping sync.Once
}

// StartGateway connects to a cluster and, until Stop, serves each shard or is on
// standby for it. If the cluster's permissions differ from those of the definitions,
// the error wraps [cluster.ErrClaims].
func StartGateway(ctx context.Context, config GatewayConfig) (*Gateway, error) {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Load == nil || config.URL == "" || config.Creds == "" || config.Name == "" || config.State == "" {
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
	if err := g.lockState(); err != nil {
		return err
	}
	for shard := range def.Shards() {
		shardServer := &ShardServer{gateway: g, shard: shard, log: g.log, state: g.config.State}
		if def.Shards() > 1 {
			shardServer.log = g.log.With("shard", shard)
		}
		if shard > 0 {
			shardServer.state = filepath.Join(g.config.State, "shards", strconv.Itoa(shard))
		}
		g.shardServers = append(g.shardServers, shardServer)
		if err := shardServer.prepare(ctx, def); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	// The leases of all shards are with the first.
	bucket, err := jetstream.OpenLeases(ctx, g.shardServers[0].js, def.Replicas)
	if err != nil {
		return err
	}
	for _, shardServer := range g.shardServers {
		shardServer.lease = jetstream.NewLease(g.shardServers[0].js, bucket, shardServer.shard)
		if g.config.Observe != nil {
			shardServer.onDecision, shardServer.onReload = g.config.Observe(shardServer.shard)
		}
	}
	if len(g.shardServers) > 1 {
		g.coordinator = newCoordinator(bucket, g.config.Name, len(g.shardServers), g.log.Named("fleet"))
	}
	return nil
}

func (g *Gateway) lockState() error {
	if err := os.MkdirAll(g.config.State, 0o700); err != nil {
		return err
	}
	g.lock = flock.New(filepath.Join(g.config.State, home.GatewayLock), flock.SetPermissions(0o600))
	locked, err := g.lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("%w: %s", server.ErrInUse, g.config.State)
	}
	return err
}

// run runs all shard servers until ctx ends or none is left: a shard server ends by
// itself if no gateway can serve its journal.
func (g *Gateway) run(ctx context.Context) {
	defer close(g.done)
	defer g.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, len(g.shardServers))
	for i, shardServer := range g.shardServers {
		all.Go(func() { errs[i] = shardServer.run(ctx) })
	}
	sharing := make(chan struct{})
	go func() {
		defer close(sharing)
		g.coordinator.run(ctx, func(shard int) { g.shardServers[shard].give() })
	}()
	all.Wait()
	cancel()
	<-sharing
	g.err = errors.Join(errs...)
}

func (g *Gateway) leave() {
	if g.lock != nil {
		_ = g.lock.Close() // the end of the process gives it back
	}
	for _, shardServer := range g.shardServers {
		shardServer.leave()
	}
}

// Stop stops this gateway: it gives its leases back, so that others take over at
// once. It may be called several times; ctx bounds the wait of the first call.
func (g *Gateway) Stop(ctx context.Context) error {
	g.stopping.Do(g.cancel)
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return fmt.Errorf("stop the gateway: %w", context.Cause(ctx))
	}
}

// Done is closed when this gateway has ended, by Stop or because the journals of all
// shards are damaged; [Gateway.Stop] then says why.
func (g *Gateway) Done() <-chan struct{} { return g.done }

// URL returns the URL for agents.
func (g *Gateway) URL() string { return g.config.URL }

// ShardServers returns this gateway's shard servers, by shard.
func (g *Gateway) ShardServers() []*ShardServer { return g.shardServers }
