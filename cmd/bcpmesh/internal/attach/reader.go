package attach

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// readerOptions are the flags of reader.
type readerOptions struct {
	servingFlags
	tools string
}

// ReaderCommand returns the command reader.
func ReaderCommand(p *cli.Program) *cobra.Command {
	var o readerOptions
	cmd := &cobra.Command{
		Use: "reader [-- PROGRAM [ARG...]]",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			switch way, err := o.way(p, cmd, args, "", "mcp"); {
			case err != nil:
				return err
			case way == "mcp":
				return o.answerWithTools(ctx, p)
			}
			return o.answerWith(ctx, p, args)
		},
	}
	o.addTo(cmd, bcp.RoleReader)
	cmd.Flags().StringVar(&o.tools, "mcp", "", "tools of an MCP server, a `FILE` that bcpmesh wrap wrote")
	return cmd
}

// answerWith answers queries by running a program until interrupted.
func (o *readerOptions) answerWith(ctx context.Context, p *cli.Program, command []string) error {
	s, err := o.connectProgram(ctx, p, command)
	if err != nil {
		return err
	}
	defer s.close()
	// The runs end with ctx; what they had is asked again.
	return client.ServeQueries(ctx, p, s.Connection, s.program.Answer, string(s.Name)+" answers with "+cli.Quoted(command[0]))
}

// answerWithTools answers queries with the tools of an MCP server until interrupted.
func (o *readerOptions) answerWithTools(ctx context.Context, p *cli.Program) error {
	file, err := readTools(o.tools)
	if err != nil {
		return err
	}
	o.parallel = client.MaxParallel
	agent, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	defer agent.Close()
	if agent.Name != file.Reader {
		return cli.Failf("%s belongs to %s: expected the creds of the reader %s", cli.Quoted(o.Creds), agent.Name, file.Reader)
	}
	u, err := startUpstream(ctx, p, file.Server, o.pass, agent.Log)
	if err != nil {
		return err
	}
	defer u.Close()
	answers, changed, err := wrap.NewReader(ctx, file, u, agent.Log)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		p.Out.Talkf("these tools differ from their pins and are refused: %s; review them with bcpmesh wrap %s --accept", cli.Plain(strings.Join(changed, ", ")), file.Reader)
	}
	ctx, ended := untilEnd(ctx, u, file.Server[0])
	err = client.ServeQueries(ctx, p, agent.Connection, answers.Answer, string(agent.Name)+" answers with "+cli.Count(len(file.Tools)-len(changed), "tool"))
	return ended(err)
}

// servingFlags are of a command that serves the messages of an agent, by a program or in another way.
type servingFlags struct {
	client.Flags
	timeout  cli.DurationFlag
	parallel int
	pass     []string
}

func (o *servingFlags) addTo(cmd *cobra.Command, roles ...bcp.Role) {
	o.Roles = roles
	o.timeout = cli.DurationFlag{Value: stdio.DefaultTimeout, Least: 100 * time.Millisecond}
	o.AddServing(cmd, "creds `FILE` of a "+roles[0].String()+" (default: the one from the mesh)")
	cmd.Flags().Var(&o.timeout, "timeout", "how long one run or call may take")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "how many `RUNS` or calls there may be at a time")
	cmd.Flags().StringArrayVar(&o.pass, "pass", nil, "pass on this `VARIABLE` of the environment; may be repeated")
}

// way is the flag that says how messages are served, or -- for a program: a command line has one of them. Those in before
// take arguments after -- too.
func (o *servingFlags) way(p *cli.Program, cmd *cobra.Command, args []string, before string, flags ...string) (string, error) {
	var ways []string
	for _, name := range append(flags, before) {
		if name != "" && cmd.Flags().Changed(name) {
			ways = append(ways, name)
		}
	}
	if len(args) > 0 && !slices.Equal(ways, []string{before}) {
		ways = append(ways, "--")
	}
	if len(ways) != 1 || len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return "", cli.Usagef("%sexpected one of -- PROGRAM, --%s", cli.Prefix(cmd), strings.Join(cli.Compact(append(flags, before)...), ", --")).WithHint("for example%s", cmd.Example[1:])
	}
	if o.parallel < 1 || o.parallel > client.MaxParallel {
		return "", cli.Usagef("%s--parallel: expected 1 to %d, got %d", cli.Prefix(cmd), client.MaxParallel, o.parallel)
	}
	if o.FromEnvironment(p.Env, o.Roles...); o.Creds == "" {
		return "", cli.Usagef("%sexpected --creds FILE", cli.Prefix(cmd)).WithHint("bcpmesh creds issue NAME --role %s --out FILE makes one", o.Roles[0])
	}
	return ways[0], nil
}

// connect connects as the agent of the creds, in one of the roles of the command.
func (o *servingFlags) connect(ctx context.Context, p *cli.Program) (*client.Client, error) {
	return o.Serve(ctx, p, o.Roles[0].String(), o.parallel)
}

// served is a program with the connection that it serves.
type served struct {
	*client.Client
	program stdio.Program
}

func (s *served) close() {
	s.program.Output.End()
	s.Close()
}

// findProgram finds the file of a command in the PATH of its environment.
func findProgram(name string, env []string) (string, error) {
	path, err := process.LookUp(name, env)
	if err != nil {
		return "", cli.Failf("there is no program %s in PATH", cli.Quoted(name)).WithHint("install it, or write its path: ./%s", name)
	}
	return path, nil
}

// connectProgram finds a program, and connects.
func (o *servingFlags) connectProgram(ctx context.Context, p *cli.Program, command []string) (*served, error) {
	env, err := passedEnv(o.pass)
	if err != nil {
		return nil, err
	}
	if _, err := findProgram(command[0], env); err != nil {
		return nil, err
	}
	agent, err := o.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	return &served{agent, stdio.Program{
		Command: command, Env: env, Timeout: o.timeout.Value, Output: process.NewOutput(agent.Log), Logger: agent.Log,
	}}, nil
}

// untilEnd is a context that ends with an MCP server, and what a command then returns.
func untilEnd(ctx context.Context, server *wrap.Upstream, name string) (context.Context, func(error) error) {
	ended := cli.Failf("the MCP server %s has ended", cli.Quoted(name))
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-server.Done():
			cancel(ended)
		case <-ctx.Done():
		}
	}()
	return ctx, func(err error) error {
		defer cancel(nil)
		if err == nil && errors.Is(context.Cause(ctx), ended) {
			return ended
		}
		return err
	}
}
