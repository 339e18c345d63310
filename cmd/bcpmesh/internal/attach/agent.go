package attach

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// AgentCommand returns the command agent.
func AgentCommand(p *cli.Program) *cobra.Command {
	var o client.AgentFlags
	var read []string
	cmd := &cobra.Command{
		Use: "agent [-- COMMAND [ARG…]]",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return cli.Usagef("agent: unexpected %s", cli.Quoted(args[0])).WithHint("a command to confine comes after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.FromEnvironment(p.Env, bcp.RoleReader, bcp.RoleController)
			if o.Creds == "" {
				return cli.Usagef("agent: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
			}
			if len(args) > 0 {
				return keepProgram(cmd.Context(), p, o, read, args)
			}
			if len(read) > 0 {
				return cli.Usagef("agent: --read needs a command after --")
			}
			return serveProgram(cmd.Context(), p, o)
		},
	}
	o.AddTo(cmd, "creds `FILE` of a reader or a controller (default: the one from the mesh)")
	cmd.AddCommand(agentRunCommand(p), agentShowCommand(p))
	cmd.Flags().StringArrayVar(&read, "read", nil, "let the command read this `FILE` or folder; may be repeated")
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
	return meshdir.Failure(err)
}
