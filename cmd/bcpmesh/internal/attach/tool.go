package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/cmd/internal/serve"
)

// ToolCommand returns the command tool.
func ToolCommand(p *cli.Program) *cobra.Command {
	return cli.Group("tool", "Serve tools that kernels call",
		`Serve the tools of a service that kernels call: those of an office or of an MCP server,
or with a program that knows nothing of the mesh. tools/*.yaml defines them:
docs/kernel.md.`,
		"  bcpmesh tool command --creds mail.creds -- ./mail.py\n  bcpmesh tool office --definition > tools/office.yaml\n  bcpmesh tool import notes -- npx -y @example/notes > tools/notes.yaml",
		toolProgramCommand(p), toolOfficeCommand(p), toolMCPCommand(p), toolImportCommand(p))
}

// programFlags are of a command that runs a program for each message.
type programFlags struct {
	client.AgentFlags
	timeout  cli.DurationFlag
	parallel int
	pass     []string
}

func (o *programFlags) addTo(cmd *cobra.Command, creds string) {
	o.timeout = cli.DurationFlag{Value: stdio.DefaultTimeout, Least: 100 * time.Millisecond}
	o.AddTo(cmd, creds)
	cmd.Flags().Var(&o.timeout, "timeout", "how long one run may take")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "how many `RUNS` there may be at a time")
	cmd.Flags().StringArrayVar(&o.pass, "pass", nil, "pass on this `VARIABLE` of the environment; may be repeated")
}

// programArgs takes -- PROGRAM.
func programArgs(example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || cmd.ArgsLenAtDash() != 0 {
			return cli.Usagef("%sexpected -- PROGRAM", cli.Prefix(cmd)).WithHint("for example %s", example)
		}
		return nil
	}
}

// served is a program with the connection that it serves.
type served struct {
	*client.ServedAgent
	program stdio.Program
}

func (s *served) close() {
	s.program.Output.End()
	s.Conn.Close()
}

// connect finds the program, and connects in a role.
func (o *programFlags) connect(ctx context.Context, p *cli.Program, roles []bcp.Role, command []string) (*served, error) {
	if o.parallel < 1 || o.parallel > serve.MaxParallel {
		return nil, cli.Usagef("--parallel: expected 1 to %d, got %d", serve.MaxParallel, o.parallel)
	}
	o.Roles = roles
	if o.FromEnvironment(p.Env, roles...); o.Creds == "" {
		return nil, cli.Usagef("expected --creds FILE").WithHint("bcpmesh creds issue NAME --out FILE makes one")
	}
	env, err := passedEnv(o.pass)
	if err != nil {
		return nil, err
	}
	if _, err := process.LookUp(command[0], env); err != nil {
		return nil, cli.Failf("there is no program %s in PATH", cli.Quoted(command[0])).WithHint("install it, or write its path: ./%s", command[0])
	}
	agent, err := o.Connect(ctx, p, roles[0].String(), o.parallel)
	if err != nil {
		return nil, err
	}
	return &served{agent, stdio.Program{
		Command: command, Env: env, Timeout: o.timeout.Value, Output: process.NewOutput(agent.Log), Logger: agent.Log,
	}}, nil
}

// notPerformed is the exit code of a program that did nothing, and may later: EX_TEMPFAIL.
const notPerformed = 75

func toolProgramCommand(p *cli.Program) *cobra.Command {
	var o programFlags
	var remember string
	const example = "bcpmesh tool command --creds mail.creds -- ./mail.py"
	cmd := &cobra.Command{
		Use:   "command -- PROGRAM [ARG...]",
		Short: "Run a program for each call of a service's tools",
		Long: `Execute each call of a service's tools by running a program, in any language. It gets
the call as one line of JSON on stdin: {"tool": "send_email", "args": {"to": …},
"key": …, "attempt": 1}, and prints the tool's result, in the form of its
output_schema.

The kernel has judged the call, and its arguments match the tool's input_schema. A
program that exits with a code other than 0 has failed, and may have done its work; 75
means that it did nothing. A run that takes longer than --timeout is killed: nobody
knows what it did, so that the call is repeated, or a person decides, by the tool's
idempotency.

key is the same when a call is repeated because its answer was lost. Finished calls
are remembered by key and not done again: while this command runs or, with --remember,
for a day in that file. A tool with idempotency: key needs the file.

The program gets PATH, HOME and the like of the environment, and what --pass names;
no creds. Started by a mesh as a service's command, it needs no flags.`,
		Example: "  " + example + "\n  bcpmesh tool command --creds mail.creds --remember mail.done --pass SMTP_PASSWORD -- python3 mail.py",
		Args:    programArgs(example),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := o.connect(ctx, p, []bcp.Role{bcp.RoleTool}, args)
			if err != nil {
				return err
			}
			defer s.close()
			return serveTools(ctx, p, s.Conn, remember, fmt.Sprintf("%s serves its tools with %s", s.Name, cli.Quoted(args[0])), func(ctx context.Context, c agents.Call) (any, error) {
				return callProgram(ctx, &s.program, c)
			})
		},
	}
	o.addTo(cmd, "creds `FILE` of a tool service (default: $BCPMESH_TOOL_CREDS)")
	cmd.Flags().StringVar(&remember, "remember", "", "remember finished calls in this `FILE`")
	return cmd
}

// serveTools does all calls of a service until interrupted. What was done is kept in a
// file, if it has a name.
func serveTools(ctx context.Context, p *cli.Program, conn *agents.Connection, remember, says string, do func(context.Context, agents.Call) (any, error)) error {
	var outcomes *agents.Outcomes
	if remember != "" {
		var err error
		if outcomes, err = agents.OpenOutcomes(remember); err != nil {
			return cli.Failf("%s: %s", cli.Quoted(remember), err)
		}
		defer outcomes.Close()
	}
	tool := agents.NewTool(conn, outcomes)
	tool.HandleAll(do)
	if err := tool.Start(ctx); err != nil {
		return meshdir.Failure(err)
	}
	p.Out.Talkf("%s", says)
	<-ctx.Done()
	_ = tool.Stop(context.WithoutCancel(ctx))
	return nil
}

// callProgram has a program do one call.
func callProgram(ctx context.Context, program *stdio.Program, c agents.Call) (any, error) {
	line, err := json.Marshal(struct {
		Tool    string         `json:"tool"`
		Args    jsontext.Value `json:"args"`
		Key     string         `json:"key"`
		Attempt int            `json:"attempt"`
		Kernel  bcp.AgentName  `json:"kernel"`
	}{c.Tool, c.Args, c.Key, c.Attempt, c.Kernel})
	if err != nil {
		return nil, &agents.NotPerformedError{Err: err}
	}
	printed, exit, err := program.Once(ctx, append(line, '\n'))
	var run *stdio.RunError
	switch {
	case exit == notPerformed:
		return nil, &agents.NotPerformedError{Err: err}
	case errors.As(err, &run) && run.Killed:
		return nil, fmt.Errorf("%w: %w", agents.ErrNoOutcome, err)
	case err != nil:
		return nil, err
	}
	result := jsontext.Value(printed)
	if !result.IsValid() {
		return nil, errors.New("its output is not one JSON value")
	}
	return result, nil // the kernel says whether it is of the tool's output_schema
}
