package attach

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/dispatch"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/serve"
)

// ReaderCommand returns the command reader.
func ReaderCommand(p *cli.Program) *cobra.Command {
	return cli.Group("reader", "Run a Reader on a program, model, MCP server or foreign agent",
		`Run a Reader of the mesh on top of a program, a model, an MCP server or a
foreign agent, which gets each query and answers it. This program handles
connections, repeats and reconnects.`,
		`  bcpmesh reader command --creds researcher.creds -- ./answer.py`,
		readerProgramCommand(p), readerExtractCommand(p), readerMCPCommand(p),
		dispatch.Command(p, dispatch.Bridge, "reader a2a", "Answer each query by asking an agent that speaks A2A"),
		dispatch.Command(p, dispatch.Bridge, "reader synadia", "Answer each query by prompting an agent on another NATS system"))
}

// readerOptions are the flags of reader command.
type readerOptions struct {
	client.AgentFlags
	timeout  cli.DurationFlag
	parallel int
	pass     []string
}

func readerProgramCommand(p *cli.Program) *cobra.Command {
	o := readerOptions{timeout: cli.DurationFlag{Value: stdio.DefaultTimeout, Least: 100 * time.Millisecond}}
	cmd := &cobra.Command{
		Use:   "command -- PROGRAM [ARG...]",
		Short: "Answer each query by running a program",
		Long: `Answer each query by running a program, in any language. It gets the query as one
line of JSON on stdin, and prints the answer, one JSON object of at most 64 KiB,
on stdout: {"urgent": true}, or {"not_enough_information": true}.

Each query has a run of its own. A run that fails, or whose answer cannot be read, is
repeated, up to three times in all, and so is one whose answer the gateway refuses;
the query then has attempt and last_detail, which says why. A run that takes longer
than --timeout is killed, with everything that it started. The program's stderr is
shown here, made inert.

The program gets PATH, HOME and the like of the environment, and what --pass names;
no creds. It runs as the user who runs this command.

Started by a mesh as an agent's command, it finds the creds and the mesh in its
environment, and needs no flags.`,
		Example: `  bcpmesh reader command --creds researcher.creds -- ./answer.py
  bcpmesh reader command --creds researcher.creds --timeout 2m --pass OPENAI_API_KEY -- python3 answer.py
  bcpmesh conformance reader -- bcpmesh reader command -- ./answer.py`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() != 0 {
				return cli.Usagef("reader command: expected -- PROGRAM").WithHint("for example bcpmesh reader command --creds researcher.creds -- ./answer.py")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.parallel < 1 || o.parallel > serve.MaxParallel {
				return cli.Usagef("reader command: --parallel: expected 1 to %d, got %d", serve.MaxParallel, o.parallel)
			}
			o.FromEnvironment(p.Env, bcp.RoleReader)
			if o.Creds == "" {
				return cli.Usagef("reader command: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
			}
			return answerWith(cmd.Context(), p, o, args)
		},
	}
	o.AddTo(cmd, "creds `FILE` of a reader (default: $BCPMESH_READER_CREDS)")
	cmd.Flags().Var(&o.timeout, "timeout", "how long one run may take")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "how many `RUNS` there may be at a time")
	cmd.Flags().StringArrayVar(&o.pass, "pass", nil, "pass on this `VARIABLE` of the environment; may be repeated")
	return cmd
}

// answerWith answers queries until interrupted.
func answerWith(ctx context.Context, p *cli.Program, o readerOptions, command []string) error {
	env, err := passedEnv(o.pass)
	if err != nil {
		return err
	}
	if _, err := process.LookUp(command[0], env); err != nil {
		return cli.Failf("there is no program %s in PATH", cli.Quoted(command[0])).WithHint("install it, or write its path: ./%s", command[0])
	}
	agent, err := o.Connect(ctx, p, "reader", o.parallel)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	if agent.Role != bcp.RoleReader {
		return cli.Failf("%s belongs to %s, %s: expected the creds of a reader", cli.Quoted(o.Creds), agent.Name, agent.Role)
	}
	answers := stdio.Program{
		Command: command, Env: env, Timeout: o.timeout.Value,
		Output: process.NewOutput(agent.Log), Logger: agent.Log,
	}
	defer answers.Output.End()
	// The runs end with ctx; what they had is asked again.
	return serve.Queries(ctx, p, agent.Conn, answers.Answer, string(agent.Name)+" answers with "+cli.Quoted(command[0]))
}
