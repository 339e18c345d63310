package attach

import (
	"context"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// Reader answers the queries of a reader, by a program or with the tools of an MCP server.
type Reader struct {
	serving
	MCP string
}

// Run answers until interrupted.
func (o *Reader) Run(ctx context.Context, p *cli.Program, args []string) error {
	program, err := o.begin(p, args, "mcp", false, bcp.RoleReader)
	var file *wrap.File
	if err == nil && program == nil {
		file, err = readTools(o.MCP)
		o.Parallel = client.MaxParallel
	}
	if err != nil {
		return err
	}
	return o.serve(ctx, p, program, func(ctx context.Context, agent *client.Client) error {
		if program == nil {
			return o.answerWithTools(ctx, p, agent, file)
		}
		// The runs end with ctx; what they had is asked again.
		return client.ServeQueries(ctx, p, agent.Connection, program.Answer, string(agent.Name)+" answers with "+cli.Quoted(program.Command[0]))
	})
}

// answerWithTools answers queries with the tools of an MCP server until interrupted.
func (o *Reader) answerWithTools(ctx context.Context, p *cli.Program, agent *client.Client, file *wrap.File) error {
	if agent.Name != file.Reader {
		return cli.Failf("%s belongs to %s: expected the creds of the reader %s", cli.Quoted(o.Creds), agent.Name, file.Reader)
	}
	u, err := startUpstream(ctx, file.Server, o.Pass, agent.Log)
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
