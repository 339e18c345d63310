package define

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	agentsfolder "github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// ValidateCommand returns the command validate.
func ValidateCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:               "validate [FILE...]",
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE:              func(cmd *cobra.Command, args []string) error { return validate(cmd.Context(), p, args) },
	}
}

// caseVerdict is one line of the output; its keys are a contract.
type caseVerdict struct {
	ID           jsontext.Value `json:"id"`
	Verdict      string         `json:"verdict"`
	Code         bcp.Code       `json:"code"`
	Field        string         `json:"field"`
	Response     jsontext.Value `json:"response"`
	Delivered    string         `json:"delivered"`
	NominalBits  bcp.Bits       `json:"nominal_bits"`
	CapacityBits bcp.Bits       `json:"capacity_bits"`
	Anomalies    []string       `json:"anomalies"`
}

const invalidSpec = "invalid_spec"

func validate(ctx context.Context, p *cli.Program, files []string) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	var size int64
	for _, name := range files {
		if name == "-" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		if info.IsDir() {
			return cli.Failf("%s is a folder", cli.Quoted(name))
		}
		size += info.Size()
	}
	j := &judge{out: p.Out, progress: io.Discard, ready: map[string]compiled{}}
	if size > 0 && p.Out.TalkTerminal && !p.Out.Terminal {
		bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(p.Out.Stderr), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("validate"))
		defer bar.Close()
		j.progress = bar
	}
	for _, name := range files {
		if err := j.file(ctx, p, name); err != nil {
			return err
		}
	}
	if j.bad > 0 {
		return cli.Failf("%s not judged", cli.Count(j.bad, "line"))
	}
	return nil
}

// judge keeps what one run of validate needs from line to line.
type judge struct {
	out      *cli.Output
	progress io.Writer
	ready    map[string]compiled
	bad      int
}

func (j *judge) file(ctx context.Context, p *cli.Program, name string) error {
	at := ""
	input := p.In
	if name == "-" {
		if cli.IsTerminal(p.In) {
			p.Out.Talkf("reading cases from the terminal; Ctrl-D ends them")
		}
	} else {
		at = cli.Plain(name) + ": "
		f, err := agentsfolder.OpenFile(name)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		defer f.Close()
		input = io.TeeReader(f, j.progress)
	}
	lines := cli.NewLineReader(cli.Interruptible(ctx, input))
	for {
		if lines.Waits() {
			if err := p.Out.Stdout.Flush(); err != nil {
				return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
			}
		}
		line, err := lines.Next()
		var v caseVerdict
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, cli.ErrLongLine):
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return cli.Failf("%sthe input cannot be read: %s", at, cli.FileReason(err))
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			v, err = j.line(line)
		}
		if err != nil {
			j.bad++
			p.Out.Talkf("%sline %d: %s", at, lines.N, err)
			continue
		}
		if err := p.Out.Line(v); err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
	}
}

// line judges one line. The error says why it cannot be judged.
func (j *judge) line(line []byte) (caseVerdict, error) {
	c, err := parseCase(line)
	if err != nil {
		return caseVerdict{}, err
	}
	return j.verdict(c)
}

func (j *judge) verdict(c answerCase) (caseVerdict, error) {
	result := caseVerdict{ID: c.id, Response: jsontext.Value("null"), Anomalies: []string{}}
	spec, err := j.compile(c)
	switch {
	case err != nil:
		return result, err
	case spec.validator == nil:
		result.Verdict, result.Code, result.Field = invalidSpec, bcp.InvalidQuery, spec.wrong
		return result, nil
	}
	prices := spec.validator.Prices()
	result.NominalBits, result.CapacityBits = prices.Nominal, prices.Capacity
	v := spec.validator.Validate(c.answer, c.encoding)
	result.Verdict, result.Field = v.Outcome.String(), v.Field
	if v.Outcome != bcp.Accept && v.Outcome != bcp.Hold {
		result.Code = v.Reason.Code()
	}
	if !v.Answer.IsZero() {
		result.Response, result.Delivered = v.Answer.JSON(), v.Answer.String()
	}
	result.Anomalies = append(result.Anomalies, v.Anomalies...)
	return result, nil
}
