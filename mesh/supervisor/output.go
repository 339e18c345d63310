package supervisor

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
)

// output logs what one process prints, a limited part of it. Its methods may be
// used concurrently.
type output struct {
	logger hclog.Logger // names the agent

	mu      sync.Mutex
	window  *time.Timer // ends the window that has begun; nil: none has
	lines   int         // logged in this window
	bytes   int         // of them, before escaping
	dropped int         // lines that were not logged in this window
	stdout  []byte      // the last line that says something, cut
	stderr  []byte
}

// log takes a line of which cut bytes are missing.
func (o *output) log(stream string, line []byte, cut int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(stream, line)
	if o.window == nil {
		o.window = time.AfterFunc(outputWindow, o.end)
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
	// Quoted here, since the logger would quote quotation marks without what
	// stands before them: a backslash could then end the quotation. The text is
	// the last field, so that letters that are written from right to left
	// disturb nothing behind them.
	o.logger.Info("an agent's command printed", append(fields, "text", hclog.Quote(escape(line)))...)
}

// keep remembers the last line of a stream that says something. Called with mu held.
func (o *output) keep(stream string, line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	kept := &o.stdout
	if stream == stderrName {
		kept = &o.stderr
	}
	*kept = append((*kept)[:0], line[:min(len(line), utf8.UTFMax*(maxLastLine+1))]...)
}

// lastLine returns what was printed last, rather to stderr, where programs say why they
// end.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.stderr
	if len(line) == 0 {
		line = o.stdout
	}
	return inert(line)
}

// inert is escape, cut, and without the marks that climb out of their line and the
// signs that frames are drawn with.
func inert(line []byte) string {
	var b strings.Builder
	n := 0
	for _, r := range escape(line) {
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

// end ends the window, if one has begun, and says what was dropped in it.
func (o *output) end() {
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

// stream cuts one stream of a process into lines. One goroutine writes to it.
type stream struct {
	output *output
	name   string
	line   []byte // at most maxLine
	cut    int    // bytes of the line beyond
}

// Write implements io.Writer. It fails never: a process whose output is refused
// would be killed by it.
func (s *stream) Write(p []byte) (int, error) {
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

// end logs what was printed without a line break behind it.
func (s *stream) end() {
	if len(s.line) > 0 {
		s.flush()
	}
}

func (s *stream) flush() {
	s.output.log(s.name, s.line, s.cut)
	s.line, s.cut = s.line[:0], 0
}

// redacted hides secrets in a stream before it is cut into lines: a private key goes over several. It holds back what may
// still become one.
type redacted struct {
	*guard.Stream
	lines *stream
}

func newRedacted(o *output, name string) redacted {
	lines := &stream{output: o, name: name}
	return redacted{guard.NewStream(lines, guard.Keys), lines}
}

// end logs what was held back.
func (r redacted) end() {
	_ = r.Close() // a stream never fails
	r.lines.end()
}

// escape writes a line so that everything in it can be seen and nothing in it
// acts: no control character, nothing that turns the direction of writing, no
// white space but the plain one, nothing invisible, no broken UTF-8. Backslashes
// of the line stay as they are: who reads it needs no way back.
func escape(line []byte) string {
	var b strings.Builder
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(line[0]), 16))
		case isVisible(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		line = line[size:]
	}
	return b.String()
}

// blanks look like white space although Unicode calls them symbols or letters:
// the empty Braille pattern, the null note head, the Khitan filler.
const blanks = "\u2800\U0001d159\U00016fe4"

func isVisible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && !strings.ContainsRune(blanks, r)
}
