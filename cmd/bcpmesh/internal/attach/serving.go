package attach

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// serving are the flags of a command that serves the messages of an agent, by a program for each or as another flag says.
type serving struct {
	client.Serving
	Timeout  cli.DurationFlag `default:"30s" least:"100ms"`
	Parallel int              `default:"4"`
	Pass     []string
	Command  *cobra.Command
}

// begin returns the program after -- that serves an agent in one of these roles; nil if that flag says how, behind which there may
// be arguments, too.
func (o *serving) begin(p *cli.Program, args []string, flag string, behind bool, roles ...bcp.Role) (*stdio.Program, error) {
	cmd, flagged := o.Command, o.Command.Flags().Changed(flag)
	byProgram := len(args) > 0 && !(flagged && behind)
	switch {
	case flagged == byProgram || len(args) > 0 && cmd.ArgsLenAtDash() != 0:
		return nil, cli.Usagef("%sexpected one of -- PROGRAM, --%s", cli.Prefix(cmd), flag).WithHint("for example%s", cmd.Example[1:])
	case o.Parallel < 1 || o.Parallel > client.MaxParallel:
		return nil, cli.Usagef("%s--parallel: expected 1 to %d, got %d", cli.Prefix(cmd), client.MaxParallel, o.Parallel)
	}
	o.Roles = roles
	if o.FromEnvironment(p.Env, roles...); o.Creds == "" {
		return nil, cli.Usagef("%sexpected --creds FILE", cli.Prefix(cmd)).WithHint("bcpmesh creds issue NAME --role %s --out FILE makes one", roles[0])
	}
	if !byProgram {
		return nil, nil
	}
	env, err := passedEnv(o.Pass)
	if err == nil {
		_, err = findProgram(args[0], env)
	}
	return &stdio.Program{Command: args, Env: env, Timeout: o.Timeout.Value}, err
}

// serve serves until interrupted, with the program if there is one.
func (o *serving) serve(ctx context.Context, p *cli.Program, program *stdio.Program, serve func(context.Context, *client.Client) error) error {
	agent, err := o.Serve(ctx, p, o.Roles[0].String(), o.Parallel)
	if err != nil {
		return err
	}
	defer agent.Close()
	if program != nil {
		program.Output, program.Logger = process.NewOutput(agent.Log), agent.Log
		defer program.Output.End()
	}
	return serve(ctx, agent)
}

// findProgram finds the file of a command in the PATH of its environment.
func findProgram(name string, env []string) (string, error) {
	path, err := process.LookUp(name, env)
	if err != nil {
		return "", cli.Failf("there is no program %s in PATH", cli.Quoted(name)).WithHint("install it, or write its path: ./%s", name)
	}
	return path, nil
}

// whileRuns serves with an MCP server until interrupted, or until the server ends, which is an error.
func whileRuns(ctx context.Context, server *wrap.Upstream, name string, serve func(context.Context) error) error {
	ended := cli.Failf("the MCP server %s has ended", cli.Quoted(name))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-server.Done():
			cancel(ended)
		case <-ctx.Done():
		}
	}()
	err := serve(ctx)
	if err == nil && errors.Is(context.Cause(ctx), ended) {
		return ended
	}
	return err
}
