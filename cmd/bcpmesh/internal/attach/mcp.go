package attach

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// mcpOptions are the flags of mcp.
type mcpOptions struct {
	client.Flags
	http, tokenFile string
	tools           []string
}

// MCPCommand returns the command mcp.
func MCPCommand(p *cli.Program) *cobra.Command {
	var o mcpOptions
	cmd := cli.Command("mcp", func(ctx context.Context, _ []string) error { return serveMCP(ctx, p, o) })
	o.AddServing(cmd, "creds `FILE` of a controller or a reader")
	cmd.Flags().StringVar(&o.http, "http", "", "serve over HTTP on this `HOST:PORT` of this machine; port 0 means any free one")
	cmd.Flags().StringArrayVar(&o.tools, "tools", nil, "also offer the host the tools of this `FILE` of bcpmesh wrap; may be repeated")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "with --http: read the token from this `FILE`")
	return cmd
}

// serveMCP serves until the host leaves, or until interrupted.
func serveMCP(ctx context.Context, p *cli.Program, o mcpOptions) error {
	if o.Creds == "" {
		return cli.Usagef("mcp: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
	}
	if o.tokenFile != "" && o.http == "" {
		return cli.Usagef("mcp: --token-file needs --http")
	}
	var listener net.Listener
	var token string
	if o.http != "" {
		var err error
		if token, err = client.HTTPToken(o.tokenFile); err != nil {
			return err
		}
		if listener, err = client.Listen(ctx, "mcp", o.http); err != nil {
			return err
		}
		defer listener.Close()
	}
	server, err := mcpServer(p, o)
	if err != nil {
		return err
	}
	serving, leave := context.WithCancel(ctx)
	defer leave()
	ended := make(chan error, 1)
	go func() {
		err := connectMCP(serving, p, o, server)
		if err != nil {
			leave()
		}
		ended <- err
	}()
	if listener != nil {
		err = client.ServeHTTP(serving, p, server.Handler(token), "/mcp", listener, client.MadeToken(token, o.tokenFile))
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

// mcpServer makes the server of the agent of the creds file, which answers hosts before
// there is a mesh.
func mcpServer(p *cli.Program, o mcpOptions) (*mcp.Server, error) {
	name, role, err := o.Who()
	if err != nil {
		return nil, err
	}
	options := mcp.Options{Version: cli.ProgramVersion(), Logger: cli.NewLogger(hclog.Info, p.Out.Stderr),
		Away: func(ctx context.Context, reader bcp.AgentName) bool { return o.Away(ctx, name, reader) }}
	for _, name := range o.tools {
		file, err := readTools(name)
		if err != nil {
			return nil, err
		}
		options.Tools = append(options.Tools, file)
	}
	return mcp.New(name, role, options), nil
}

// connectMCP connects the server with its mesh when that is up, and keeps the connection
// until ctx ends.
func connectMCP(ctx context.Context, p *cli.Program, o mcpOptions, server *mcp.Server) error {
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
