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

// Tool does the calls of a service, by a program or with the tools of an MCP server.
type Tool struct {
	serving
	Remember string
	Pin      []string
}

// Run does calls until interrupted.
func (o *Tool) Run(ctx context.Context, p *cli.Program, args []string) error {
	program, err := o.begin(p, args, "pin", true, bcp.RoleTool)
	var pinned []wrap.Pinned
	if err == nil && program == nil {
		pinned, err = parsePins(o.Pin, args)
	}
	if err != nil {
		return err
	}
	return o.serve(ctx, p, program, func(ctx context.Context, agent *client.Client) error {
		if program == nil {
			return o.serveMCP(ctx, p, agent, args, pinned)
		}
		says := fmt.Sprintf("%s serves its tools with %s", agent.Name, cli.Quoted(program.Command[0]))
		return o.serveTools(ctx, p, agent.Connection, says, func(ctx context.Context, c agents.Call) (any, error) { return callProgram(ctx, program, c) })
	})
}

// notPerformed is the exit code of a program that did nothing, and may later: EX_TEMPFAIL.
const notPerformed = 75

// serveTools does all calls of a service until interrupted. What was done is kept in a
// file, if it has a name.
func (o *Tool) serveTools(ctx context.Context, p *cli.Program, conn *agents.Connection, says string, do func(context.Context, agents.Call) (any, error)) error {
	var outcomes *agents.Outcomes
	if o.Remember != "" {
		var err error
		if outcomes, err = agents.OpenOutcomes(o.Remember); err != nil {
			return cli.Failf("%s: %s", cli.Quoted(o.Remember), err)
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
func (o *Tool) serveMCP(ctx context.Context, p *cli.Program, agent *client.Client, command []string, pinned []wrap.Pinned) error {
	upstream, err := startUpstream(ctx, command, o.Pass, agent.Log)
	if err != nil {
		return err
	}
	defer upstream.Close()
	server, err := wrap.NewServer(upstream, o.Timeout.Value, pinned)
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
		return o.serveTools(ctx, p, agent.Connection, says, func(ctx context.Context, c agents.Call) (any, error) {
			result, err := server.Call(ctx, c)
			if errors.Is(err, agents.ErrToolChanged) {
				agent.Log.Error("a tool differs from its pin and was not called", "tool", c.Tool)
			}
			return result, err
		})
	})
}

// ToolImport drafts the definition of an MCP server's tools.
type ToolImport struct {
	Reader   bool
	Pass     []string
	URL, Key string `how:"own"`
	Command  *cobra.Command
}

// Run starts the server, lists its tools and prints a draft.
func (o *ToolImport) Run(ctx context.Context, p *cli.Program, args []string) error {
	switch {
	case o.URL != "" && (!o.Reader || len(args) != 1 || len(o.Pass) > 0):
		return cli.Usagef("tool import: --url is of tools of a Reader's model: expected SERVICE --reader --url URL").
			WithHint("for example bcpmesh tool import notes --reader --url https://mcp.example.com/mcp --key env:NOTES_KEY")
	case o.URL == "" && o.Key != "":
		return cli.Usagef("tool import: --key is of a server at a --url; --pass gives a command variables of the environment")
	case o.URL == "" && (o.Command.ArgsLenAtDash() != 1 || len(args) < 2):
		return cli.Usagef("tool import: expected SERVICE -- SERVER").WithHint("for example bcpmesh tool import notes -- npx -y @example/notes > tools/notes.yaml")
	}
	service, err := bcp.ParseAgentName(args[0])
	if err != nil {
		return cli.Usagef("tool import: %s is not a valid name for a service: %s", cli.Quoted(args[0]), err)
	}
	server := bcp.MCPServer{Service: bcp.Service{Name: service, Command: args[1:], Environment: o.Pass}, URL: o.URL, Key: o.Key}
	var upstream *wrap.Upstream
	if o.URL != "" {
		upstream, err = dialServer(ctx, meshdir.Folder{Dir: "."}, &server)
		if err != nil {
			err = cli.Failf("%s: %s", cli.Quoted(o.URL), err)
		}
	} else {
		upstream, err = startUpstream(ctx, server.Command, o.Pass, cli.NewLogger(hclog.Warn, p.Out.Stderr))
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
	if o.Reader {
		draft, err = wrap.DraftServer(&server, listed)
	} else {
		draft, err = wrap.Draft(service, o.Pass, server.Command, listed)
	}
	if err != nil {
		return err
	}
	_, err = p.Out.Stdout.Write(draft)
	return err
}
