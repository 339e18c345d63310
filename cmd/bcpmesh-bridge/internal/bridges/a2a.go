package bridges

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/a2aserver"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// a2aServerOptions are the flags of a2a.
type a2aServerOptions struct {
	client.Flags
	http, tokenFile, card string
}

// A2ACommand returns the command a2a.
func A2ACommand(p *cli.Program) *cobra.Command {
	o := a2aServerOptions{Flags: client.Flags{Roles: []bcp.Role{bcp.RoleController}}}
	cmd := &cobra.Command{
		Use:  "a2a --creds FILE",
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveA2A(cmd.Context(), p, o) },
	}
	o.AddServing(cmd, "creds `FILE` of a controller")
	cmd.Flags().StringVar(&o.http, "http", "127.0.0.1:7071", "serve on this `HOST:PORT` of this machine; port 0: any free one")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "read the token from this `FILE`")
	cmd.Flags().StringVar(&o.card, "card", "", "serve the agent card of this `FILE`")
	cmd.AddCommand(ReaderA2ACommand(p), CardCommand(p))
	return cmd
}

// serveA2A serves until interrupted.
func serveA2A(ctx context.Context, p *cli.Program, o a2aServerOptions) error {
	if o.Creds == "" {
		return cli.Usagef("a2a: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
	}
	token, err := client.HTTPToken(o.tokenFile)
	if err != nil {
		return err
	}
	listener, err := client.Listen(ctx, "a2a", o.http)
	if err != nil {
		return err
	}
	defer listener.Close()
	card := a2aserver.Card("http://"+listener.Addr().String(), cli.ProgramVersion())
	if o.card != "" {
		b, err := cli.ReadSmall(o.card)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(o.card), cli.FileReason(err))
		}
		if card, err = a2aserver.ParseCard(b); err != nil {
			return cli.Failf("%s: %s", cli.Quoted(o.card), cli.FileReason(err))
		}
	}
	agent, err := o.Await(ctx, p, "a2a", 0)
	if err != nil {
		return err
	}
	defer agent.Close()
	server := a2aserver.New(agent.Connection)
	if err := server.Start(context.WithoutCancel(ctx)); err != nil {
		return meshdir.Failure(err)
	}
	err = client.ServeHTTP(ctx, p, server.Handler(card, token), a2aserver.Path, listener, client.MadeToken(token, o.tokenFile))
	ended, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	_ = server.Stop(ended) // its error is that it was in a hurry
	return err
}
