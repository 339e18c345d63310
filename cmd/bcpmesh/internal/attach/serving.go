package attach

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// serving is a command that serves the messages of an agent, by a program for each or as a flag says.
type serving struct {
	client.Flags
	timeout  cli.DurationFlag
	parallel int
	pass     []string

	// program serves with the program after --.
	program func(ctx context.Context, agent *client.Client, program *stdio.Program) error
	// flag is the other way to serve, which may take arguments after -- too. open reads what it needs, and returns what it
	// does once there is a connection.
	flag   string
	behind bool
	open   func(args []string) (func(ctx context.Context, agent *client.Client) error, error)
}

// command makes the command of an agent in one of these roles.
func (o *serving) command(p *cli.Program, use string, roles ...bcp.Role) *cobra.Command {
	cmd := &cobra.Command{Use: use, RunE: func(cmd *cobra.Command, args []string) error { return o.run(p, cmd, args) }}
	o.Roles = roles
	o.timeout = cli.DurationFlag{Value: stdio.DefaultTimeout, Least: 100 * time.Millisecond}
	o.AddServing(cmd, "creds `FILE` of a "+roles[0].String()+" (default: the one from the mesh)")
	cmd.Flags().Var(&o.timeout, "timeout", "how long one run or call may take")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "how many `RUNS` or calls there may be at a time")
	cmd.Flags().StringArrayVar(&o.pass, "pass", nil, "pass on this `VARIABLE` of the environment; may be repeated")
	return cmd
}

// run serves until interrupted.
func (o *serving) run(p *cli.Program, cmd *cobra.Command, args []string) error {
	flagged := cmd.Flags().Changed(o.flag)
	open, byProgram := o.open, len(args) > 0 && !(flagged && o.behind)
	if byProgram {
		open = o.openProgram
	}
	switch {
	case flagged == byProgram || len(args) > 0 && cmd.ArgsLenAtDash() != 0:
		return cli.Usagef("%sexpected one of -- PROGRAM, --%s", cli.Prefix(cmd), o.flag).WithHint("for example%s", cmd.Example[1:])
	case o.parallel < 1 || o.parallel > client.MaxParallel:
		return cli.Usagef("%s--parallel: expected 1 to %d, got %d", cli.Prefix(cmd), client.MaxParallel, o.parallel)
	}
	if o.FromEnvironment(p.Env, o.Roles...); o.Creds == "" {
		return cli.Usagef("%sexpected --creds FILE", cli.Prefix(cmd)).WithHint("bcpmesh creds issue NAME --role %s --out FILE makes one", o.Roles[0])
	}
	serve, err := open(args)
	if err != nil {
		return err
	}
	agent, err := o.Serve(cmd.Context(), p, o.Roles[0].String(), o.parallel)
	if err != nil {
		return err
	}
	defer agent.Close()
	return serve(cmd.Context(), agent)
}

// openProgram finds a program.
func (o *serving) openProgram(command []string) (func(context.Context, *client.Client) error, error) {
	env, err := passedEnv(o.pass)
	if err == nil {
		_, err = findProgram(command[0], env)
	}
	return func(ctx context.Context, agent *client.Client) error {
		output := process.NewOutput(agent.Log)
		defer output.End()
		return o.program(ctx, agent, &stdio.Program{Command: command, Env: env, Timeout: o.timeout.Value, Output: output, Logger: agent.Log})
	}, err
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
