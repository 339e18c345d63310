package contentguard

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// GuardCommand returns the command guard.
func GuardCommand(p *cli.Program) *cobra.Command {
	return cli.Group("guard", "Apply the content guard: redaction, fences, egress",
		`Apply the content guard without a mesh: hide secrets in a log, see whether a URL
is allowed, and how many bits fetching it would tell its host.

With --json and no argument each of these commands reads JSON lines from stdin,
{"id", "op", "in": {…}}, and writes one line {"id", …} for each, in order, for
tests and for other programs. A line that cannot be read gives {"id", "error"}.
Texts are strings, or lists whose parts are joined; a part may be
{"repeat": text, "times": n}.`,
		`  bcpmesh guard redact < app.log
  bcpmesh guard egress https://docs.example.com/ --allow "*.example.com"`,
		guardRedactCommand(p), guardCleanCommand(p), guardFenceCommand(p), guardTaintedCommand(p),
		guardEgressCommand(p), guardHostsCommand(p), guardAddressCommand(p), guardPriceCommand(p),
		guardFetchCommand(p), guardQuarantineCommand(p))
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
