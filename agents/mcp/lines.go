package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// ServeLines serves one host over a pair of streams, a message a line, until it
// leaves or ctx ends. A line that is no message is answered with an error. What it has asked
// before the end of in is answered, for ten seconds at most. The caller closes the streams.
func (s *Server) ServeLines(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.Serve(ctx, lines{in, out})
}

// lines is a transport with one connection. The library's own ends at a line that is no message, and decodes ids to float64.
type lines struct {
	in  io.Reader
	out io.Writer
}

// Connect implements [sdk.Transport].
func (l lines) Connect(context.Context) (sdk.Connection, error) {
	c := &lineConnection{out: l.out, came: make(chan []byte), closed: make(chan struct{}), open: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1)}
	go c.scan(bufio.NewReaderSize(l.in, 64<<10))
	return c, nil
}

// lineConnection is a connection whose reading ends when all requests are answered: commands in a pipe close their output as
// soon as they have written. To the library the id of a request is the text of its JSON, so that it comes back byte for byte.
type lineConnection struct {
	out      io.Writer
	came     chan []byte // a line; nil is one that is too long; closed at the end
	failed   error       // why it was closed, if not at the end of the stream
	queue    [][]byte    // the other messages of a line
	answered chan struct{}
	closing  sync.Once
	closed   chan struct{}

	writing sync.Mutex // held during a write: a host that does not read is still heard

	mu   sync.Mutex // guards what follows
	open map[jsonrpc.ID]bool
}

// scan reads lines. It may outlive the connection, until the stream ends.
func (c *lineConnection) scan(in *bufio.Reader) {
	defer close(c.came)
	for {
		line, err := readLine(in)
		if len(bytes.TrimSpace(line)) > 0 || line == nil && err == nil {
			select {
			case c.came <- line:
			case <-c.closed:
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.failed = err
			}
			return
		}
	}
}

// readLine returns the next line, or nil if it is too long.
func readLine(in *bufio.Reader) (line []byte, err error) {
	line = []byte{}
	for {
		part, err := in.ReadSlice('\n')
		if line != nil {
			line = append(line, part...)
		}
		if len(line) > maxMessage {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// lenient are the options for a message: its arguments are judged by themselves.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// message is a message of JSON-RPC as a host writes it.
type message struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  jsontext.Value `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   jsontext.Value `json:"error,omitzero"`
}

// Read implements [sdk.Connection]. After the last message it waits for the answers.
func (c *lineConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var line []byte
		ok, batched := true, len(c.queue) > 0
		if batched {
			line, c.queue = c.queue[0], c.queue[1:]
		} else {
			select {
			case line, ok = <-c.came:
			case <-c.closed:
				return nil, io.EOF
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if !ok {
			c.finish(ctx)
			if c.failed != nil {
				return nil, c.failed
			}
			return nil, io.EOF
		}
		m, err := c.parse(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("\ufeff")), batched)
		if m != nil || err != nil {
			return m, err
		}
	}
}

// parse returns a message, or answers a line that is none.
func (c *lineConnection) parse(line []byte, batched bool) (jsonrpc.Message, error) {
	id := jsontext.Value("null")
	refuse := func(code int, says string) (jsonrpc.Message, error) {
		return nil, c.write(message{Version: "2.0", ID: id, Error: jsontext.Value(fmt.Sprintf(`{"code":%d,"message":%q}`, code, says))})
	}
	var m message
	switch kind := jsontext.Value(line).Kind(); {
	case len(line) == 0:
		return refuse(jsonrpc.CodeInvalidRequest, "the message is longer than 1 MiB")
	case wire.Crowded(line) || !jsontext.Value(line).IsValid(lenient):
		return refuse(jsonrpc.CodeParseError, "the line is no JSON")
	case kind == '[': // a batch of an older version: each of its messages is answered by itself
		var batch []jsontext.Value
		if batched || json.Unmarshal(line, &batch, lenient) != nil || len(batch) == 0 {
			return refuse(jsonrpc.CodeInvalidRequest, "the batch has no messages, or is in another")
		}
		for _, one := range batch {
			c.queue = append(c.queue, bytes.Clone(one))
		}
		return nil, nil
	case json.Unmarshal(line, &m, lenient) != nil || m.Version != "2.0":
		return refuse(jsonrpc.CodeInvalidRequest, "the line is no message of JSON-RPC 2.0")
	case len(m.Method) == 0:
		response, err := jsonrpc.DecodeMessage(line)
		if err != nil || len(m.Result)+len(m.Error) == 0 {
			return refuse(jsonrpc.CodeInvalidRequest, "the message has no method")
		}
		return response, nil
	}
	r := &jsonrpc.Request{}
	if len(m.ID) > 0 {
		if kind := m.ID.Kind(); kind != '"' && kind != '0' || len(m.ID) > maxID {
			return refuse(jsonrpc.CodeInvalidRequest, "the id is no text or number, or too long")
		}
		id = m.ID
		r.ID, _ = jsonrpc.MakeID(string(m.ID)) // a text is one
	}
	if json.Unmarshal(m.Method, &r.Method) != nil {
		return refuse(jsonrpc.CodeInvalidRequest, "the method is no text")
	}
	if r.Params = []byte(m.Params); r.Method == "notifications/cancelled" {
		r.Params = cancelled(r.Params)
	}
	if r.IsCall() {
		c.mu.Lock()
		taken := c.open[r.ID]
		c.open[r.ID] = true
		c.mu.Unlock()
		if taken {
			return refuse(jsonrpc.CodeInvalidRequest, "a request with this id is at work")
		}
	}
	return r, nil
}

// cancelled has the parameters of a cancellation name the request as the library knows it.
func cancelled(params []byte) []byte {
	var members map[string]jsontext.Value
	if json.Unmarshal(params, &members, lenient) != nil {
		return params
	}
	if id, ok := members["requestId"]; ok {
		members["requestId"], _ = jsontext.AppendQuote(nil, id)
	}
	changed, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return params
	}
	return changed
}

// Write implements [sdk.Connection].
func (c *lineConnection) Write(_ context.Context, m jsonrpc.Message) error {
	encoded, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	response, ok := m.(*jsonrpc.Response)
	if !ok {
		return c.line(encoded)
	}
	var out message
	if err := json.Unmarshal(encoded, &out); err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if raw, ok := response.ID.Raw().(string); ok {
		out.ID = jsontext.Value(raw)
	}
	err = c.write(out)
	c.mu.Lock()
	delete(c.open, response.ID)
	c.mu.Unlock()
	select {
	case c.answered <- struct{}{}:
	default:
	}
	return err
}

func (c *lineConnection) write(m message) error {
	b, err := json.Marshal(m, lenient, jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	return c.line(b)
}

func (c *lineConnection) line(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(b, '\n'))
	return err
}

// Close implements [sdk.Connection]. It does not close the streams.
func (c *lineConnection) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return nil
}

// SessionID implements [sdk.Connection].
func (c *lineConnection) SessionID() string { return "" }

func (c *lineConnection) finish(ctx context.Context) {
	late := time.After(finishTimeout)
	for {
		c.mu.Lock()
		open := len(c.open)
		c.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-c.answered:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}
