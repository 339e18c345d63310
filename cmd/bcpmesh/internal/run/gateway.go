package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Gateway runs a gateway on a cluster.
type Gateway struct {
	client.ClusterFlags
	observed
	State string           `how:"given"`
	Wait  cli.DurationFlag `default:"30s"`
	name  string
}

// Adjust says what is logged.
func (o *Gateway) Adjust(*cobra.Command) { o.LogLevel.Value = "info" }

// complete names the gateway, and its folder.
func (o *Gateway) complete(folder meshdir.Folder) error {
	o.name = filepath.Base(cli.Absolute(o.Creds))
	if _, err := bcp.ParseAgentName(o.name); err != nil {
		return cli.Usagef("gateway: %s is not a valid name: %s", cli.Quoted(o.name), err).WithHint("the folder of --creds is named as the gateway")
	}
	if o.State == "" {
		o.State = server.GatewayOf(folder.State, o.name)
	}
	o.State = cli.Absolute(o.State)
	return nil
}

// Run runs a gateway on a cluster.
func (o *Gateway) Run(ctx context.Context, p *cli.Program, args []string) (err error) {
	folder, err := meshdir.Argument(args)
	if err != nil {
		return err
	}
	access, err := o.Config("gateway", o.name)
	if err == nil {
		err = o.complete(folder)
	}
	if err == nil {
		err = o.observed.check()
	}
	if err != nil {
		return err
	}
	def, err := folder.Load()
	if err != nil {
		return err
	}
	if err := meshdir.PrepareReady(o.ReadyFile); err != nil {
		return err
	}
	cli.IgnoreBrokenPipes()
	logger := cli.NewLogger(o.level, p.Out.Stderr)
	access.Name = o.name
	config := mesh.GatewayConfig{Cluster: access, Config: mesh.Config{
		Load: func() (*bcp.Mesh, error) { return folder.LoadAll(definition.Site{}) }, State: o.State, Version: cli.ProgramVersion(), Logger: logger,
		Folder: cli.Absolute(folder.Dir), Environ: os.Environ(),
	}}
	defer o.stop()
	if err := o.start(def, &config.Config); err != nil {
		return err
	}
	if agents := withCommands(def); agents > 0 {
		p.Out.Talkf("a gateway on a cluster starts no commands: %s of the definitions start by themselves", cli.Count(agents, "command"))
	}
	g, err := awaitCluster(ctx, p, config, o.Wait.Value)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended as it was asked to
		}
		return gatewayFailure(err, o)
	}
	about := meshdir.Ready{URL: o.URL, State: o.State, PID: os.Getpid(), Trust: meshdir.Trust{CA: o.CA}}
	defer func() {
		_ = os.Remove(o.ReadyFile)
		ctx, cancel := context.WithTimeout(context.Background(), cli.StopTimeout)
		defer cancel()
		if stopErr := g.Stop(ctx); stopErr != nil {
			f := cli.Failf("the gateway did not stop cleanly: %s", errors.Join(err, stopErr))
			if err = f; errors.Is(stopErr, jetstream.ErrRecord) || errors.Is(stopErr, jetstream.ErrLost) {
				err = f.WithHint(damagedHint)
			}
		}
	}()
	if err := o.announce(ctx, p, about, g, []string{o.ReadyFile}, func() {
		size := cli.Count(len(def.Agents), "agent") + " and " + cli.Count(len(def.Channels), "channel")
		p.Out.Talkf("gateway %s of %s with %s is at %s", o.name, meshdir.MeshName(def), size, o.URL)
	}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-g.Done():
	}
	return nil
}

// awaitCluster starts a gateway as soon as the cluster answers.
func awaitCluster(ctx context.Context, p *cli.Program, config mesh.GatewayConfig, wait time.Duration) (*mesh.Gateway, error) {
	tell := sync.OnceFunc(func() { p.Out.Talkf("waiting for the cluster at %s", config.Cluster.URL) })
	for deadline := time.Now().Add(wait); ; {
		g, err := mesh.StartGateway(ctx, config)
		away := slices.ContainsFunc([]error{nats.ErrNoServers, nats.ErrTimeout, context.DeadlineExceeded, natsjs.ErrNoStreamResponse, natsjs.ErrJetStreamNotEnabled, natsjs.ErrJetStreamNotEnabledForAccount},
			func(e error) bool { return errors.Is(err, e) })
		if err == nil || !away || time.Now().After(deadline) {
			return g, err
		}
		tell()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(client.ClusterPause):
		}
	}
}

// withCommands counts what a mesh of one process would start.
func withCommands(def *bcp.Mesh) int {
	n := 0
	for _, a := range def.Agents {
		if a.Supervised() {
			n++
		}
	}
	return n + len(def.Services)
}

// damagedHint is for a journal that one node of a cluster may have otherwise than the others.
const damagedHint = "if one node's copy is damaged: end the node that leads " + jetstream.CommitStream + ", give it an empty store and start it, so that it gets all from the others; then start the gateways again. If all copies are: bcpmesh restore (docs/production.md)"

// gatewayFaults are what commonly keeps a gateway from starting.
var gatewayFaults = cli.Faults{
	{Of: server.ErrClaims, Says: gatewayRests, Hint: "bcpmesh accounts push sends the cluster what the definitions need"},
	{Of: server.ErrCreds, Says: gatewayRests, Hint: "bcpmesh accounts export --gateway {path} writes them into another folder; its other logins stay the same"},
	{Of: jetstream.ErrRecord, Says: gatewayRests, Hint: damagedHint},
	{Of: jetstream.ErrLost, Says: gatewayRests, Hint: damagedHint},
}

const gatewayRests = "the gateway does not start: {why}"

func gatewayFailure(err error, o *Gateway) error {
	if errors.Is(err, server.ErrInUse) {
		return cli.Failf("a gateway runs on %s already", cli.Quoted(o.State)).WithHint("give each its own with --state")
	}
	if known := gatewayFaults.Failure(err, o.name); known != nil {
		return known
	}
	return o.Failure("the gateway does not start", err)
}
