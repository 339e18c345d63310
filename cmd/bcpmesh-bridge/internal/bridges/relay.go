package bridges

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/relay"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// relayEnd is one of the two agents of a relay.
type relayEnd struct{ creds, url, ca string }

func (e *relayEnd) addTo(cmd *cobra.Command, name, role string) {
	cmd.Flags().StringVar(&e.creds, name, "", "creds `FILE` of the "+role+" "+name)
	cmd.Flags().StringVar(&e.url, name+"-url", "", "`URL` of the mesh "+name+" (default: that of the creds file's folder)")
	cmd.Flags().StringVar(&e.ca, name+"-ca", "", "with --"+name+"-url: trust only the certificates in this PEM `FILE`")
	cli.Complete(cmd, name, cobra.FixedCompletions([]string{"creds"}, cobra.ShellCompDirectiveFilterFileExt))
}

// connect connects as an agent of a role, also to a mesh that is not there yet.
func (e *relayEnd) connect(ctx context.Context, p *cli.Program, name string, role bcp.Role, log hclog.Logger) (*agents.Connection, error) {
	if e.creds == "" {
		return nil, cli.Usagef("relay: expected --%s FILE", name).WithHint("bcpmesh creds issue AGENT --role %s --out FILE makes one", role)
	}
	who, err := meshdir.ReadCreds(e.creds)
	if err != nil {
		return nil, err
	}
	if who.Role != role {
		return nil, cli.Failf("%s belongs to %s, %s: --%s is for a %s", cli.Quoted(e.creds), who.Agent, who.Role, name, role)
	}
	url, o, err := (&client.Flags{URL: e.url, CA: e.ca, Creds: e.creds}).At()
	if err != nil {
		return nil, err
	}
	o.Name, o.Logger = who.Agent, log.Named(name)
	o.NATS = append(o.NATS, nats.Name("bcpmesh relay "+string(who.Agent)), nats.RetryOnFailedConnect(true))
	return agents.Connect(ctx, url, agents.CredsFile(e.creds), o)
}

// RelayCommand returns the command relay.
func RelayCommand(p *cli.Program) *cobra.Command {
	var below, above, report relayEnd
	var routes []string
	var store string
	inDoubt := cli.WordFlag{Words: []string{string(relay.Repeat), string(relay.Skip)}}
	cmd := &cobra.Command{
		Use: "relay",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(routes) == 0:
				return cli.Usagef("relay: expected --map READER/SUBSCRIPTION=CONTROLLER/SUBSCRIPTION").WithHint("for example --map sensor/readings=main/site7-readings")
			case store == "":
				return cli.Usagef("relay: expected --store DIR").WithHint("it records forwarded deliveries, so that none is forwarded twice")
			}
			c := relay.Config{Folder: store, InDoubt: relay.InDoubt(inDoubt.Value)}
			for _, text := range routes {
				route, err := relay.ParseRoute(text)
				if err != nil {
					return cli.Usagef("relay: --map: expected READER/SUBSCRIPTION=CONTROLLER/SUBSCRIPTION, got %s", cli.Quoted(text))
				}
				c.Routes = append(c.Routes, route)
			}
			return runRelay(cmd.Context(), p, c, &below, &above, &report)
		},
	}
	below.addTo(cmd, "below", "controller")
	above.addTo(cmd, "above", "reader")
	cmd.Flags().StringVar(&report.creds, "report", "", "creds `FILE` of the same agent above as a controller, to report taint")
	cmd.Flags().StringArrayVar(&routes, "map", nil, "forward `FROM=TO`, each AGENT/SUBSCRIPTION; may be repeated")
	cmd.Flags().StringVar(&store, "store", "", "record forwarded deliveries in this `DIR`")
	cmd.Flags().Var(&inDoubt, "in-doubt", "what to do with a push in doubt")
	cli.Complete(cmd, "in-doubt", cobra.FixedCompletions(inDoubt.Words, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runRelay(ctx context.Context, p *cli.Program, c relay.Config, below, above, report *relayEnd) error {
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return cli.NotWritten(c.Folder, err)
	}
	// It ends with the process. Two relays would each write over what the other remembers.
	lock := flock.New(filepath.Join(c.Folder, "lock"), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return cli.NotWritten(c.Folder, err)
	}
	if !locked {
		return cli.Failf("--store %s is in use by another relay", cli.Quoted(c.Folder)).WithHint("stop that one, or give this one its own folder and routes")
	}
	defer func() { _ = lock.Close() }()
	c.Logger = cli.NewLogger(hclog.Info, p.Out.Stderr)
	up, err := above.connect(ctx, p, "above", bcp.RoleReader, c.Logger)
	if err != nil {
		return relayEnded(ctx, err)
	}
	defer up.Close()
	reader := agents.NewReader(up)
	// It reads nothing: whoever asks it hears so at once.
	reader.OnQuery(func(context.Context, agents.Query) (any, error) { return agents.NotEnoughInformation{}, nil })
	c.Push, c.Connected = reader.Push, up.NATS().IsConnected
	if report.creds != "" {
		report.url, report.ca = above.url, above.ca
		side, err := report.connect(ctx, p, "report", bcp.RoleController, c.Logger)
		if err != nil {
			return relayEnded(ctx, err)
		}
		defer side.Close()
		if side.Name() != up.Name() {
			return cli.Failf("--report belongs to %s and --above to %s: they must be of the same agent", side.Name(), up.Name())
		}
		c.Report = func(ctx context.Context) error { return agents.NewController(side).ReportTaint(ctx, bcp.SourceAgent) }
	}
	down, err := below.connect(ctx, p, "below", bcp.RoleController, c.Logger)
	if err != nil {
		return relayEnded(ctx, err)
	}
	defer down.Close()
	r, err := relay.New(c)
	if err != nil {
		return cli.Usagef("%s", err)
	}
	controller := agents.NewController(down)
	channels, err := awaitChannels(ctx, controller)
	if err != nil {
		return relayEnded(ctx, err)
	}
	if err := r.Check(channels); err != nil {
		return cli.Failf("the routes do not fit the mesh below: %s", err).WithHint("each subscription of %s below needs one --map, without a batch_window", down.Name())
	}
	controller.OnDelivery(r.Deliver)
	if err := controller.Start(ctx); err != nil {
		return relayEnded(ctx, err)
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		_ = reader.Start(ctx) // it waits for the mesh above, which may be away for long; pushes need it not
	}()
	p.Out.Talkf("relaying from %s to %s: %d routes", down.Name(), up.Name(), len(c.Routes))
	<-ctx.Done()
	<-started
	_ = controller.Stop(context.WithoutCancel(ctx))
	p.Out.Talkf("%d deliveries forwarded", r.Carried())
	return nil
}

// awaitChannels asks the mesh below for its channels until it is there.
func awaitChannels(ctx context.Context, c *agents.Controller) ([]bcp.ChannelView, error) {
	const attempt = 20 * time.Second
	for {
		asking, cancel := context.WithTimeout(ctx, attempt)
		channels, err := c.Channels(asking)
		cancel()
		var refused *agents.RefusedError
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) {
			return channels, err
		}
	}
}

// relayEnded is what a relay says that ends before it began.
func relayEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return meshdir.Failure(err)
}
