package contentguard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// guardFlags are the flags of guard.
type guardFlags struct {
	set, source cli.WordFlag
	allow       allowFlags
	starts      uint64
	served      []uint
}

// operation is one thing that the guard does: to a text, which people may stream, or to an argument.
type operation struct {
	name, flags, argument string
	judge                 judgement
	in                    func(text string) any
	text                  func(string) error
	stream                func(io.Reader) error
	one                   func(argument string) error
}

// GuardCommand returns the command guard.
func GuardCommand(p *cli.Program) *cobra.Command {
	var g guardFlags
	g.set = cli.WordFlag{Value: guard.All.String(), Words: []string{guard.All.String(), guard.Keys.String(), guard.Seed.String()}}
	g.source = cli.WordFlag{Value: string(guard.File), Name: "SOURCE"}
	for _, s := range guard.Sources {
		g.source.Words = append(g.source.Words, string(s))
	}
	operations := g.operations(p)
	var names []string
	for _, o := range operations {
		names = append(names, o.name)
	}
	cmd := &cobra.Command{
		Use:  "guard OPERATION [FILE|ARGUMENT]",
		Args: cli.Arguments(1, "OPERATION", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := slices.Index(names, args[0])
			if at < 0 {
				f := cli.Usagef("guard: no operation %s", cli.Quoted(args[0]))
				if near := cli.Suggestion(args[0], names); near != "" {
					return f.WithHint("did you mean %s?", near)
				}
				return f.WithHint("%s --help lists them", cmd.CommandPath())
			}
			return g.run(cmd, p, &operations[at], args[1:])
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	g.set.AddTo(cmd, "set", "redact: which rules; keys leaves hex and base64 alone")
	g.source.AddTo(cmd, "source", "fence: where the text came from")
	g.allow.addTo(cmd)
	cmd.Flags().Uint64Var(&g.starts, "start-urls", 0, "price: how many start `URLS` there are, for a link")
	cmd.Flags().UintSliceVar(&g.served, "served", nil, "price: `BYTES` of each page served, for a link")
	return cmd
}

// run does one operation, for people or for cases.
func (g *guardFlags) run(cmd *cobra.Command, p *cli.Program, o *operation, args []string) error {
	for _, name := range []string{"set", "source", "allow", "start-urls", "served"} {
		if cmd.Flags().Changed(name) && !slices.Contains(strings.Fields(o.flags), name) {
			return cli.Usagef("guard %s: --%s does nothing here", o.name, name)
		}
	}
	ctx, link := cmd.Context(), cmd.Flags().Changed("start-urls") || cmd.Flags().Changed("served")
	argument := strings.Join(args, "")
	switch {
	case len(args) > 0 && o.one == nil && o.in == nil:
		return cli.Usagef("guard %s: one argument too many: %s", o.name, cli.Quoted(argument))
	case p.Out.JSON && len(args) == 0 && !link:
		return judgeLines(ctx, p, o.name, o.judge)
	case o.name == "hosts" && len(args) == 0:
		return o.one(p.Env(guard.AllowVariable))
	case o.one != nil && (len(args) > 0 || link):
		return o.one(argument)
	case o.one != nil:
		return cli.Usagef("guard %s: expected %s", o.name, o.argument).WithHint("or --json, to read cases from stdin")
	case o.in == nil:
		return cli.Usagef("guard %s: expected --json", o.name).WithHint("it reads cases from stdin; bcpmesh fetch gets a page from the real network")
	}
	return readInput(ctx, p, argument, func(r io.Reader) error {
		if o.stream != nil && !p.Out.JSON {
			return o.stream(r)
		}
		text, err := readText(r)
		switch {
		case err != nil:
			return err
		case p.Out.JSON:
			return judgeOne(ctx, p, o.judge, o.in(text))
		}
		return o.text(text)
	})
}

// judgement judges one case. What it returns has the keys of the result; the code says why there is none.
type judgement func(ctx context.Context, in jsontext.Value) (any, guard.Code)

// Codes of cases that cannot be judged.
const (
	unreadableCase guard.Code = "malformed"
	otherOp        guard.Code = "op"
	tooLargeCase   guard.Code = "too_large"
	unknownSource  guard.Code = "source"
	unknownSet     guard.Code = "set"
)

// guardCase is one line of the input.
type guardCase struct {
	ID jsontext.Value `json:"id"`
	Op string         `json:"op"`
	In jsontext.Value `json:"in"`
}

// caseOptions read cases leniently where no byte of an agent is judged by it: more keys are ignored, and what is no Unicode
// becomes U+FFFD.
var caseOptions = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(false))

// judgeLines judges the cases of one command.
func judgeLines(ctx context.Context, p *cli.Program, op string, judge judgement) error {
	if cli.IsTerminal(p.In) {
		p.Out.Talkf("reading cases from the terminal; Ctrl-D ends them")
	}
	lines := cli.NewLineReader(cli.Interruptible(ctx, p.In))
	for {
		if lines.Waits() {
			if err := p.Out.Stdout.Flush(); err != nil {
				return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
			}
		}
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, cli.ErrLongLine):
			err = writeCase(p, nil, nil, tooLargeCase)
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return cli.Failf("the input cannot be read: %s", cli.FileReason(err))
		default:
			err = judgeLine(ctx, p, op, judge, line)
		}
		if err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
	}
}

func judgeLine(ctx context.Context, p *cli.Program, op string, judge judgement, line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var c guardCase
	if err := json.Unmarshal(line, &c, caseOptions); err != nil {
		return writeCase(p, c.ID, nil, unreadableCase)
	}
	switch {
	case c.Op != "" && c.Op != op:
		return writeCase(p, c.ID, nil, otherOp)
	case c.In.Kind() != '{':
		return writeCase(p, c.ID, nil, unreadableCase)
	}
	result, code := judge(ctx, c.In)
	return writeCase(p, c.ID, result, code)
}

// writeCase writes the line of one case: its id before the keys of the result.
func writeCase(p *cli.Program, id jsontext.Value, result any, code guard.Code) error {
	if !id.IsValid(jsontext.AllowInvalidUTF8(true)) {
		id = jsontext.Value("null")
	}
	if code != "" {
		result = struct {
			Error guard.Code `json:"error"`
		}{code}
	}
	keys, err := json.Marshal(result, json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	line := append([]byte(`{"id":`), id...)
	return p.Out.HarmlessLine(append(append(line, ','), keys[1:]...))
}
