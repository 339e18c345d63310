package attach

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// MCP serves an agent to a host of the Model Context Protocol.
type MCP struct {
	client.Serving
	HTTP, TokenFile string
	Tools           []string
}

// Run serves until the host leaves, or until interrupted.
func (o *MCP) Run(ctx context.Context, p *cli.Program, _ []string) error {
	if o.Creds == "" {
		return cli.Usagef("mcp: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
	}
	if o.TokenFile != "" && o.HTTP == "" {
		return cli.Usagef("mcp: --token-file needs --http")
	}
	var listener net.Listener
	var token string
	if o.HTTP != "" {
		var err error
		if token, err = client.HTTPToken(o.TokenFile); err != nil {
			return err
		}
		if listener, err = client.Listen(ctx, "mcp", o.HTTP); err != nil {
			return err
		}
		defer listener.Close()
	}
	server, err := o.server(p)
	if err != nil {
		return err
	}
	serving, leave := context.WithCancel(ctx)
	defer leave()
	ended := make(chan error, 1)
	go func() {
		err := o.connect(serving, p, server)
		if err != nil {
			leave()
		}
		ended <- err
	}()
	if listener != nil {
		err = client.ServeHTTP(serving, p, server.Handler(token), "/mcp", listener, client.MadeToken(token, o.TokenFile))
	} else {
		if cli.IsTerminal(p.In) {
			p.Out.Talkf("this speaks MCP on stdin and stdout: let a host start it")
		}
		err = server.ServeLines(serving, cli.Interruptible(ctx, p.In), p.Out.Screen)
	}
	stopped := serving.Err() != nil
	leave()
	if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	if stopped && listener == nil {
		return nil
	}
	return err
}

// server makes the server of the agent of the creds file, which answers hosts before
// there is a mesh.
func (o *MCP) server(p *cli.Program) (*mcp.Server, error) {
	name, role, err := o.Who()
	if err != nil {
		return nil, err
	}
	options := mcp.Options{Version: cli.ProgramVersion(), Logger: cli.NewLogger(hclog.Info, p.Out.Stderr),
		Away: func(ctx context.Context, reader bcp.AgentName) bool { return o.Away(ctx, name, reader) }}
	for _, name := range o.Tools {
		file, err := readTools(name)
		if err != nil {
			return nil, err
		}
		options.Tools = append(options.Tools, file)
	}
	return mcp.New(name, role, options), nil
}

// connect connects the server with its mesh when that is up, and keeps the connection
// until ctx ends.
func (o *MCP) connect(ctx context.Context, p *cli.Program, server *mcp.Server) error {
	agent, err := o.Await(ctx, p, "mcp", mcp.MaxPending)
	if err != nil {
		return err
	}
	defer agent.Close()
	if err := server.Start(ctx, agent.Connection); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	<-ctx.Done()
	// What the host has not dealt with stays with the gateway.
	server.Stop(context.WithoutCancel(ctx))
	return nil
}
