package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/mattn/go-isatty"
	"golang.org/x/term"
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
//   - Colours, drawn tables and progress bars are for a terminal. NO_COLOR and
//     TERM=dumb turn colours off.
//   - What comes from files, agents and arguments is made harmless before it
//     is shown: control characters and invisible ones are escaped.

// Exit codes. They are part of the contract of the program.
const (
	exitOK      = 0
	exitFailed  = 1 // a problem was found, or the operation failed
	exitUsage   = 2 // the command line is wrong
	exitRefused = 3 // the protocol, or the gateway, refused
	exitPartly  = 4 // no problem was found in what could be looked at
)

// failure is an error as a person sees it.
type failure struct {
	code    int
	message string
	hint    string
}

func (f *failure) Error() string { return f.message }

// withHint adds what to do about it.
func (f *failure) withHint(format string, args ...any) *failure {
	f.hint = fmt.Sprintf(format, args...)
	return f
}

// failf says that an operation failed, or that a problem was found.
func failf(format string, args ...any) *failure {
	return &failure{code: exitFailed, message: fmt.Sprintf(format, args...)}
}

// usagef says that the command line is wrong.
func usagef(format string, args ...any) *failure {
	return &failure{code: exitUsage, message: fmt.Sprintf(format, args...)}
}

// output is where a command's results and talk go. Use it from one goroutine.
type output struct {
	stdout *bufio.Writer
	stderr io.Writer
	json   bool // --json

	screen       io.Writer // what stdout writes to
	terminal     bool      // stdout is one
	talkTerminal bool      // stderr is one
	colours      bool      // wanted, where there is a terminal
}

func newOutput(stdout, stderr io.Writer, env func(string) string) *output {
	return &output{
		stdout:       bufio.NewWriterSize(stdout, 64<<10),
		stderr:       stderr,
		screen:       stdout,
		terminal:     isTerminal(stdout),
		talkTerminal: isTerminal(stderr),
		colours:      env("NO_COLOR") == "" && env("TERM") != "dumb",
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// plainWidth is how wide text is where there is no terminal.
const plainWidth = 100

// widthOf is how many columns a stream has.
func widthOf(stream any) int {
	if file, ok := stream.(*os.File); ok && isTerminal(file) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}
	return plainWidth
}

// finish writes what is left and reports err. It returns the exit code.
func (o *output) finish(err error) int {
	if flushErr := o.stdout.Flush(); flushErr != nil && err == nil {
		err = failf("the result cannot be written: %s", reasonOf(flushErr))
	}
	if err == nil {
		return exitOK
	}
	var f *failure
	switch {
	case errors.As(err, &f):
	case errors.Is(err, context.Canceled):
		f = failf("interrupted")
	default: // what a command returns is a failure: this is cobra's
		f = usagef("%s", err)
	}
	o.talkf("bcpmesh: %s", f.message)
	if f.hint != "" {
		o.talkf("hint: %s", f.hint)
	}
	return f.code
}

// printf writes text of a result; the arguments are made harmless by the
// caller, with [plain], where they are not the program's own.
func (o *output) printf(format string, args ...any) {
	// An error sticks to the writer, and finish reports it.
	_, _ = fmt.Fprintf(o.stdout, format, args...)
}

// talkf writes one line to stderr.
func (o *output) talkf(format string, args ...any) {
	// There is nowhere to report an error of stderr.
	_, _ = fmt.Fprintln(o.stderr, plain(fmt.Sprintf(format, args...)))
}

// value writes a result as JSON: one line, or indented on a terminal.
func (o *output) value(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), json.FormatNilSliceAsNull(false), jsontext.Multiline(o.terminal))
	if err != nil {
		return failf("the result cannot be written as JSON: %s", err)
	}
	_, err = o.stdout.Write(append(harmlessJSON(b), '\n'))
	return err
}

// line writes a record of a stream as JSON, in one line whatever stdout is.
func (o *output) line(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return failf("the result cannot be written as JSON: %s", err)
	}
	return o.harmlessLine(b)
}

// harmlessLine writes JSON, which it may append to.
func (o *output) harmlessLine(b []byte) error {
	_, err := o.stdout.Write(append(harmlessJSON(b), '\n'))
	return err
}

// harmlessJSON escapes what a terminal would act on or not show. All of it
// stands in strings, where an escape means the same.
func harmlessJSON(b []byte) []byte {
	acts := func(r rune) bool {
		return r >= 0x7f && (!harmless(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector))
	}
	if isASCII(b) || bytes.IndexFunc(b, acts) < 0 {
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

// isASCII reports whether b has neither DEL nor anything beyond it: most of what
// is written.
func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x7f {
			return false
		}
	}
	return true
}

// table writes rows under a header, drawn on a terminal, aligned with spaces
// elsewhere. Cells are made harmless. A cell may have several lines.
func (o *output) table(header []string, rows [][]string) {
	t := table.NewWriter()
	t.SetStyle(table.StyleRounded)
	if !o.terminal {
		t.SetStyle(table.Style{Name: "plain", Box: table.BoxStyle{PaddingRight: "  "}, Format: table.FormatOptions{Header: text.FormatUpper}})
		t.SuppressTrailingSpaces()
	}
	t.AppendHeader(rowOf(header, o.terminal && o.colours))
	for _, row := range rows {
		t.AppendRow(rowOf(row, false))
	}
	o.printf("%s\n", t.Render())
}

func rowOf(cells []string, bold bool) table.Row {
	row := make(table.Row, len(cells))
	for i, cell := range cells {
		lines := strings.Split(cell, "\n")
		for j := range lines {
			lines[j] = plain(lines[j])
		}
		cell = strings.Join(lines, "\n")
		if bold {
			cell = text.Colors{text.Bold}.EscapeSeq() + cell + text.Reset.EscapeSeq()
		}
		row[i] = cell
	}
	return row
}

// heading writes the title of a part of a result.
func (o *output) heading(title string) {
	if o.terminal && o.colours {
		title = text.Colors{text.Bold, text.FgCyan}.EscapeSeq() + title + text.Reset.EscapeSeq()
	}
	o.printf("%s\n", title)
}

// plain makes text harmless for a terminal: one line, without control
// characters, without what is invisible or turns the direction of writing.
func plain(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString("; ")
		case harmless(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		i += size
	}
	return b.String()
}

// harmless reports whether r shows, and does nothing else.
func harmless(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r) && !unicode.Is(unicode.Cf, r)
}

// quoted shows an argument or a piece of a file: escaped and short.
func quoted(s string) string {
	const longest = 60
	if utf8.RuneCountInString(s) > longest {
		return strconv.Quote(string([]rune(s)[:longest])) + "…"
	}
	return strconv.Quote(s)
}

// reasonOf says why an operation on a file failed, without its path.
func reasonOf(err error) string {
	var path *os.PathError
	var link *os.LinkError
	var call *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err.Error()
	case errors.As(err, &link):
		return link.Err.Error()
	case errors.As(err, &call):
		return call.Err.Error()
	}
	return err.Error()
}

// count writes a number with its noun: "1 error", "2 errors".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// duration writes seconds as definitions do: 90s, 15m, 1h30m, 7d.
func duration(seconds int64) string {
	var b strings.Builder
	for _, unit := range []struct {
		size int64
		name string
	}{{24 * 60 * 60, "d"}, {60 * 60, "h"}, {60, "m"}, {1, "s"}} {
		if n := seconds / unit.size; n > 0 || unit.size == 1 && b.Len() == 0 {
			b.WriteString(strconv.FormatInt(n, 10) + unit.name)
			seconds %= unit.size
		}
	}
	return b.String()
}
