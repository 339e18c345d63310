package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/muesli/cancelreader"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

// MaxLine bounds one line of input.
const MaxLine = 16 << 20

// Interruptible returns a reader of r that gives up, with the error of ctx, when ctx
// ends while a pipe or a terminal has nothing to read. Files and what is in memory are
// read as they are: such reads end by themselves. On Windows so is everything, since
// there the library reads the console, also in place of a pipe; a second Ctrl-C ends
// the program. What it holds is released with the process.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	if runtime.GOOS == "windows" {
		return r
	}
	c, err := cancelreader.NewReader(r)
	if err != nil {
		return r // a file: the system does not wait for those
	}
	context.AfterFunc(ctx, func() { c.Cancel() })
	return readFunc(func(b []byte) (int, error) {
		n, err := c.Read(b)
		if errors.Is(err, cancelreader.ErrCanceled) {
			err = ctx.Err()
		}
		return n, err
	})
}

type readFunc func([]byte) (int, error)

// Read calls f.
func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// ErrLongLine means that a line is longer than the program reads.
var ErrLongLine = errors.New("the line is longer than 16 MiB")

// lineReader reads lines of at most MaxLine bytes in memory of that size.
type lineReader struct {
	r    *bufio.Reader
	line []byte
	N    int // of the line that was read last, from 1
}

// NewLineReader reads lines of r.
func NewLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line without its end, and the first without a byte order mark, valid until the next call. A
// longer line is skipped, with ErrLongLine. The error is io.EOF after the
// last line.
func (l *lineReader) Next() ([]byte, error) {
	l.line = l.line[:0]
	l.N++
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.line)+len(part) > MaxLine+1 || long {
			long = true
		} else {
			l.line = append(l.line, part...)
		}
		if l.N == 1 { // editors and shells of Windows begin a file with a mark
			l.line = bytes.TrimPrefix(l.line, []byte("\ufeff"))
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && !(errors.Is(err, io.EOF) && (len(l.line) > 0 || long)):
			return nil, err
		case long || len(bytes.TrimSuffix(l.line, []byte("\n"))) > MaxLine:
			return nil, ErrLongLine
		default:
			return bytes.TrimSuffix(l.line, []byte("\n")), nil
		}
	}
}

// Waits reports whether the next line is not here yet.
func (l *lineReader) Waits() bool { return l.r.Buffered() == 0 }

// EachLine calls each with the lines of a stream of cases that are not blank, and their numbers from 1; wrong is
// [ErrLongLine] for one that is too long. What is written is flushed before it waits for more. name is what the input is
// called in an error, empty for stdin.
func EachLine(ctx context.Context, p *Program, name string, in io.Reader, each func(n int, line []byte, wrong error) error) error {
	if name == "" && IsTerminal(in) {
		p.Out.Talkf("reading cases from the terminal; Ctrl-D ends them")
	}
	if name != "" {
		name = Plain(name) + ": "
	}
	for lines := NewLineReader(Interruptible(ctx, in)); ; {
		if lines.Waits() {
			if err := p.Out.Flush(); err != nil {
				return err
			}
		}
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrLongLine):
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return Failf("%sthe input cannot be read: %s", name, FileReason(err))
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		if err := each(lines.N, line, err); err != nil {
			return err
		}
	}
}

// AnswerArgument reads an answer, from an argument, or from stdin where that is
// - or missing. It checks that it is one JSON object, so that a slip of the
// keyboard does not count as a refusal.
func (p *Program) AnswerArgument(ctx context.Context, command string, args []string, at int) (jsontext.Value, error) {
	var b []byte
	given := len(args) > at && args[at] != "-"
	if given {
		b = []byte(args[at])
	} else {
		if IsTerminal(p.In) && len(args) <= at {
			return nil, Usagef("%s: expected the answer as JSON", command).WithHint("give it as an argument, or on stdin")
		}
		var err error
		if b, err = ReadArgument(ctx, "-", p.In); err != nil {
			return nil, err
		}
	}
	value, err := jsontext.AppendFormat(nil, b)
	switch {
	case err == nil && jsontext.Value(value).Kind() == '{':
		return value, nil
	case given:
		return nil, Usagef("%s: the answer is not a JSON object: %s", command, Quoted(string(b)))
	case len(bytes.TrimSpace(b)) == 0:
		return nil, Usagef("%s: expected the answer as JSON, and stdin is empty", command).WithHint("bcpmesh %s --help shows an example", command)
	}
	return nil, Failf("%s: the answer on stdin is not a JSON object: %s", command, Quoted(string(b)))
}

// ReadArgument reads a small file, or stdin if the name is -.
func ReadArgument(ctx context.Context, name string, stdin io.Reader) (b []byte, err error) {
	if name == "-" {
		b, err = io.ReadAll(io.LimitReader(Interruptible(ctx, stdin), MaxSmallFile+1))
		if err == nil && len(b) > MaxSmallFile {
			err = disk.ErrTooLarge
		}
	} else {
		b, err = ReadSmall(name)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, Failf("%s cannot be read: %s", FileName(name), FileReason(err))
	}
	return b, nil
}

// FileName names a file argument that may be stdin.
func FileName(name string) string {
	if name == "-" {
		return "stdin"
	}
	return Quoted(name)
}

// Prompter asks the person at the terminal. Questions go to stderr.
type Prompter struct {
	Out   *Output
	lines *lineReader
}

// NewPrompter asks the person at the terminal of p.
func NewPrompter(ctx context.Context, p *Program) *Prompter {
	return &Prompter{Out: p.Out, lines: NewLineReader(Interruptible(ctx, p.In))}
}

// Interactive reports whether there is a person to ask, who sees what is asked.
func (p *Program) Interactive() bool { return IsTerminal(p.In) && p.Out.TalkTerminal }

// Ask asks for one line. The error is io.EOF if there is none.
func (q *Prompter) Ask(question string) (string, error) {
	_, _ = fmt.Fprint(q.Out.Stderr, question) // there is nowhere to report an error of stderr
	line, err := q.lines.Next()
	return strings.TrimSpace(string(line)), err
}

// Confirm asks a question whose answer is no, unless it is yes.
func (q *Prompter) Confirm(question string) (bool, error) {
	answer, err := q.Ask(question + " [y/N] ")
	switch {
	case err == io.EOF:
		q.Out.Talkf("")
		return false, nil
	case err != nil:
		return false, err
	}
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), nil
}
