package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"
	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// The output rules, which every command follows:
//
//   - Results go to stdout, and nothing else does. With --json they are JSON.
//   - Talk goes to stderr: notes, warnings, progress, errors.
//   - Bad input is one line on stderr, `bcpmesh: what is wrong`, and perhaps a
//     second one, `hint: what to do`. No usage text, no stack trace.
//   - The exit code says what happened: see the constants below. A refusal by
//     the protocol has one of its own, so that scripts can tell it from failure.
//   - Nothing is written, neither a file nor a part of a result, for a command
//     line that is wrong.
//   - Drawn tables and progress bars are for a terminal. There are no colours.
//   - What comes from files, agents and arguments is made harmless before it
//     is shown: control characters and invisible ones are escaped.

// Exit codes. They are part of the contract of the program.
const (
	ExitOK      = 0
	ExitFailed  = 1 // a problem was found, or the operation failed
	ExitUsage   = 2 // the command line is wrong
	ExitRefused = 3 // the protocol, or the gateway, refused
	ExitPartly  = 4 // no problem was found in what could be looked at
)

// Failure is an error as a person sees it.
type Failure struct {
	Code    int
	Message string
	Hint    string
	Cause   error // nil unless a caller branches on it
}

// Error returns the message without its hint.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// WithHint adds what to do about it.
func (f *Failure) WithHint(format string, args ...any) *Failure {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

// Near asks instead whether another of some words was meant, if one is near.
func (f *Failure) Near(word string, words []string) *Failure {
	if near := Suggestion(word, words); near != "" {
		f.Hint = "did you mean " + near + "?"
	}
	return f
}

// Failf says that an operation failed, or that a problem was found.
func Failf(format string, args ...any) *Failure {
	return &Failure{Code: ExitFailed, Message: fmt.Sprintf(format, args...)}
}

// Usagef says that the command line is wrong.
func Usagef(format string, args ...any) *Failure {
	return &Failure{Code: ExitUsage, Message: fmt.Sprintf(format, args...)}
}

// Faults are a catalogue: what is said of errors that are known, and what to do about them. The first one that is so counts.
type Faults []Fault

// Fault is an entry. In its texts {it} is what the failure is about, quoted, {path} the same as it is, and {why} what the error
// says.
type Fault struct {
	Of   error
	Says string // empty: the error's words
	Hint string
}

// Failure is what the catalogue says of an error, nil if it does not know it.
func (list Faults) Failure(err error, about string) *Failure {
	i := slices.IndexFunc(list, func(f Fault) bool { return errors.Is(err, f.Of) })
	if i < 0 {
		return nil
	}
	fill := strings.NewReplacer("{it}", Quoted(about), "{path}", Plain(about), "{why}", Plain(err.Error())).Replace
	return &Failure{Code: ExitFailed, Message: fill(cmp.Or(list[i].Says, "{why}")), Hint: fill(list[i].Hint), Cause: err}
}

// Output is where a command's results and talk go. Use it from one goroutine.
type Output struct {
	Stdout *bufio.Writer
	Stderr io.Writer
	JSON   bool // --json

	Screen       io.Writer // what stdout writes to
	Terminal     bool      // stdout is one
	Width        int       // its columns
	TalkTerminal bool      // stderr is one
}

// NewOutput writes to stdout and stderr.
func NewOutput(stdout, stderr io.Writer) *Output {
	return &Output{
		Stdout:       bufio.NewWriterSize(stdout, 64<<10),
		Stderr:       stderr,
		Screen:       stdout,
		Terminal:     IsTerminal(stdout),
		Width:        Columns(stdout),
		TalkTerminal: IsTerminal(stderr),
	}
}

// IsTerminal reports whether stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// plainWidth is how wide text is without a terminal.
const plainWidth = 100

// Columns is how many columns a stream has.
func Columns(stream any) int {
	if file, ok := stream.(*os.File); ok && IsTerminal(file) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}
	return plainWidth
}

