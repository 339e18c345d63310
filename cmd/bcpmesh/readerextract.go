package main

import (
	"bufio"
	"bytes"
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/extract"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// extractOptions are the flags of reader extract.
type extractOptions struct {
	agentFlags
	file, script string
	source       wordFlag
	parallel     int
}

func readerExtractCommand(p *program) *cobra.Command {
	o := extractOptions{source: wordFlag{value: string(guard.File), words: sourceWords()}}
	cmd := &cobra.Command{
		Use:   "extract --file FILE --script FILE",
		Short: "Answer each query by a model without tools that reads a file",
		Long: `Answer each query by a model without tools that reads a file: the text reaches the
model in a fence, and what it returns is an object in the shape of the query's spec,
or not_enough_information. A model that answers with text, or calls anything else,
has not answered. The gateway validates and charges the answer like any other.

The file is read anew for each query. The model is scripted: --script has a turn a
line, {"structured": object}, {"structured_raw": text}, {"text"}, {"tool_call":
{"name", "args"}} or {"error"}, and each query begins with the first of them. Other
models are for programs in Go: package agents/extract takes any.`,
		Example: `  bcpmesh reader extract --creds researcher.creds --file page.txt --source web --script model.jsonl`,
		Args:    arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.file == "" || o.script == "" {
				return usagef("reader extract: expected --file FILE and --script FILE").withHint("for example bcpmesh reader extract --creds researcher.creds --file page.txt --script model.jsonl")
			}
			if o.parallel < 1 || o.parallel > maxParallel {
				return usagef("reader extract: --parallel: expected 1 to %d, got %d", maxParallel, o.parallel)
			}
			o.fromEnvironment(p.env, bcp.RoleReader)
			if o.creds == "" {
				return usagef("reader extract: expected --creds FILE").withHint("bcpmesh creds issue AGENT --out FILE makes one")
			}
			return answerByExtraction(cmd.Context(), p, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addTo(cmd, "creds `FILE` of a reader (default: $BCPMESH_READER_CREDS)")
	cmd.Flags().StringVar(&o.file, "file", "", "the text that queries are about, a `FILE` of at most 64 KiB")
	cmd.Flags().StringVar(&o.script, "script", "", "what the model answers, a `FILE` of JSON lines")
	o.source.addTo(cmd, "source", "the `SOURCE` of the text: "+strings.Join(o.source.words, ", "))
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
func answerByExtraction(ctx context.Context, p *program, o extractOptions) error {
	turns, err := readTurns(o.script)
	if err != nil {
		return err
	}
	if _, err := readSmall(o.file); err != nil {
		return failf("%s cannot be read: %s", quoted(o.file), reasonOf(err))
	}
	agent, err := o.connect(ctx, p, "reader", o.parallel)
	if err != nil {
		return err
	}
	defer agent.conn.Close()
	if agent.role != bcp.RoleReader {
		return failf("%s is of %s, %s: expected the creds of a reader", quoted(o.creds), agent.name, agent.role)
	}
	answers := extract.Reader{
		Model: func() llm.Endpoint { return llm.Endpoint{Provider: &llm.Script{Turns: turns}, Model: "scripted"} },
		Content: func(context.Context, agents.Query) (string, guard.Source, error) {
			text, err := readSmall(o.file)
			return string(text), guard.Source(o.source.value), err
		},
	}
	reader := agents.NewReader(agent.conn)
	reader.OnQuery(answers.Answer)
	if err := reader.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return outcomeOf(err)
	}
	p.out.talkf("%s answers from %s", agent.name, quoted(o.file))
	<-ctx.Done()
	_ = reader.Stop(context.WithoutCancel(ctx))
	return nil
}

// readTurns reads what a scripted model answers.
func readTurns(file string) ([]llm.ScriptTurn, error) {
	content, err := readSmall(file)
	if err != nil {
		return nil, failf("%s cannot be read: %s", quoted(file), reasonOf(err))
	}
	var turns []llm.ScriptTurn
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxSmallFile)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var turn modelTurn
		if err := json.Unmarshal(lines.Bytes(), &turn, caseOptions, json.RejectUnknownMembers(true)); err != nil {
			return nil, failf("%s:%d: expected a turn such as {\"structured\": {\"urgent\": true}}", file, n)
		}
		turns = append(turns, turn.script())
	}
	return turns, lines.Err()
}
