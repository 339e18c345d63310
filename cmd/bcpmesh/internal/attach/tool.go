package attach

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/office"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// toolOptions are the flags of tool.
type toolOptions struct {
	servingFlags
	office, from, remember string
	definition             bool
	pins                   []string
}

// ToolCommand returns the command tool.
func ToolCommand(p *cli.Program) *cobra.Command {
	var o toolOptions
	cmd := &cobra.Command{
		Use: "tool [-- PROGRAM [ARG...]]",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.definition {
				if len(args) > 0 {
					return cli.Arguments(0)(cmd, args)
				}
				_, err := p.Out.Stdout.Write(office.Definition)
				return err
			}
			switch way, err := o.way(p, cmd, args, "pin", "office"); {
			case err != nil:
				return err
			case way == "office":
				return o.serveOffice(cmd.Context(), p)
			case way == "pin":
				return o.serveMCP(cmd.Context(), p, args)
			}
			return o.serveProgram(cmd.Context(), p, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addTo(cmd, bcp.RoleTool)
	cmd.Flags().StringVar(&o.remember, "remember", "", "remember finished calls in this `FILE`")
	cmd.Flags().StringArrayVar(&o.pins, "pin", nil, "a `TOOL` of the MCP server after --, as bcpmesh tool import writes it; may be repeated")
	cmd.Flags().StringVar(&o.office, "office", "", "serve the office in this `DIR`")
	cmd.Flags().StringVar(&o.from, "from", "bcpmesh@localhost", "with --office: `ADDRESS` that mails are sent from")
	cmd.Flags().BoolVar(&o.definition, "definition", false, "print the definition of an office's tools, and serve nothing")
	cmd.AddCommand(toolImportCommand(p))
	return cmd
}

// notPerformed is the exit code of a program that did nothing, and may later: EX_TEMPFAIL.
const notPerformed = 75

// serveProgram does each call by running a program.
func (o *toolOptions) serveProgram(ctx context.Context, p *cli.Program, command []string) error {
	s, err := o.connectProgram(ctx, p, command)
	if err != nil {
		return err
	}
	defer s.close()
	return serveTools(ctx, p, s.Conn, o.remember, fmt.Sprintf("%s serves its tools with %s", s.Name, cli.Quoted(command[0])), func(ctx context.Context, c agents.Call) (any, error) {
		return callProgram(ctx, &s.program, c)
	})
}

// rememberedFile is where the tools of an office keep what they did, in its folder.
const rememberedFile = ".done"

// serveOffice serves the tools of an office.
func (o *toolOptions) serveOffice(ctx context.Context, p *cli.Program) error {
	opened, err := office.Open(o.office, o.from)
	if err != nil {
		return cli.Failf("%s", err).WithHint("bcpmesh tool --help says what is in the folder")
	}
	defer func() { _ = opened.Close() }() // every effect is on the disk
	agent, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	return serveTools(ctx, p, agent.Conn, filepath.Join(o.office, rememberedFile), fmt.Sprintf("%s serves the office in %s", agent.Name, cli.Quoted(o.office)),
		func(ctx context.Context, c agents.Call) (any, error) { return opened.Call(ctx, c) })
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