// Finish writes what is left and reports err. It returns the exit code.
func (o *Output) Finish(err error) int {
	if err = cmp.Or(err, o.Flush()); err == nil {
		return ExitOK
	}
	var f *Failure
	switch {
	case errors.As(err, &f):
	case errors.Is(err, context.Canceled):
		f = Failf("interrupted")
	default: // what a command returns is a failure: this is cobra's
		f = Usagef("%s", err)
	}
	o.Talkf("bcpmesh: %s", f.Message)
	if f.Hint != "" {
		o.Talkf("hint: %s", f.Hint)
	}
	return f.Code
}

// Printf writes text of a result; the arguments are made harmless by the
// caller, with [plain], if they are not the program's own.
func (o *Output) Printf(format string, args ...any) {
	// An error sticks to the writer, and finish reports it.
	_, _ = fmt.Fprintf(o.Stdout, format, args...)
}

// Talkf writes one line to stderr.
func (o *Output) Talkf(format string, args ...any) {
	// There is nowhere to report an error of stderr.
	_, _ = fmt.Fprintln(o.Stderr, Plain(fmt.Sprintf(format, args...)))
}

// Value writes a result, or a record of a stream of them, as JSON in one line.
func (o *Output) Value(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return Failf("the result cannot be written as JSON: %s", err)
	}
	return o.HarmlessLine(b)
}

// Show shows a result: as JSON, or as text does.
func (o *Output) Show(v any, text func()) error {
	if o.JSON {
		return o.Value(v)
	}
	text()
	return nil
}

// Report shows the result of what may have failed: JSON in any case, text if nothing did.
func (o *Output) Report(v any, failed error, text func()) error {
	if !o.JSON && failed != nil {
		return failed
	}
	return errors.Join(o.Show(v, text), failed)
}

// HarmlessLine writes JSON, which it may append to.
func (o *Output) HarmlessLine(b []byte) error {
	_, err := o.Stdout.Write(append(HarmlessJSON(b), '\n'))
	return err
}

// HarmlessJSON escapes what a terminal would act on or not show. All of it
// stands in strings, where an escape means the same.
func HarmlessJSON(b []byte) []byte {
	acts := func(r rune) bool {
		return r >= 0x7f && !inert.Harmless(r)
	}
	if bytes.IndexFunc(b, acts) < 0 {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		switch high, low := utf16.EncodeRune(r); {
		case !acts(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// Heading writes the title of a part of a result.
func (o *Output) Heading(title string) { o.Printf("%s\n", title) }

// Plain makes text harmless for a terminal, as one line.
func Plain(s string) string { return inert.Line(s) }

// Quoted shows an argument or a piece of a file: escaped and short.
func Quoted(s string) string {
	const longest = 60
	if utf8.RuneCountInString(s) > longest {
		return strconv.Quote(string([]rune(s)[:longest])) + "…"
	}
	return strconv.Quote(s)
}

// FileReason says why an operation on a file failed, without its path.
func FileReason(err error) string { return disk.Reason(err) }

// Count writes a number with its noun: "1 error", "2 errors".
func Count(n int, noun string) string { return tell.Count(n, noun) }

// Duration writes seconds as definitions do: 90s, 15m, 1h30m, 7d.
func Duration(seconds int64) string { return tell.Span(seconds) }

// Flush shows at once what a stream of results has so far.
func (o *Output) Flush() error {
	if err := o.Stdout.Flush(); err != nil {
		return Failf("the result cannot be written: %s", FileReason(err))
	}
	return nil
}

// NewLogger returns the logger of a command, in whose entries secrets are hidden: an error may quote a URL with a password.
// Hashes and public keys stay.
func NewLogger(level hclog.Level, to io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "bcpmesh", Level: level, Output: redactedLog{to}})
}

// redactedLog redacts each entry of a log. hclog writes one with one call.
type redactedLog struct{ to io.Writer }

// Write implements [io.Writer].
func (l redactedLog) Write(entry []byte) (int, error) {
	if guard.HasSecret(entry) {
		if _, err := io.WriteString(l.to, guard.Redact(string(entry), guard.Keys)); err != nil {
			return 0, err
		}
		return len(entry), nil
	}
	return l.to.Write(entry)
}
