package bridges

import (
	"context"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/a2aserver"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// A2A serves a controller to clients of A2A.
type A2A struct {
	client.Serving
	HTTP            string `default:"127.0.0.1:7071"`
	TokenFile, Card string
}

// Run serves until interrupted.
func (o *A2A) Run(ctx context.Context, p *cli.Program, _ []string) error {
	o.Roles = []bcp.Role{bcp.RoleController}
	if o.Creds == "" {
		return cli.Usagef("a2a: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
	}
	token, err := client.HTTPToken(o.TokenFile)
	if err != nil {
		return err
	}
	listener, err := client.Listen(ctx, "a2a", o.HTTP)
	if err != nil {
		return err
	}
	defer listener.Close()
	card := a2aserver.Card("http://"+listener.Addr().String(), cli.ProgramVersion())
	if o.Card != "" {
		b, err := cli.ReadSmall(o.Card)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(o.Card), cli.FileReason(err))
		}
		if card, err = a2aserver.ParseCard(b); err != nil {
			return cli.Failf("%s: %s", cli.Quoted(o.Card), cli.FileReason(err))
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
	err = client.ServeHTTP(ctx, p, server.Handler(card, token), a2aserver.Path, listener, client.MadeToken(token, o.TokenFile))
	ended, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	_ = server.Stop(ended) // its error is that it was in a hurry
	return err
}
