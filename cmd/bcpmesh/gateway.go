package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/cluster"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

// clusterFlags say which cluster, and as which gateway.
type clusterFlags struct{ url, creds, ca string }

func (f *clusterFlags) addTo(cmd *cobra.Command, when string) {
	cmd.Flags().StringVar(&f.url, "url", "", when+"`URLS` of some servers of the cluster, with commas between them")
	cmd.Flags().StringVar(&f.creds, "creds", "", "`DIR` of a gateway's creds files, as accounts export writes it")
	cmd.Flags().StringVar(&f.ca, "ca", "", "trust the certificates of this PEM `FILE` alone")
	complete(cmd, "creds", completeFolders)
}

// config makes sure that the flags are there, and the files.
func (f *clusterFlags) config(command, name string) (cluster.Config, error) {
	if f.url == "" || f.creds == "" {
		return cluster.Config{}, usagef("%s: it needs --url and --creds", command).withHint("bcpmesh accounts export writes the creds; bcpmesh up runs a mesh without a cluster")
	}
	for _, name := range []string{cluster.CoreCreds(0), cluster.SystemCreds, cluster.OperatorFile} {
		file := filepath.Join(f.creds, name)
		if _, err := os.Stat(file); err != nil {
			return cluster.Config{}, failf("%s cannot be read: %s", quoted(file), reasonOf(err)).withHint("--creds names the folder that bcpmesh accounts export --gateway NAME writes")
		}
	}
	secure, err := trust{CA: f.ca}.options()
	return cluster.Config{URL: f.url, Creds: f.creds, Name: name, NATS: secure}, err
}

// failure says what to do where a cluster does not do what it should.
func (f *clusterFlags) failure(what string, err error) *failure {
	fail := failf("%s: %s", what, err)
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return failf("no server answers at %s", quoted(f.url)).withHint("is the cluster running? --url may name several, with commas between them")
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return failf("the cluster does not take the credentials in %s", quoted(f.creds)).
			withHint("it has to run with what bcpmesh accounts export wrote, and the gateway must not be revoked")
	case errors.Is(err, fs.ErrPermission):
		return fail.withHint("%s must be yours", f.creds)
	case errors.Is(err, jetstream.ErrUncertain), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fail.withHint("the cluster has no majority, or JetStream is not enabled: nats server report jetstream shows it")
	}
	return fail
}

// gatewayOptions are the flags of gateway.
type gatewayOptions struct {
	clusterFlags
	observed
	name             string
	state, readyFile string
	wait             durationFlag
	level            hclog.Level
}

func gatewayCommand(p *program) *cobra.Command {
	var o gatewayOptions
	level := &wordFlag{value: "info", words: []string{"debug", "info", "warn", "error"}}
	cmd := &cobra.Command{
		Use:   "gateway [DIR]",
		Short: "Run a gateway of the mesh of a folder on a NATS cluster",
		Long: `Run one of the gateways of the mesh that a folder declares, on an existing NATS
cluster in operator mode, until interrupted.

The cluster enforces what "bcpmesh accounts export" wrote for it and "bcpmesh
accounts push" sends. A gateway has no key that could change that: it logs in
with the creds files of its folder, and refuses to serve where the cluster enforces
anything else than the definitions say.

One gateway at a time serves a shard, and the others stand by; several gateways
share the shards of a mesh evenly. When one ends in order, another takes over at
once; when it is gone without a word, within seconds. All that they know is in the
streams of the cluster: --state is a folder of snapshots, for a short start, and
may be lost.

Give all gateways of a mesh the same definitions. After editing them:
"bcpmesh accounts push", then "bcpmesh reload".

With --metrics, Prometheus can scrape /metrics there, with a label shard where
there are several. /healthz is 200 at a gateway that serves a shard, and 503 at one
that stands by. Traces are as with up.`,
		Example: `  bcpmesh gateway --url nats://n1:4222,nats://n2:4222,nats://n3:4222 --creds gateways/one
  bcpmesh gateway ./office --url tls://n1.example.org:4222 --ca ca.pem --creds gateways/two --metrics 127.0.0.1:9464`,
		Args:              arguments(0, "DIR"),
		ValidArgsFunction: completeFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.level, o.measured = hclog.LevelFromString(level.value), cmd.Flags().Changed("metrics")
			return runGateway(cmd.Context(), p, args, o)
		},
	}
	o.clusterFlags.addTo(cmd, "")
	cmd.Flags().StringVar(&o.name, "name", "", "`NAME` of this gateway (default: that of the folder of --creds)")
	cmd.Flags().StringVar(&o.state, "state", "", "`DIR` of snapshots, of this gateway alone (default DIR/.bcpmesh/gateways/NAME)")
	cmd.Flags().StringVar(&o.readyFile, "ready-file", "", "write {url, state, pid, …} to `FILE` once it serves or stands by")
	o.observed.addTo(cmd)
	level.addTo(cmd, "log-level", "what to log on stderr")
	waitFlag(cmd, &o.wait, 30*time.Second, "how long to wait for the cluster")
	complete(cmd, "state", completeFolders)
	return cmd
}

// complete names the gateway, and its folder.
func (o *gatewayOptions) complete(folder meshFolder) error {
	if o.name == "" {
		o.name = filepath.Base(absolute(o.creds))
	}
	if _, err := bcp.ParseAgentName(o.name); err != nil {
		return usagef("gateway: %s is no name for one: %s", quoted(o.name), err).withHint("--name gives it one")
	}
	if o.state == "" {
		o.state = filepath.Join(folder.state, "gateways", o.name)
	}
	o.state = absolute(o.state)
	return nil
}

