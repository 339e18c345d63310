package attach

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/meshdir"
)

// AgentCommand returns the command agent.
func AgentCommand(p *cli.Program) *cobra.Command {
	var o client.AgentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve an agent to a program over its stdin and stdout",
		Long: `Serve one agent of the mesh, in one role, to a program in any language, which starts
this command and speaks JSON-RPC 2.0 with it, a message a line, over stdin and stdout.
The creds file says which agent. docs/agents.md has the methods; package bcpmesh of
agents/python speaks them.

A Reader's program is asked "query" and calls "push"; a Controller's is asked
"delivery" and calls "ask", "ask_and_wait", "channels", "open", "close", "propose" and
"taint". Both are asked "prompt". It ends when stdin does.

Started by a program that a mesh started, it finds the creds and the mesh in its
environment, and needs no flags.`,
		Example: `  bcpmesh agent --creds researcher.creds
  echo '{"jsonrpc": "2.0", "id": 1, "method": "channels"}' | bcpmesh agent --creds main.creds`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.FromEnvironment(p.Env, bcp.RoleReader, bcp.RoleController)
			if o.Creds == "" {
				return cli.Usagef("agent: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
			}
			return serveProgram(cmd.Context(), p, o)
		},
	}
	o.AddTo(cmd, "creds `FILE` of a reader or a controller (default: the one that a mesh gives)")
	cmd.AddCommand(agentRunCommand(p), agentCellCommand(p))
	return cmd
}

// serveProgram serves until the program closes its end, or until interrupted.
func serveProgram(ctx context.Context, p *cli.Program, o client.AgentFlags) error {
	agent, err := o.Connect(ctx, p, "agent", stdio.MaxHandlers)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	if cli.IsTerminal(p.In) {
		p.Out.Talkf("this speaks JSON-RPC on stdin and stdout: let a program start it")
	}
	err = stdio.Serve(ctx, stdio.Agent{
		Connection: agent.Conn, Name: agent.Name, Role: agent.Role, Version: cli.ProgramVersion(), Logger: agent.Log,
	}, cli.Interruptible(ctx, p.In), p.Out.Screen)
	if ctx.Err() != nil {
		return nil
	}
	return meshdir.OutcomeOf(err)
}
