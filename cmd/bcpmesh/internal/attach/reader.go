package attach

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/onecall"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/contentguard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/serve"
)

// readerOptions are the flags of reader.
type readerOptions struct {
	servingFlags
	tools, file, script string
	source              cli.WordFlag
}

// ReaderCommand returns the command reader.
func ReaderCommand(p *cli.Program) *cobra.Command {
	o := readerOptions{source: cli.WordFlag{Value: string(guard.File)}}
	for _, s := range guard.Sources {
		o.source.Words = append(o.source.Words, string(s))
	}
	cmd := &cobra.Command{
		Use: "reader [-- PROGRAM [ARG...]]",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			switch way, err := o.way(p, cmd, args, "", "mcp", "file"); {
			case err != nil:
				return err
			case way == "mcp":
				return o.answerWithTools(ctx, p)
			case way == "file":
				return o.answerByExtraction(ctx, p)
			}
			return o.answerWith(ctx, p, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addTo(cmd, bcp.RoleReader)
	cmd.Flags().StringVar(&o.tools, "mcp", "", "tools of an MCP server, a `FILE` that bcpmesh wrap wrote")
	cmd.Flags().StringVar(&o.file, "file", "", "the text that queries are about, a `FILE` of at most 64 KiB")
	cmd.Flags().StringVar(&o.script, "script", "", "with --file: what the model answers, a `FILE` of JSON lines")
	o.source.AddTo(cmd, "source", "with --file: the `SOURCE` of the text, such as web or mail")
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
	return serve.Queries(ctx, p, s.Conn, s.program.Answer, string(s.Name)+" answers with "+cli.Quoted(command[0]))
}

// answerWithTools answers queries with the tools of an MCP server until interrupted.
func (o *readerOptions) answerWithTools(ctx context.Context, p *cli.Program) error {
	file, err := readTools(o.tools)
	if err != nil {
		return err
	}
	o.parallel = serve.MaxParallel
	agent, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	if agent.Name != file.Reader {
		return cli.Failf("%s belongs to %s: expected the creds of the reader %s", cli.Quoted(o.Creds), agent.Name, file.Reader)
	}
	u, program, err := startUpstream(ctx, p, file.Server, o.pass, agent.Log)
	if err != nil {
		return err
	}
	defer u.Close()
	answers, changed, err := wrap.NewReader(ctx, file, u, program)
	if err != nil {
		return cli.Failf("%s", err)
	}
	if len(changed) > 0 {
		p.Out.Talkf("these tools differ from their pins and are refused: %s; review them with bcpmesh wrap %s --accept", cli.Plain(strings.Join(changed, ", ")), file.Reader)
	}
	ctx, ended := untilEnd(ctx, u, file.Server[0])
	err = serve.Queries(ctx, p, agent.Conn, answers.Answer, string(agent.Name)+" answers with "+cli.Count(len(file.Tools)-len(changed), "tool"))
	return ended(err)
}

// answerByExtraction answers queries with a model without tools until interrupted.
func (o *readerOptions) answerByExtraction(ctx context.Context, p *cli.Program) error {
	if o.script == "" {
		return cli.Usagef("reader: --file needs --script FILE").WithHint("for example --file page.txt --script model.jsonl")
	}
	turns, err := contentguard.ReadTurns(o.script)
	if err != nil {
		return err
	}
	if _, err := cli.ReadSmall(o.file); err != nil {
		return cli.Failf("%s cannot be read: %s", cli.Quoted(o.file), cli.FileReason(err))
	}
	agent, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	answers := onecall.Reader{
		Model: func() llm.Endpoint { return llm.Endpoint{Provider: &llm.Script{Turns: turns}, Model: "scripted"} },
		Content: func(context.Context, agents.Query) (string, guard.Source, error) {
			text, err := cli.ReadSmall(o.file)
			return string(text), guard.Source(o.source.Value), err
		},
	}
	return serve.Queries(ctx, p, agent.Conn, answers.Answer, string(agent.Name)+" answers from "+cli.Quoted(o.file))
}
