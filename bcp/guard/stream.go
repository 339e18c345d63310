package guard

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// Stream redacts what is written to it, for a log or a terminal. It holds back what is not decided yet: the last line, of
// which it keeps at most 64 KiB, and a private key that has begun; at most 256 KiB in all. However the text is divided
// into writes, what comes out is what [Redact] makes of the whole.
//
// A Stream belongs to one goroutine. Close writes the rest; it does not close the writer below.
type Stream struct {
	to    io.Writer
	r     *redactor
	rest  []byte // not decided yet
	tried int    // bytes of rest that are not enough to decide more
	ended bool   // a line has ended since then
	out   strings.Builder
	err   error
}

// NewStream returns a stream that writes to w.
func NewStream(w io.Writer, set Set) *Stream {
	return newStream(w, set, productionLimits)
}

func newStream(w io.Writer, set Set, l limits) *Stream {
	return &Stream{to: w, r: newRedactor(set, l)}
}

var errClosed = errors.New("guard: write to a closed stream")

// Write takes all of p, and writes what is decided. An error is one of the writer below; after it nothing is written.
func (s *Stream) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.rest = append(s.rest, p...)
	s.ended = s.ended || bytes.IndexByte(p, '\n') >= 0
	if err := s.advance(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what was held back. Later writes fail.
func (s *Stream) Close() error {
	if s.err != nil {
		if errors.Is(s.err, errClosed) {
			return nil
		}
		return s.err
	}
	if err := s.advance(true); err != nil {
		return err
	}
	s.err = errClosed
	return nil
}

// advance decides as much as it can and writes it.
func (s *Stream) advance(final bool) error {
	at := 0
	for at < len(s.rest) {
		end := min(at+s.r.limits.chunk, len(s.rest))
		full := end-at == s.r.limits.chunk
		last := final && end == len(s.rest)
		if !full && !last && !s.worthTrying(end-at) {
			break
		}
		chunk := string(s.rest[at:end])
		consumed, findings := s.r.process(chunk, last)
		writeRedacted(&s.out, chunk[:consumed], findings)
		at += consumed
		s.tried, s.ended = 0, s.ended && full
		if consumed == 0 {
			s.tried = end - at
			break
		}
	}
	s.rest = append(s.rest[:0], s.rest[at:]...)
	if s.out.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(s.to, s.out.String())
	s.out.Reset()
	s.err = err
	return err
}

// worthTrying reports whether more can be decided of n bytes than at the last attempt: a line has ended, or much has come.
func (s *Stream) worthTrying(n int) bool {
	return s.ended && n-s.tried >= s.tried/4 || n > s.tried+s.r.limits.line
}
