package wrap

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// answers passes on what a server answers, a line at a time. The library would begin something for each request and
// notification of a server, as fast as they come, and nothing here needs one: a notification is dropped, and a request is
// answered before more is read, so that a server that does not read waits for itself. A line that is no message, such as a
// banner, is shown to the operator and passed over, up to maxNoise of them.
type answers struct {
	io.Closer
	from  *bufio.Reader
	to    io.Writer
	noise func(n int, line []byte)
	rest  []byte       // of a line
	n     int          // of lines so far
	noisy int          // of them
	first atomic.Int64 // number of the first noisy line
}

// maxNoise bounds the lines of a server that are no messages.
const maxNoise = 1000

func newAnswers(from io.ReadCloser, to io.Writer, noise func(n int, line []byte)) *answers {
	return &answers{Closer: from, from: bufio.NewReaderSize(from, 64<<10), to: to, noise: noise}
}

var errNoAnswer = errors.New("wrap: the server does not speak MCP")

// Read implements [io.Reader].
func (a *answers) Read(b []byte) (int, error) {
	for len(a.rest) == 0 {
		line, err := a.line()
		if err != nil {
			return 0, err
		}
		if a.rest, err = a.answer(line); err != nil {
			return 0, err
		}
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// line returns the next line with its end.
func (a *answers) line() ([]byte, error) {
	a.n++
	var line []byte
	for {
		part, err := a.from.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, a.pass(line[:0], errNoAnswer)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// answer returns the line if it is one.
func (a *answers) answer(line []byte) ([]byte, error) {
	if a.n == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return nil, nil
	}
	h, err := parseHead(text)
	switch {
	case err != nil && text[0] == '{': // an answer, perhaps, for which somebody would wait in vain
		return nil, a.pass(text, err)
	case err != nil || !h.version:
		return nil, a.pass(text, nil)
	case h.requests:
		return nil, a.reply(h)
	}
	return line, nil
}

// pass passes over a line that is no message.
func (a *answers) pass(line []byte, err error) error {
	a.first.CompareAndSwap(0, int64(a.n))
	a.noise(a.n, line)
	if a.noisy++; a.noisy > maxNoise {
		return errNoAnswer
	}
	return err
}

// reply answers a request. One without an id is a notification.
func (a *answers) reply(h head) error {
	if len(h.id) == 0 {
		return nil
	}
	reply := `"error":{"code":-32601,"message":"there is no such method"}`
	switch string(h.method) {
	case `"ping"`:
		reply = `"result":{}`
	case `"roots/list"`:
		reply = `"result":{"roots":[]}`
	}
	_, err := io.WriteString(a.to, `{"jsonrpc":"2.0","id":`+string(h.id)+`,`+reply+"}\n")
	return err
}

// inTurn writes whole messages, one after the other. A server that does not read one in time is sent nothing more.
type inTurn struct {
	*os.File
	patience time.Duration
	mu       sync.Mutex
}

func (w *inTurn) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.SetWriteDeadline(time.Now().Add(w.patience)); err != nil {
		return 0, err
	}
	return w.File.Write(b)
}
