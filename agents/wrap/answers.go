package wrap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Lines passes on the lines of a stream as a filter has them, which may be as none. A line of more than so many bytes is nil to
// it, and is read to its end if the filter does not fail.
type Lines struct {
	from   *bufio.Reader
	most   int
	filter func(line []byte) ([]byte, error)
	rest   []byte // of a line
}

// NewLines returns the lines of a stream.
func NewLines(from io.Reader, most int, filter func(line []byte) ([]byte, error)) *Lines {
	return &Lines{from: bufio.NewReaderSize(from, 64<<10), most: most, filter: filter}
}

// Read implements [io.Reader].
func (l *Lines) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		line, end := []byte{}, error(nil)
		for more := true; more; more = errors.Is(end, bufio.ErrBufferFull) {
			var part []byte
			part, end = l.from.ReadSlice('\n')
			if line == nil {
				continue
			}
			if line = append(line, part...); len(line) > l.most {
				line = nil
				if _, err := l.filter(nil); err != nil {
					return 0, err
				}
			}
		}
		if len(line) > 0 {
			rest, err := l.filter(line)
			if err != nil {
				return 0, err
			}
			l.rest = rest
		}
		if end != nil && len(l.rest) == 0 {
			return 0, end
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// answers passes on what a server answers, a line at a time. The library would begin something for each request and
// notification of a server, as fast as they come, and nothing here needs one: a notification is dropped, and a request is
// answered before more is read, so that a server that does not read waits for itself. A line that is no message, such as a
// banner, is shown to the operator and passed over, up to maxNoise of them.
type answers struct {
	*Lines
	io.Closer
	to    io.Writer
	noise func(n int, line []byte)
	n     int          // of lines so far
	noisy int          // of them
	first atomic.Int64 // number of the first noisy line
}

// maxNoise bounds the lines of a server that are no messages.
const maxNoise = 1000

func newAnswers(from io.ReadCloser, to io.Writer, noise func(n int, line []byte)) *answers {
	a := &answers{Closer: from, to: to, noise: noise}
	a.Lines = NewLines(from, maxLine, a.answer)
	return a
}

var errNoAnswer = errors.New("wrap: the server does not speak MCP")

// answer returns the line if it is one.
func (a *answers) answer(line []byte) ([]byte, error) {
	if a.n++; line == nil {
		return nil, a.pass(nil, errNoAnswer)
	}
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
	case err != nil || h.Version == nil:
		return nil, a.pass(text, nil)
	case h.Method != nil:
		return nil, a.reply(h)
	}
	if len(h.Error) == 0 {
		return line, nil
	}
	if _, err := jsonrpc.DecodeMessage(text); err != nil { // it fails its call, and not those of others
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"an error that is none of JSON-RPC:","data":%s}}`+"\n", h.ID, h.Error), nil
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
	if len(h.ID) == 0 {
		return nil
	}
	reply := `"error":{"code":-32601,"message":"there is no such method"}`
	switch string(h.Method) {
	case `"ping"`:
		reply = `"result":{}`
	case `"roots/list"`:
		reply = `"result":{"roots":[]}`
	}
	_, err := io.WriteString(a.to, `{"jsonrpc":"2.0","id":`+string(h.ID)+`,`+reply+"}\n")
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
