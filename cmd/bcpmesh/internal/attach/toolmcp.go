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

func toolMCPCommand(p *cli.Program) *cobra.Command {
	var o programFlags
	var remember string
	var pins []string
	const example = "bcpmesh tool mcp --creds notes.creds --pin add_note=SHA256 -- npx -y @example/notes"
	cmd := &cobra.Command{
		Use:   "mcp -- SERVER [ARG...]",
		Short: "Execute each call with a tool of an MCP server",
		Long: `Execute each call of a service's tools with the tools of an MCP server that speaks
over stdin and stdout. "bcpmesh tool import" writes the definition, with this command
in it.

A tool is called only if --pin names it, and if the server lists it as it was pinned:
name, title, description, schemas and annotations. That is checked before each call. A
tool that has changed is not called: the run ends with tool_changed, and operators are
alerted. Import it again, and review it.

What the server returns is content, as the tool's output_schema says: its structured
content, or {"text": ...}. No planner ever reads what the server says of itself.

If the server ends, so does this command, and a mesh starts it again. A call that it
had not answered, or not within --timeout, has no outcome: the tool's idempotency says
what follows. The server gets a call's key as bcpmesh.dev/key of _meta; define a tool
with idempotency: key only if its server does nothing twice under one key.

The server gets PATH, HOME and the like of the environment, and what --pass names; no
creds. Started by a mesh as a service's command, it needs no --creds, and "environment"
of the service names what --pass passes on.`,
		Example: "  " + example,
		Args:    programArgs(example),
		RunE: func(cmd *cobra.Command, args []string) error {
			var pinned []wrap.Pinned
			for _, text := range pins {
				pin, err := wrap.ParsePinned(text)
				if err != nil {
					return cli.Usagef("tool mcp: --pin %s: %s", cli.Quoted(text), err)
				}
				pinned = append(pinned, pin)
			}
			if len(pinned) == 0 {
				return cli.Usagef("tool mcp: expected --pin").WithHint("bcpmesh tool import SERVICE -- SERVER writes the definition with all pins")
			}
			return serveMCPTools(cmd.Context(), p, &o, remember, pinned, args)
		},
	}
	o.addTo(cmd, "creds `FILE` of a tool service (default: $BCPMESH_TOOL_CREDS)")
	cmd.Flags().Lookup("timeout").Usage = "how long one call may take"
	cmd.Flags().Lookup("parallel").Usage = "how many `CALLS` there may be at a time"
	cmd.Flags().StringVar(&remember, "remember", "", "remember finished calls in this `FILE`")
	cmd.Flags().StringArrayVar(&pins, "pin", nil, "a `TOOL` of the server, as bcpmesh tool import writes it; given for each")
	return cmd
}

// serveMCPTools serves the pinned tools of a server until interrupted, or until the server ends.
func serveMCPTools(ctx context.Context, p *cli.Program, o *programFlags, remember string, pinned []wrap.Pinned, command []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := o.connect(ctx, p, []bcp.Role{bcp.RoleTool}, command)
	if err != nil {
		return err
	}
	defer s.close()
	log := s.program.Logger
	upstream, _, err := startUpstream(ctx, p, command, o.pass, log)
	if err != nil {
		return err
	}
	defer upstream.Close()
	server, err := wrap.NewServer(upstream, o.timeout.Value, pinned)
	if err != nil {
		return cli.Usagef("tool mcp: --pin: %s", err)
	}
	changed, unknown, err := server.Check(ctx)
	if err != nil {
		return cli.Failf("%s", err)
	}
	for _, name := range changed {
		log.Error("a tool differs from its pin and is not called", "tool", name)
	}
	if len(unknown) > 0 {
		log.Warn("the server has tools that are not pinned; they are not called", "count", len(unknown))
	}
	ended := cli.Failf("the MCP server %s has ended", cli.Quoted(command[0]))
	go func() {
		select {
		case <-upstream.Done():
			cancel(ended)
		case <-ctx.Done():
		}
	}()
	says := fmt.Sprintf("%s serves %s of %s", s.Name, cli.Count(len(pinned)-len(changed), "tool"), cli.Quoted(command[0]))
	err = serveTools(ctx, p, s.Conn, remember, says, func(ctx context.Context, c agents.Call) (any, error) {
		result, err := server.Call(ctx, c)
		if errors.Is(err, agents.ErrToolChanged) {
			log.Error("a tool differs from its pin and was not called", "tool", c.Tool)
		}
		return result, err
	})
	if err == nil && errors.Is(context.Cause(ctx), ended) {
		return ended
	}
	return err
}

func toolImportCommand(p *cli.Program) *cobra.Command {
	var pass []string
	var reader bool
	var url, key string
	const example = "bcpmesh tool import notes -- npx -y @example/notes > tools/notes.yaml"
	const remote = "bcpmesh tool import notes --reader --url https://mcp.example.com/mcp --key env:NOTES_KEY"
	cmd := &cobra.Command{
		Use:   "import SERVICE [-- SERVER [ARG...]]",
		Short: "Draft the definition of an MCP server's tools",
		Long: `Start an MCP server, list its tools, and print a draft of tools/SERVICE.yaml.

Each tool is drafted as one that writes, with a capability of its own, and with no
description. What the server says of it is in comments: it is untrusted text, and no
planner reads it until you write it. The command in the draft pins every tool by its
hash. A hint of the server lowers nothing.

With --reader it is an entry of mcp_servers for mesh.yaml, with tools that the model
of a Reader calls ("command: builtin"), pinned in the same way. For a server at a URL,
over streamable HTTP, give --url in place of the command.`,
		Example: "  " + example + "\n  bcpmesh tool import notes --reader -- npx -y @example/notes\n  " + remote,
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
