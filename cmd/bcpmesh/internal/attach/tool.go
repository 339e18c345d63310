package attach

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// ToolCommand returns the command tool.
func ToolCommand(p *cli.Program) *cobra.Command {
	var remember string
	var pins []string
	o := serving{flag: "pin", behind: true, program: func(ctx context.Context, agent *client.Client, program *stdio.Program) error {
		says := fmt.Sprintf("%s serves its tools with %s", agent.Name, cli.Quoted(program.Command[0]))
		return serveTools(ctx, p, agent.Connection, remember, says, func(ctx context.Context, c agents.Call) (any, error) {
			return callProgram(ctx, program, c)
		})
	}}
	o.open = func(command []string) (func(context.Context, *client.Client) error, error) {
		pinned, err := parsePins(pins, command)
		return func(ctx context.Context, agent *client.Client) error {
			return o.serveMCP(ctx, p, agent, command, pinned, remember)
		}, err
	}
	cmd := o.command(p, "tool [-- PROGRAM [ARG...]]", bcp.RoleTool)
	cmd.Flags().StringVar(&remember, "remember", "", "remember finished calls in this `FILE`")
	cmd.Flags().StringArrayVar(&pins, "pin", nil, "a `TOOL` of the MCP server after --, as bcpmesh tool import writes it; may be repeated")
	cmd.AddCommand(toolImportCommand(p))
	return cmd
}

// notPerformed is the exit code of a program that did nothing, and may later: EX_TEMPFAIL.
const notPerformed = 75

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
	return client.ServeUntil(ctx, p, agents.NewTool(conn, outcomes, do), says)
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

func parsePins(pins, command []string) (pinned []wrap.Pinned, err error) {
	if len(command) == 0 {
		return nil, cli.Usagef("tool: --pin: expected -- SERVER").WithHint("bcpmesh tool import SERVICE -- SERVER writes the definition with all pins")
	}
	for _, text := range pins {
		pin, err := wrap.ParsePinned(text)
		if err != nil {
			return nil, cli.Usagef("tool: --pin %s: %s", cli.Quoted(text), err)
		}
		pinned = append(pinned, pin)
	}
	return pinned, nil
}

// serveMCP serves the pinned tools of an MCP server until interrupted, or until the server ends.
func (o *serving) serveMCP(ctx context.Context, p *cli.Program, agent *client.Client, command []string, pinned []wrap.Pinned, remember string) error {
	upstream, err := startUpstream(ctx, command, o.pass, agent.Log)
	if err != nil {
		return err
	}
	defer upstream.Close()
	server, err := wrap.NewServer(upstream, o.timeout.Value, pinned)
	if err != nil {
		return cli.Usagef("tool: --pin: %s", err)
	}
	changed, unknown, err := server.Check(ctx)
	if err != nil {
		return err
	}
	for _, name := range changed {
		agent.Log.Error("a tool differs from its pin and is not called", "tool", name)
	}
	if len(unknown) > 0 {
		agent.Log.Warn("the server has tools that are not pinned; they are not called", "count", len(unknown))
	}
	says := fmt.Sprintf("%s serves %s of %s", agent.Name, cli.Count(len(pinned)-len(changed), "tool"), cli.Quoted(command[0]))
	return whileRuns(ctx, upstream, command[0], func(ctx context.Context) error {
		return serveTools(ctx, p, agent.Connection, remember, says, func(ctx context.Context, c agents.Call) (any, error) {
			result, err := server.Call(ctx, c)
			if errors.Is(err, agents.ErrToolChanged) {
				agent.Log.Error("a tool differs from its pin and was not called", "tool", c.Tool)
			}
			return result, err
		})
	})
}

func toolImportCommand(p *cli.Program) *cobra.Command {
	var pass []string
	var reader bool
	var url, key string
	const example = "bcpmesh tool import notes -- npx -y @example/notes > tools/notes.yaml"
	const remote = "bcpmesh tool import notes --reader --url https://mcp.example.com/mcp --key env:NOTES_KEY"
	cmd := cli.Command("import SERVICE [-- SERVER [ARG...]]", func(ctx context.Context, args []string) error {
		service, err := bcp.ParseAgentName(args[0])
		if err != nil {
			return cli.Usagef("tool import: %s is not a valid name for a service: %s", cli.Quoted(args[0]), err)
		}
		server := bcp.MCPServer{Service: bcp.Service{Name: service, Command: args[1:], Environment: pass}, URL: url, Key: key}
		var upstream *wrap.Upstream
		if url != "" {
			upstream, err = dialServer(ctx, meshdir.Folder{Dir: "."}, &server)
			if err != nil {
				err = cli.Failf("%s: %s", cli.Quoted(url), err)
			}
		} else {
			upstream, err = startUpstream(ctx, server.Command, pass, cli.NewLogger(hclog.Warn, p.Out.Stderr))
		}
		if err != nil {
			return err
		}
		defer upstream.Close()
		listed, err := upstream.Tools(ctx)
		if err != nil {
			return err
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
			return err
		}
		_, err = p.Out.Stdout.Write(draft)
		return err
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
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
	}
	cmd.Flags().BoolVar(&reader, "reader", false, "draft tools of a Reader's model instead of a service of kernels")
	cmd.Flags().StringArrayVar(&pass, "pass", nil, "pass on this `VARIABLE` of the environment; may be repeated")
	cmd.Flags().StringVar(&url, "url", "", "`URL` of a server that speaks streamable HTTP")
	cmd.Flags().StringVar(&key, "key", "", "where its key is: `PLACE` env:NAME, file:PATH or command:WORDS")
	return cmd
}
