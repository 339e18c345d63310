package attach

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/onecall"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/contentguard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/serve"
)

// extractOptions are the flags of reader extract.
type extractOptions struct {
	client.AgentFlags
	file, script string
	source       cli.WordFlag
	parallel     int
}

func readerExtractCommand(p *cli.Program) *cobra.Command {
	o := extractOptions{source: cli.WordFlag{Value: string(guard.File), Words: sourceWords()}}
	cmd := &cobra.Command{
		Use:   "extract --file FILE --script FILE",
		Short: "Answer each query with a model without tools that reads a file",
		Long: `Answer each query by a model without tools that reads a file: the text reaches the
model in a fence, and what it returns is an object in the shape of the query's spec,
or not_enough_information. A model that answers with text, or calls anything else,
has not answered. The gateway validates and charges the answer like any other.

The file is read again for each query. The model is scripted: --script has one turn
per line, {"structured": object}, {"structured_raw": text}, {"text"}, {"tool_call":
{"name", "args"}} or {"error"}, and each query begins with the first of them. Other
models are for programs in Go: package agents/onecall takes any.`,
		Example: `  bcpmesh reader extract --creds researcher.creds --file page.txt --source web --script model.jsonl`,
		Args:    cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.file == "" || o.script == "" {
				return cli.Usagef("reader extract: expected --file FILE and --script FILE").WithHint("for example bcpmesh reader extract --creds researcher.creds --file page.txt --script model.jsonl")
			}
			if o.parallel < 1 || o.parallel > serve.MaxParallel {
				return cli.Usagef("reader extract: --parallel: expected 1 to %d, got %d", serve.MaxParallel, o.parallel)
			}
			o.FromEnvironment(p.Env, bcp.RoleReader)
			if o.Creds == "" {
				return cli.Usagef("reader extract: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
			}
			return answerByExtraction(cmd.Context(), p, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddTo(cmd, "creds `FILE` of a reader (default: $BCPMESH_READER_CREDS)")
	cmd.Flags().StringVar(&o.file, "file", "", "the text that queries are about, a `FILE` of at most 64 KiB")
	cmd.Flags().StringVar(&o.script, "script", "", "what the model answers, a `FILE` of JSON lines")
	o.source.AddTo(cmd, "source", "the `SOURCE` of the text: "+strings.Join(o.source.Words, ", "))
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "how many `QUERIES` are answered at a time")
	return cmd
}

func sourceWords() []string {
	var words []string
	for _, s := range guard.Sources {
		words = append(words, string(s))
	}
	return words
}

// answerByExtraction answers queries until interrupted.
func answerByExtraction(ctx context.Context, p *cli.Program, o extractOptions) error {
	turns, err := contentguard.ReadTurns(o.script)
	if err != nil {
		return err
	}
	if _, err := cli.ReadSmall(o.file); err != nil {
		return cli.Failf("%s cannot be read: %s", cli.Quoted(o.file), cli.FileReason(err))
	}
	agent, err := o.Connect(ctx, p, "reader", o.parallel)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	if agent.Role != bcp.RoleReader {
		return cli.Failf("%s belongs to %s, %s: expected the creds of a reader", cli.Quoted(o.Creds), agent.Name, agent.Role)
	}
	answers := onecall.Reader{
		Model: func() llm.Endpoint { return llm.Endpoint{Provider: &llm.Script{Turns: turns}, Model: "scripted"} },
		Content: func(context.Context, agents.Query) (string, guard.Source, error) {
			text, err := cli.ReadSmall(o.file)
			return string(text), guard.Source(o.source.Value), err
		},
	}
	return serve.Queries(ctx, p, agent.Conn, answers.Answer, string(agent.Name)+" answers from "+cli.Quoted(o.file))
}
