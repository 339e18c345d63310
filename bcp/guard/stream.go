package guard

import (
	"bytes"
	"errors"
	"io"
)

// maxLine is how much of a line a [Stream] holds back.
const maxLine = 1 << 20

// Stream redacts what is written to it, for a log or a terminal. It holds back what is not decided yet: the last line, and
// a private key that has begun. However the text is divided into writes, what comes out is what [Redact] makes of the
// whole, unless a line is longer than 1 MiB before it ends: such a line is withheld, and a placeholder says so.
//
// A Stream belongs to one goroutine. Close writes the rest; it does not close the writer below.
type Stream struct {
	to    io.Writer
	set   Set
	rest  []byte // not decided yet
	tried int    // bytes of rest that are not enough to decide more
	long  bool   // the rest of a line is withheld
	err   error
}

// NewStream returns a stream that writes to w.
func NewStream(w io.Writer, set Set) *Stream { return &Stream{to: w, set: set} }

var errClosed = errors.New("guard: write to a closed stream")

// Write takes all of p, and writes what is decided. An error is one of the writer below; after it nothing is written.
func (s *Stream) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, ended := len(p), bytes.IndexByte(p, '\n')
	if s.long {
		if ended < 0 {
			return n, nil
		}
		p, s.long = p[ended:], false
	}
	s.rest = append(s.rest, p...)
	if ended >= 0 && len(s.rest)-s.tried >= s.tried/4 {
		s.advance(len(s.rest), false)
	}
	if line := bytes.LastIndexByte(s.rest, '\n') + 1; s.err == nil && len(s.rest)-line > maxLine {
		s.advance(line, true)
		s.write(placeholder("long-line"))
		s.rest, s.tried, s.long = s.rest[:0], 0, true
	}
	if s.err != nil {
		return 0, s.err
	}
	return n, nil
}

// Close writes what was held back. Later writes fail.
func (s *Stream) Close() error {
	if s.err == nil {
		s.advance(len(s.rest), true)
	}
	if s.err == nil {
		s.err = errClosed
		return nil
	}
	if errors.Is(s.err, errClosed) {
		return nil
	}
	return s.err
}

// advance decides what it can of the first n bytes, all of them if nothing comes after them, and writes it.
func (s *Stream) advance(n int, final bool) {
	text := string(s.rest[:n])
	findings, decided := findSecrets(text, s.set, final)
	s.write(replaced(text[:decided], findings))
	if s.tried = 0; decided == 0 {
		s.tried = n
	}
	s.rest = append(s.rest[:0], s.rest[decided:]...)
}

func (s *Stream) write(text string) {
	if s.err == nil && text != "" {
		_, s.err = io.WriteString(s.to, text)
	}
}
