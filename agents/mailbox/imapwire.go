package mailbox

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
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
	maxLine     = 256 << 10 // bytes of a response, without its literals
	maxLiterals = 64        // of a response
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

// line takes the rest of a line.
func (w *wire) line() (string, error) {
	var line []byte
	for {
		piece, err := w.r.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > maxLine:
			return "", errTooMuch
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return strings.TrimRight(string(line), "\r\n"), err
	}
}

var (
	// announced is the end of a line that a literal follows: bytes of any kind (RFC 7888 has the plus, RFC 3516 the tilde).
	announced = regexp.MustCompile(`~?\{([0-9]+)\+?\}$`)
	// free is a response whose text may have any form.
	free = regexp.MustCompile(`(?i)^(\+|\S+ (OK|NO|BAD|PREAUTH|BYE))( |$)`)
)

// response reads a response, and returns its text with {} for each literal. literal is given what stands before one, and
// need not read it.
func (w *wire) response(literal func(before string, content *io.LimitedReader) error) (text string, err error) {
	for n := 0; ; n++ {
		line, err := w.line()
		if text += line; err != nil || len(text) > maxLine || n > maxLiterals {
			return "", cmp.Or(err, errTooMuch)
		}
		size := announced.FindStringSubmatch(line)
		if size == nil || free.MatchString(text) {
			return text, nil
		}
		bytes, err := parseNumber(size[1], 63)
		if err != nil {
			return "", err
		}
		text = strings.TrimSuffix(text, size[0])
		content := &io.LimitedReader{R: w.r, N: bytes}
		if err := literal(text, content); err != nil {
			return "", err
		}
		if _, err := io.CopyN(io.Discard, w.r, content.N); err != nil {
			return "", err
		}
		text += "{}"
	}
}

func parseNumber(text string, bits int) (int64, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, errAnswer
	}
	return int64(n), nil
}
