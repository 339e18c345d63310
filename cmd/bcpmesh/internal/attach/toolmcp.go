package attach

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// serveMCP serves the pinned tools of an MCP server until interrupted, or until the server ends.
func (o *toolOptions) serveMCP(ctx context.Context, p *cli.Program, command []string) error {
	if len(command) == 0 {
		return cli.Usagef("tool: --pin: expected -- SERVER").WithHint("bcpmesh tool import SERVICE -- SERVER writes the definition with all pins")
	}
	var pinned []wrap.Pinned
	for _, text := range o.pins {
		pin, err := wrap.ParsePinned(text)
		if err != nil {
			return cli.Usagef("tool: --pin %s: %s", cli.Quoted(text), err)
		}
		pinned = append(pinned, pin)
	}
	agent, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	upstream, _, err := startUpstream(ctx, p, command, o.pass, agent.Log)
	if err != nil {
		return err
	}
	defer upstream.Close()
	server, err := wrap.NewServer(upstream, o.timeout.Value, pinned)
	if err != nil {
		return cli.Usagef("tool: --pin: %s", err)
	}
	changed, unknown, err := server.Check(ctx)
	if err != nil {
		return cli.Failf("%s", err)
	}
	for _, name := range changed {
		agent.Log.Error("a tool differs from its pin and is not called", "tool", name)
	}
	if len(unknown) > 0 {
		agent.Log.Warn("the server has tools that are not pinned; they are not called", "count", len(unknown))
	}
	ctx, ended := untilEnd(ctx, upstream, command[0])
	says := fmt.Sprintf("%s serves %s of %s", agent.Name, cli.Count(len(pinned)-len(changed), "tool"), cli.Quoted(command[0]))
	return ended(serveTools(ctx, p, agent.Conn, o.remember, says, func(ctx context.Context, c agents.Call) (any, error) {
		result, err := server.Call(ctx, c)
		if errors.Is(err, agents.ErrToolChanged) {
			agent.Log.Error("a tool differs from its pin and was not called", "tool", c.Tool)
		}
		return result, err
	}))
}

func toolImportCommand(p *cli.Program) *cobra.Command {
	var pass []string
	var reader bool
	var url, key string
	const example = "bcpmesh tool import notes -- npx -y @example/notes > tools/notes.yaml"
	const remote = "bcpmesh tool import notes --reader --url https://mcp.example.com/mcp --key env:NOTES_KEY"
	cmd := &cobra.Command{
		Use: "import SERVICE [-- SERVER [ARG...]]",
		Args: func(cmd *cobra.Command, args []string) error {
			if url != "" {
				if !reader || len(args) != 1 || len(pass) > 0 {
					return cli.Usagef("tool import: --url is of tools of a Reader's model: expected SERVICE --reader --url URL").WithHint("for example %s", remote)
				}
				return nil
			}
			if key != "" {
				return cli.Usagef("tool import: --key is of a server at a --url; --pass gives a command variables of the environment")
			}
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return cli.Usagef("tool import: expected SERVICE -- SERVER").WithHint("for example %s", example)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := bcp.ParseAgentName(args[0])
			if err != nil {
				return cli.Usagef("tool import: %s is not a valid name for a service: %s", cli.Quoted(args[0]), err)
			}
			server := bcp.MCPServer{Service: bcp.Service{Name: service, Command: args[1:], Environment: pass}, URL: url, Key: key}
			var upstream *wrap.Upstream
			if url != "" {
				upstream, err = dialServer(cmd.Context(), meshdir.Folder{Dir: "."}, &server)
				if err != nil {
					err = cli.Failf("%s: %s", cli.Quoted(url), err)
				}
			} else {
				upstream, _, err = startUpstream(cmd.Context(), p, server.Command, pass, cli.NewLogger(hclog.Warn, p.Out.Stderr))
			}
			if err != nil {
				return err
			}
			defer upstream.Close()
			listed, err := upstream.Tools(cmd.Context())
			if err != nil {
				return cli.Failf("%s", err)
			}
			if len(listed) == 0 {
				return cli.Failf("the server has no tools")
			}
			var draft []byte
			if reader {
				draft, err = wrap.DraftServer(&server, listed)
			} else {
				draft, err = wrap.Draft(service, pass, server.Command, listed)
			}
			if err != nil {
				return cli.Failf("%s", err)
			}
			_, err = p.Out.Stdout.Write(draft)
			return err
		},
	}
	cmd.Flags().BoolVar(&reader, "reader", false, "draft tools of a Reader's model instead of a service of kernels")
	cmd.Flags().StringArrayVar(&pass, "pass", nil, "pass on this `VARIABLE` of the environment; may be repeated")
	cmd.Flags().StringVar(&url, "url", "", "`URL` of a server that speaks streamable HTTP")
	cmd.Flags().StringVar(&key, "key", "", "where its key is: `PLACE` env:NAME, file:PATH or command:WORDS")
	return cmd
}
