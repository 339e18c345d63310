package stdio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Program answers queries by running a program, once for each query: nothing that it
// reads for one Controller is present when it answers another. Its [Program.Answer] is
// a handler for [agents.Reader.OnQuery], and may be called concurrently.
//
// The query is one line of JSON on stdin: the message bcp_query of docs/wire.md, with
// attempt, which is 0 at first, and last_detail, why the previous answer was refused.
// The answer is one JSON object on stdout, of at most 64 KiB, in the shape of the
// query's category, or {"not_enough_information": true}; the exit code is 0.
type Program struct {
	// Command is the argv. No shell reads it; a first word without a slash is looked up
	// in the PATH of Env.
	Command []string
	// Env is all of the program's environment, KEY=VALUE.
	Env []string
	// Timeout is how long one run may take before it is killed. Zero is
	// [DefaultTimeout].
	Timeout time.Duration
	// Output gets the program's stderr.
	Output *process.Output
	// Logger gets the reasons for missing answers. It never gets any output of the
	// program.
	Logger hclog.Logger

	pause time.Duration // before another run, zero is runPause
}

// RunError says why a run of a program gave no answer. Its text is ours, and
// contains none of the program's output.
type RunError struct {
	Reason string
	// Again says that another run may succeed.
	Again bool
	// Killed says that the run did not end by itself: it may have done its work.
	Killed bool
}

func (e *RunError) Error() string { return e.Reason }

// Answer runs the program for a query. If it fails, or its answer cannot be read, it
// is run again with the reason, up to three times in all; after a timeout it is not.
// The error is a [*RunError], or the reason that ctx has ended: then the query stays
// open until it comes again or expires.
//
// A failure never counts as not_enough_information, which is an answer that people act
// on.
func (p *Program) Answer(ctx context.Context, q agents.Query) (any, error) {
	return Again(ctx, q, p.Logger, cmp.Or(p.pause, runPause), p.run)
}

// Again answers a query with run, which is called again after each [*RunError] with Again
// set, up to three times in all and with a pause in between.
func Again(ctx context.Context, q agents.Query, log hclog.Logger, pause time.Duration, run func(context.Context, agents.Query) (any, error)) (any, error) {
	for n := 1; ; n++ {
		answer, err := run(ctx, q)
		var failed *RunError
		if !errors.As(err, &failed) {
			return answer, err
		}
		last := n == maxRuns || !failed.Again
		log.Warn("the program gave no answer", "query", q.QueryID, "reason", hclog.Quote(failed.Reason), "again", !last)
		if last || !sleep(ctx, pause) {
			return nil, err
		}
		q.Attempt++
		q.LastDetail = failed.Reason
	}
}

// run runs the program once for a query.
func (p *Program) run(ctx context.Context, q agents.Query) (any, error) {
	line, err := bcp.Encode(q, bcp.JSON)
	if err != nil {
		return nil, err
	}
	printed, _, err := p.Once(ctx, append(line, '\n'))
	if err != nil {
		return nil, err
	}
	return ParseAnswer(printed, q.Spec)
}

// Once runs the program with this line on stdin and returns its stdout, at most 64 KiB.
// The error is a [*RunError], or why ctx has ended; exit is the exit code of a program
// that ended by itself.
func (p *Program) Once(ctx context.Context, line []byte) (printed []byte, exit int, err error) {
	if len(p.Command) == 0 {
		return nil, 0, &RunError{Reason: "the command is empty"}
	}
	timeout := cmp.Or(p.Timeout, DefaultTimeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stdout, stderr := &bounded{over: cancel}, p.Output.Stderr()
	running, err := process.Start(&exec.Cmd{Args: p.Command, Env: p.Env, Stdin: bytes.NewReader(line), Stdout: stdout, Stderr: stderr})
	if err != nil {
		return nil, 0, &RunError{Reason: process.Reason(err)}
	}
	itself := running.EndBy(limited)
	stderr.End()
	switch {
	case ctx.Err() != nil:
		return nil, 0, context.Cause(ctx)
	case stdout.full:
		return nil, 0, &RunError{Reason: fmt.Sprintf("its answer is longer than %d KiB", maxAnswer>>10), Again: true, Killed: !itself}
	case !itself:
		return nil, 0, &RunError{Reason: fmt.Sprintf("no answer within %s", timeout), Killed: true}
	case !running.State().Success():
		return nil, running.State().ExitCode(), &RunError{Reason: running.State().String(), Again: true}
	}
	return stdout.b, 0, nil
}

// AnswerNames returns the names of the members of an answer to a spec.
func AnswerNames(spec bcp.Spec) (names []string) {
	for _, f := range spec.Fields {
		names = append(names, f.Name)
	}
	for _, q := range spec.Questions {
		names = append(names, q.ID)
	}
	if spec.Category == 3 {
		names = append(names, "summary")
	}
	return names
}

// ParseAnswer parses a program's output. The result is well-formed; the gateway
// decides whether it fits the spec. Whole numbers may be spelled as models do.
func ParseAnswer(printed []byte, spec bcp.Spec) (any, error) {
	printed = wire.WholeNumbers(bytes.TrimSpace(bytes.TrimPrefix(printed, []byte("\ufeff"))))
	if len(printed) == 0 {
		return nil, &RunError{Reason: "it printed no answer", Again: true}
	}
	if err := wire.Check(printed); err != nil {
		return nil, &RunError{Reason: "its answer is not one well-formed JSON object: " + err.Error(), Again: true}
	}
	if printed[0] != '{' {
		return nil, &RunError{Reason: "its answer is not a JSON object", Again: true}
	}
	answer := jsontext.Value(printed)
	if isNotEnough(answer, spec) {
		return agents.NotEnoughInformation{}, nil
	}
	return answer, nil
}

// ParseText is [ParseAnswer] of the JSON object in a text: from its first brace to its
// last. Models like to say something around it.
func ParseText(text string, spec bcp.Spec) (any, error) {
	begin, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if begin < 0 {
		return nil, &RunError{Reason: "its answer has no JSON object", Again: true}
	}
	return ParseAnswer([]byte(text[begin:max(begin, end)+1]), spec)
}

const notEnough = "not_enough_information"

// isNotEnough reports whether an answer says that the Reader does not know. If the
// spec has a field of that name, it is an ordinary answer.
func isNotEnough(answer jsontext.Value, spec bcp.Spec) bool {
	for _, field := range spec.Fields {
		if field.Name == notEnough {
			return false
		}
	}
	compact := bytes.Clone(answer)
	return (*jsontext.Value)(&compact).Compact() == nil && string(compact) == `{"`+notEnough+`":true}`
}

// bounded keeps up to maxAnswer of a program's output.
type bounded struct {
	b    []byte
	full bool
	over func() // is called when it printed more
}

// Write implements io.Writer. It never fails; output beyond the limit is dropped.
func (w *bounded) Write(b []byte) (int, error) {
	switch {
	case w.full:
	case len(w.b)+len(b) > maxAnswer:
		w.full, w.b = true, nil
		w.over()
	default:
		w.b = append(w.b, b...)
	}
	return len(b), nil
}

// sleep waits, and returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
