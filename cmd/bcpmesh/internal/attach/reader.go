package attach

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// ReaderCommand returns the command reader.
func ReaderCommand(p *cli.Program) *cobra.Command {
	var tools string
	o := serving{flag: "mcp", program: func(ctx context.Context, agent *client.Client, program *stdio.Program) error {
		// The runs end with ctx; what they had is asked again.
		return client.ServeQueries(ctx, p, agent.Connection, program.Answer, string(agent.Name)+" answers with "+cli.Quoted(program.Command[0]))
	}}
	o.open = func([]string) (func(context.Context, *client.Client) error, error) {
		file, err := readTools(tools)
		o.parallel = client.MaxParallel
		return func(ctx context.Context, agent *client.Client) error { return o.answerWithTools(ctx, p, agent, file) }, err
	}
	cmd := o.command(p, "reader [-- PROGRAM [ARG...]]", bcp.RoleReader)
	cmd.Flags().StringVar(&tools, "mcp", "", "tools of an MCP server, a `FILE` that bcpmesh wrap wrote")
	return cmd
}

// answerWithTools answers queries with the tools of an MCP server until interrupted.
func (o *serving) answerWithTools(ctx context.Context, p *cli.Program, agent *client.Client, file *wrap.File) error {
	if agent.Name != file.Reader {
		return cli.Failf("%s belongs to %s: expected the creds of the reader %s", cli.Quoted(o.Creds), agent.Name, file.Reader)
	}
	u, err := startUpstream(ctx, file.Server, o.pass, agent.Log)
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
	return whileRuns(ctx, u, file.Server[0], func(ctx context.Context) error {
		return client.ServeQueries(ctx, p, agent.Connection, answers.Answer, string(agent.Name)+" answers with "+cli.Count(len(file.Tools)-len(changed), "tool"))
	})
}
