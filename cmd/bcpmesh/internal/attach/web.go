package attach

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// WebCommand returns the command web.
func WebCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var listen string
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve pages that show the mesh to a browser on this machine",
		Long: `Serve pages that show what happened in the mesh: its channels with the bits that they
used, the audit as it grows, alerts, and for each decision why it came out as it did.
The pages can change nothing, and show nothing that a message held. They know the
newest 20,000 decisions; older ones are for bcpmesh audit replay and bcpmesh explain.

They are for a browser on this machine alone. Whoever logs in needs a code that is
shown here: it works once, for five minutes, and the next one follows when it was used.

It reads as one of the mesh's auditors.`,
		Example: `  bcpmesh web
  bcpmesh web --listen localhost:8080
  bcpmesh web --creds alice.creds --as alice --url nats://mesh.example.org:4222`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.Connect(cmd.Context(), bcp.RoleAuditor)
			if err != nil {
				return err
			}
			defer c.Close()
			return serveWeb(cmd.Context(), p, c, listen)
		},
	}
	who.AddTo(cmd, "auditor")
	cmd.Flags().StringVar(&listen, "listen", "localhost:4280", "serve at this `ADDRESS` of this machine; port 0: any")
	cli.Complete(cmd, "listen", cobra.NoFileCompletions)
	return cmd
}

// serveWeb serves pages until ctx ends.
func serveWeb(ctx context.Context, p *cli.Program, c *client.Client, listen string) error {
	server, err := web.Listen(web.Config{Listen: listen, Connected: c.NATS().IsConnected, Announce: func(page, code string) {
		p.Out.Talkf("log in at %s with the code %s", page, code)
	}})
	switch {
	case errors.Is(err, web.ErrNotLoopback):
		return cli.Failf("--listen %s can be reached from other machines", cli.Quoted(listen)).WithHint("listen on localhost; ssh -L 4280:localhost:4280 reaches it from elsewhere")
	case err != nil && meshdir.PortTaken(listen):
		return cli.Failf("--listen %s: another program has that port", cli.Quoted(listen)).WithHint("stop it, or take any free port: --listen localhost:0")
	case err != nil:
		return cli.Failf("--listen %s: %s", cli.Quoted(listen), cli.ReasonOf(err))
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	for _, shard := range c.Shards {
		following.Go(func() { server.Follow(ctx, c.Auditor(shard), shard) })
	}
	if err := server.Serve(ctx); err != nil {
		return cli.Failf("the pages are not served any more: %s", cli.ReasonOf(err))
	}
	return nil
}
