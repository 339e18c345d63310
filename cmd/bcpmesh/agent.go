package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func agentCommand(p *program) *cobra.Command {
	var o agentFlags
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
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fromEnvironment(p.env, bcp.RoleReader, bcp.RoleController)
			if o.creds == "" {
				return usagef("agent: expected --creds FILE").withHint("bcpmesh creds issue AGENT --out FILE makes one")
			}
			return serveProgram(cmd.Context(), p, o)
		},
	}
	o.addTo(cmd, "creds `FILE` of a reader or a controller (default: the one that a mesh gives)")
	return cmd
}

// serveProgram serves until the program closes its end, or until interrupted.
func serveProgram(ctx context.Context, p *program, o agentFlags) error {
	agent, err := o.connect(ctx, p, "agent", stdio.MaxHandlers)
	if err != nil {
		return err
	}
	defer agent.conn.Close()
	if isTerminal(p.in) {
		p.out.talkf("this speaks JSON-RPC on stdin and stdout: let a program start it")
	}
	err = stdio.Serve(ctx, stdio.Agent{
		Connection: agent.conn, Name: agent.name, Role: agent.role, Version: programVersion(), Logger: agent.log,
	}, interruptible(ctx, p.in), p.out.screen)
	if ctx.Err() != nil {
		return nil
	}
	return outcomeOf(err)
}
