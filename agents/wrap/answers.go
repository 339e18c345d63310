package wrap

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// answers passes on what a server answers, a line at a time. The library would begin something for each request and
// notification of a server, as fast as they come, and nothing here needs one: a notification is dropped, and a request is
// answered before more is read, so that a server that does not read waits for itself.
type answers struct {
	io.Closer
	from *bufio.Reader
	to   io.Writer
	rest []byte // of a line
}

func newAnswers(from io.ReadCloser, to io.Writer) *answers {
	return &answers{Closer: from, from: bufio.NewReaderSize(from, 64<<10), to: to}
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
	var line []byte
	for {
		part, err := a.from.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, errNoAnswer
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// answer returns the line if it is one.
func (a *answers) answer(line []byte) ([]byte, error) {
	var message map[string]jsontext.Value
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return nil, nil
	case wire.Crowded(line) || json.Unmarshal(line, &message, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil:
		return nil, errNoAnswer
	}
	for name := range message {
		if strings.EqualFold(name, "method") {
			return nil, a.reply(message)
		}
	}
	return line, nil
}

// reply answers a request. One without an id is a notification.
func (a *answers) reply(message map[string]jsontext.Value) error {
	id := message["id"]
	if len(id) == 0 || len(id) > 256 {
		return nil
	}
	reply := `"error":{"code":-32601,"message":"there is no such method"}`
	switch string(message["method"]) {
	case `"ping"`:
		reply = `"result":{}`
	case `"roots/list"`:
		reply = `"result":{"roots":[]}`
	}
	_, err := io.WriteString(a.to, `{"jsonrpc":"2.0","id":`+string(id)+`,`+reply+"}\n")
	return err
}

// inTurn writes whole messages, one after the other.
type inTurn struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *inTurn) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(b)
}