// checkShards makes sure that there are creds for each shard.
func (o *gatewayOptions) checkShards(shards int) error {
	for shard := 1; shard < shards; shard++ {
		file := filepath.Join(o.creds, cluster.CoreCreds(shard))
		if _, err := os.Stat(file); err != nil {
			return failf("%s cannot be read: %s", quoted(file), reasonOf(err)).
				withHint("the definitions have %d shards: bcpmesh accounts export --force --gateway %s writes creds for all of them", shards, o.name)
		}
	}
	return nil
}

func runGateway(ctx context.Context, p *program, args []string, o gatewayOptions) (err error) {
	folder, err := meshArgument(args)
	if err != nil {
		return err
	}
	access, err := o.config("gateway", o.name)
	if err == nil {
		err = o.complete(folder)
	}
	if err == nil {
		err = o.observed.check(p)
	}
	if err != nil {
		return err
	}
	def, err := folder.load()
	if err != nil {
		return err
	}
	if err := o.checkShards(def.Shards()); err != nil {
		return err
	}
	if err := prepareReady(o.readyFile); err != nil {
		return err
	}
	ignoreBrokenPipes()
	logger := newLogger(o.level, p.out.stderr)
	config := mesh.GatewayConfig{
		Load: func() (*bcp.Mesh, error) { return folder.loadAll() }, URL: o.url, Creds: o.creds, Name: o.name, NATS: access.NATS, State: o.state, Version: programVersion(), Logger: logger,
	}
	defer o.stop()
	looks, err := o.startShards(def, logger)
	if err != nil {
		return err
	}
	config.Observe = func(shard int) (func(*bcp.Decision), func(*bcp.Mesh)) {
		if shard >= len(looks) { // it came a moment ago
			return nil, nil
		}
		return looks[shard].decision, looks[shard].reload
	}
	if agents := withCommands(def); agents > 0 {
		p.out.talkf("a gateway on a cluster starts no commands: %s of the definitions start by themselves", count(agents, "agent"))
	}
	g, err := awaitCluster(ctx, p, config, o.wait.value)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended as it was asked to
		}
		return gatewayFailure(err, o)
	}
	about := ready{URL: o.url, State: o.state, PID: os.Getpid(), trust: trust{CA: o.ca}}
	defer func() {
		_ = os.Remove(o.readyFile)
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if stopErr := g.Stop(ctx); stopErr != nil {
			err = failf("the gateway did not end well: %s", errors.Join(err, stopErr))
		}
	}()
	var sources []telemetry.Source
	for _, seat := range g.Seats()[:min(len(looks), len(g.Seats()))] {
		sources = append(sources, seat)
	}
	if err := o.observed.serve(ctx, &about, sources...); err != nil {
		return err
	}
	if err := writeReady(o.readyFile, about); err != nil {
		return failf("%s cannot be written: %s", quoted(o.readyFile), reasonOf(err))
	}
	if p.out.json {
		if err := p.out.line(about); err != nil {
			return err
		}
	} else {
		size := count(len(def.Agents), "agent") + " and " + count(len(def.Channels), "channel")
		if n := def.Shards(); n > 1 {
			size += " on " + count(n, "shard")
		}
		p.out.talkf("gateway %s of %s with %s is at %s", o.name, meshName(def), size, o.url)
		if about.Metrics != "" {
			p.out.talkf("metrics at %s", about.Metrics)
		}
	}
	if err := p.out.stdout.Flush(); err != nil {
		return failf("the result cannot be written: %s", reasonOf(err))
	}
	select {
	case <-ctx.Done():
	case <-g.Done():
	}
	return nil
}

// awaitCluster starts a gateway as soon as the cluster answers.
func awaitCluster(ctx context.Context, p *program, config mesh.GatewayConfig, wait time.Duration) (*mesh.Gateway, error) {
	told := false
	for deadline := time.Now().Add(wait); ; {
		g, err := mesh.StartGateway(ctx, config)
		away := slices.ContainsFunc([]error{nats.ErrNoServers, nats.ErrTimeout, context.DeadlineExceeded, natsjs.ErrNoStreamResponse, natsjs.ErrJetStreamNotEnabled, natsjs.ErrJetStreamNotEnabledForAccount},
			func(e error) bool { return errors.Is(err, e) })
		if err == nil || !away || time.Now().After(deadline) {
			return g, err
		}
		if !told {
			p.out.talkf("waiting for the cluster at %s", config.URL)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(clusterPause):
		}
	}
}

// clusterPause is between two attempts to reach a cluster.
const clusterPause = 500 * time.Millisecond

// withCommands counts the agents that a mesh of one process would start.
func withCommands(def *bcp.Mesh) int {
	n := 0
	for _, a := range def.Agents {
		if len(a.Command) > 0 {
			n++
		}
	}
	return n
}

// gatewayFailure says what to do about what commonly keeps a gateway from starting.
func gatewayFailure(err error, o gatewayOptions) error {
	switch {
	case errors.Is(err, cluster.ErrClaims):
		return failf("the gateway does not start: %s", err).withHint("bcpmesh accounts push sends the cluster what the definitions need")
	case errors.Is(err, server.ErrInUse):
		return failf("a gateway runs on %s already", quoted(o.state)).withHint("each has its own: --state, or --name")
	}
	return o.failure("the gateway does not start", err)
}
