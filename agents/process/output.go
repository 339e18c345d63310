package process

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

// Output logs a limited part of the output of processes: together at most 100 lines and
// 64 KiB a second. The output is hostile text, and is made inert for the log. Its
// methods may be used concurrently.
type Output struct {
	logger hclog.Logger // names the process

	mu      sync.Mutex
	window  *time.Timer // ends the current window; nil: none
	lines   int         // logged in this window
	bytes   int         // of them, before escaping
	dropped int         // lines not logged in this window
	stdout  []byte      // the last line that is not empty, cut
	stderr  []byte
}

// NewOutput returns the output of processes for a logger that names them.
func NewOutput(logger hclog.Logger) *Output { return &Output{logger: logger} }

// Stdout takes the standard output of one process.
func (o *Output) Stdout() *Stream { return newStream(o, stdoutName) }

// Stderr takes the standard error of one process.
func (o *Output) Stderr() *Stream { return newStream(o, stderrName) }

// log logs a line from which cut bytes were removed.
func (o *Output) log(stream string, line []byte, cut int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keepLine(stream, line)
	if o.window == nil {
		o.window = time.AfterFunc(outputWindow, o.End)
	}
	if o.lines >= maxLines || o.bytes+len(line) > maxBytes {
		o.dropped++
		return
	}
	o.lines++
	o.bytes += len(line)
	fields := []any{"stream", stream}
	if cut > 0 {
		fields = append(fields, "cut_bytes", cut)
	}
	// Quoted here, since the logger quotes quotation marks but not a backslash
	// before them, which could then end the quotation. The text is the last
	// field, so that right-to-left letters do not affect anything after them.
	o.logger.Info("an agent's command printed", append(fields, "text", hclog.Quote(inert.Line(string(line))))...)
}

// keepLine remembers the last line of a stream that is not empty. Called with mu held.
func (o *Output) keepLine(stream string, line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	kept := &o.stdout
	if stream == stderrName {
		kept = &o.stderr
	}
	*kept = append((*kept)[:0], line[:min(len(line), utf8.UTFMax*(maxLastLine+1))]...)
}

// LastLine returns the last line of output, preferably of stderr, where programs say
// why they end: escaped, and cut to 200 characters.
func (o *Output) LastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.stderr
	if len(line) == 0 {
		line = o.stdout
	}
	return short(line)
}

// short is a line made inert, cut, without combining marks that leave their line and
// characters that frames are drawn with.
func short(line []byte) string {
	var b strings.Builder
	n := 0
	for _, r := range inert.Line(string(line)) {
		shown := string(r)
		if unicode.Is(unicode.M, r) || r >= '─' && r <= '▟' {
			shown = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		if n += utf8.RuneCountInString(shown); n > maxLastLine {
			b.WriteString("…")
			break
		}
		b.WriteString(shown)
	}
	return b.String()
}

// End ends the current window, and logs how much was dropped in it.
func (o *Output) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.window == nil {
		return
	}
	o.window.Stop()
	if o.dropped > 0 {
		o.logger.Warn("an agent's command printed too much", "dropped_lines", o.dropped)
	}
	o.window, o.lines, o.bytes, o.dropped = nil, 0, 0, 0
}

// The names of the streams.
const (
	stdoutName = "stdout"
	stderrName = "stderr"
)

// Stream is one stream of a process. Secrets are hidden in it before it is cut into
// lines, since a private key has several. It holds back what may still become a
// secret. One goroutine writes to it, and a write never fails.
type Stream struct {
	*guard.Stream
	lines *lines
}

func newStream(o *Output, name string) *Stream {
	lines := &lines{output: o, name: name}
	return &Stream{guard.NewStream(lines, guard.Keys), lines}
}

// End logs what was held back, and an unfinished last line.
func (s *Stream) End() {
	_ = s.Close() // a stream never fails
	s.lines.end()
}

// lines cuts one stream of a process into lines.
type lines struct {
	output *Output
	name   string
	line   []byte // at most maxLine
	cut    int    // bytes of the line beyond
}

// Write implements io.Writer. It never fails: an error would kill the process.
func (s *lines) Write(p []byte) (int, error) {
	rest := p
	for {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		kept := min(len(part), maxLine-len(s.line))
		s.line = append(s.line, part[:kept]...)
		s.cut += len(part) - kept
		if !ended {
			return len(p), nil
		}
		s.flush()
		rest = after
	}
}

// end logs an unfinished last line.
func (s *lines) end() {
	if len(s.line) > 0 {
		s.flush()
	}
}

func (s *lines) flush() {
	s.output.log(s.name, s.line, s.cut)
	s.line, s.cut = s.line[:0], 0
}
