package imap

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Reasons to leave a server. The texts are ours, and nothing else is reported.
var (
	errAnswer  = errors.New("the server's answers are not those of IMAP")
	errTooMuch = errors.New("the server sends more than was asked for")
	errSilence = errors.New("the server did not answer in time")
	errCut     = errors.New("the connection was cut")
	errBye     = errors.New("the server ended the connection")
)

const (
	maxWord  = 256     // bytes of a word or number
	maxText  = 4 << 10 // bytes that are kept of a line of text
	maxDepth = 64      // of lists in each other
)

// wire reads from a server, up to a limit that each command sets.
type wire struct {
	conn    net.Conn
	r       *bufio.Reader
	silence time.Duration
	until   time.Time
	left    int64
}

func newWire(conn net.Conn, silence time.Duration) *wire {
	w := &wire{conn: conn, silence: silence}
	w.r = bufio.NewReaderSize((*source)(w), 16<<10)
	return w
}

// allow lets a server send so many bytes for so long.
func (w *wire) allow(bytes int64, d time.Duration) {
	w.left, w.until = bytes, time.Now().Add(d)
}

// source is the connection with its bounds.
type source wire

func (s *source) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errTooMuch
	}
	until := time.Now().Add(s.silence)
	if s.until.Before(until) {
		until = s.until
	}
	if err := s.conn.SetReadDeadline(until); err != nil {
		return 0, errCut
	}
	n, err := s.conn.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	switch {
	case n > 0 || err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errSilence
	}
	return 0, errCut
}

// send writes a line.
func (w *wire) send(line string) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.silence)); err != nil {
		return errCut
	}
	_, err := io.WriteString(w.conn, line+"\r\n")
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSilence
	case err != nil:
		return errCut
	}
	return nil
}

// next returns the next byte and leaves it there.
func (w *wire) next() (byte, error) {
	b, err := w.r.Peek(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// expect takes a byte.
func (w *wire) expect(want byte) error {
	b, err := w.r.ReadByte()
	if err == nil && b != want {
		err = errAnswer
	}
	return err
}

// newline takes the end of a line.
func (w *wire) newline() error {
	b, err := w.r.ReadByte()
	if err == nil && b == '\r' {
		b, err = w.r.ReadByte()
	}
	if err == nil && b != '\n' {
		err = errAnswer
	}
	return err
}

// word reads up to a space, a parenthesis or the end of the line, in upper case. Text
// in brackets is part of it.
func (w *wire) word() (string, error) {
	var b strings.Builder
	for inside := false; ; {
		c, err := w.next()
		switch {
		case err != nil:
			return "", err
		case c == '\r', c == '\n', !inside && (c == ' ' || c == '(' || c == ')'):
			if b.Len() == 0 {
				return "", errAnswer
			}
			return strings.ToUpper(b.String()), nil
		case b.Len() == maxWord:
			return "", errAnswer
		}
		inside = c == '[' || inside && c != ']'
		b.WriteByte(c)
		_, _ = w.r.Discard(1) // it is in the buffer
	}
}

// number takes a number without a sign.
func (w *wire) number(bits int) (int64, error) {
	text, err := w.word()
	if err != nil {
		return 0, err
	}
	return parseNumber(text, bits)
}

func parseNumber(text string, bits int) (int64, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, errAnswer
	}
	return int64(n), nil
}

// text takes the rest of a line, and returns its beginning.
func (w *wire) text() (string, error) {
	line, err := w.line()
	return string(line[:min(len(line), maxText)]), err
}

// line takes the rest of a line, and returns its beginning and its end.
func (w *wire) line() ([]byte, error) {
	var kept []byte
	for {
		piece, err := w.r.ReadSlice('\n')
		if len(kept) > 2*maxText {
			kept = append(kept[:maxText], kept[len(kept)-maxText:]...)
		}
		if len(piece) > 2*maxText {
			kept = append(kept, piece[:maxText]...)
			piece = piece[len(piece)-maxText:]
		}
		kept = append(kept, piece...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return []byte(strings.TrimRight(string(kept), "\r\n")), err
	}
}

// literal takes the head of a literal, and returns its size.
func (w *wire) literal() (int64, error) {
	if err := w.expect('{'); err != nil {
		return 0, err
	}
	var digits strings.Builder
	for {
		b, err := w.r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case b == '}':
			n, err := parseNumber(digits.String(), 63)
			if err != nil {
				return 0, err
			}
			return n, w.newline()
		case digits.Len() == maxWord:
			return 0, errAnswer
		}
		digits.WriteByte(b)
	}
}

// drop takes so many bytes.
func (w *wire) drop(n int64) error {
	_, err := io.CopyN(io.Discard, w.r, n)
	return err
}

// quoted takes a quoted string and returns it if it has at most so many bytes.
func (w *wire) quoted(most int) ([]byte, error) {
	if err := w.expect('"'); err != nil {
		return nil, err
	}
	var kept []byte
	for {
		b, err := w.r.ReadByte()
		if err == nil && b == '\\' {
			b, err = w.r.ReadByte()
		} else if b == '"' {
			return kept, err
		}
		switch {
		case err != nil:
			return nil, err
		case b == '\r', b == '\n':
			return nil, errAnswer
		case len(kept) == most:
			return nil, errTooMuch
		}
		kept = append(kept, b)
	}
}

// skip takes a value: a word, a string or a list.
func (w *wire) skip(depth int) error {
	c, err := w.next()
	switch {
	case err != nil:
		return err
	case depth == maxDepth:
		return errAnswer
	case c == '"':
		_, err := w.quoted(64 << 10)
		return err
	case c == '{':
		n, err := w.literal()
		if err != nil {
			return err
		}
		return w.drop(n)
	case c != '(':
		_, err := w.word()
		return err
	}
	return w.list(func() error { return w.skip(depth + 1) })
}

// list reads a list, whose items item reads.
func (w *wire) list(item func() error) error {
	if err := w.expect('('); err != nil {
		return err
	}
	for {
		c, err := w.next()
		switch {
		case err != nil:
			return err
		case c == ')':
			return w.expect(')')
		case c == ' ':
			err = w.expect(' ')
		default:
			err = item()
		}
		if err != nil {
			return err
		}
	}
}

// skipResponse skips the rest of a response, including literals.
func (w *wire) skipResponse() error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		i := strings.LastIndexByte(string(line), '{')
		if i < 0 || !strings.HasSuffix(string(line), "}") {
			return nil
		}
		n, err := parseNumber(string(line[i+1:len(line)-1]), 63)
		if err != nil {
			return nil // it was text
		}
		if err := w.drop(n); err != nil {
			return err
		}
	}
}
