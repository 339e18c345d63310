package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// ServeLines serves one host over a pair of streams, a message a line, until it
// leaves or ctx ends. A line that is no message is answered with an error. What it has asked
// before the end of in is answered, for ten seconds at most. The caller closes the streams.
func (s *Server) ServeLines(ctx context.Context, in io.Reader, out io.Writer) error {
	h := &host{out: out, open: map[string]bool{}, answered: make(chan struct{}, 1), closed: make(chan struct{})}
	h.Lines = wrap.NewLines(in, maxMessage, h.hear)
	return s.Serve(ctx, &sdk.IOTransport{Reader: h, Writer: h, MaxLineLength: 3 * maxMessage})
}

// host is the streams of a host as the library can read and write them: its own reading ends at a line that is no message,
// and decodes ids to float64. To the library the id of a request is the text of its JSON, so that it comes back byte for
// byte. Reading ends when all requests are answered: commands in a pipe close their output as soon as they have written.
type host struct {
	*wrap.Lines
	out      io.Writer
	answered chan struct{}
	closing  sync.Once
	closed   chan struct{}

	writing sync.Mutex // held during a write: a host that does not read is still heard

	mu   sync.Mutex // guards what follows
	open map[string]bool
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

// Read implements [io.Reader]. After the last message it waits for the answers.
func (h *host) Read(b []byte) (int, error) {
	n, err := h.Lines.Read(b)
	if err != nil {
		h.finish()
	}
	return n, err
}

// hear returns a line as the library reads it, or answers one that is no message.
func (h *host) hear(said []byte) ([]byte, error) {
	line := jsontext.Value(bytes.TrimPrefix(bytes.TrimSpace(said), []byte("\ufeff")))
	if said != nil && len(line) == 0 {
		return nil, nil
	}
	var m message
	switch {
	case len(line) == 0:
		return nil, h.refuse(nil, jsonrpc.CodeInvalidRequest, "the message is longer than 1 MiB")
	case wire.Crowded(line) || !line.IsValid(lenient):
		return nil, h.refuse(nil, jsonrpc.CodeParseError, "the line is no JSON")
	case line.Kind() == '[':
		return h.batch(line)
	case json.Unmarshal(line, &m, lenient) != nil || m.Version != "2.0":
		return nil, h.refuse(nil, jsonrpc.CodeInvalidRequest, "the line is no message of JSON-RPC 2.0")
	case len(m.Method) == 0:
		if _, err := jsonrpc.DecodeMessage(line); err != nil || len(m.Result)+len(m.Error) == 0 {
			return nil, h.refuse(nil, jsonrpc.CodeInvalidRequest, "the message has no method")
		}
		return m.line()
	}
	id := jsontext.Value(bytes.ToValidUTF8(m.ID, []byte("\ufffd")))
	if kind := id.Kind(); len(id) > 0 && (kind != '"' && kind != '0' || len(id) > maxID) {
		return nil, h.refuse(nil, jsonrpc.CodeInvalidRequest, "the id is no text or number, or too long")
	}
	if m.Method.Kind() != '"' {
		return nil, h.refuse(id, jsonrpc.CodeInvalidRequest, "the method is no text")
	}
	if string(m.Method) == `"notifications/cancelled"` {
		m.Params = cancelled(m.Params)
	}
	m.ID, m.Result, m.Error = nil, nil, nil
	if len(id) > 0 {
		m.ID, _ = jsontext.AppendQuote(nil, id) // it is Unicode
	}
	heard, err := m.line()
	if _, cannot := jsonrpc.DecodeMessage(heard); err == nil && cannot != nil {
		return nil, h.refuse(id, jsonrpc.CodeInvalidRequest, "the message is nested too deeply")
	}
	if len(id) > 0 && err == nil {
		h.mu.Lock()
		taken := h.open[string(id)]
		h.open[string(id)] = true
		h.mu.Unlock()
		if taken {
			return nil, h.refuse(id, jsonrpc.CodeInvalidRequest, "a request with this id is at work")
		}
	}
	return heard, err
}

// batch returns the messages of a batch, which is of an older version. Each is answered by itself.
func (h *host) batch(line jsontext.Value) (all []byte, err error) {
	var batch []jsontext.Value
	if json.Unmarshal(line, &batch, lenient) != nil || len(batch) == 0 {
		return nil, h.refuse(nil, jsonrpc.CodeInvalidRequest, "the batch has no messages")
	}
	for _, one := range batch {
		var heard []byte
		if one.Kind() == '[' {
			err = h.refuse(nil, jsonrpc.CodeInvalidRequest, "a batch is in another")
		} else {
			heard, err = h.hear(one)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, heard...)
	}
	return all, nil
}

func (m message) line() ([]byte, error) {
	b, err := json.Marshal(m, lenient, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	return append(b, '\n'), nil
}

// refuse answers what is no request.
func (h *host) refuse(id jsontext.Value, code int, says string) error {
	if len(id) == 0 {
		id = jsontext.Value("null")
	}
	b, err := message{Version: "2.0", ID: id, Error: jsontext.Value(fmt.Sprintf(`{"code":%d,"message":%q}`, code, says))}.line()
	if err != nil {
		return err
	}
	_, err = h.write(b)
	return err
}

// cancelled has the parameters of a cancellation name the request as the library knows it.
func cancelled(params jsontext.Value) jsontext.Value {
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

// Write implements [io.Writer]. The library writes each message at once.
func (h *host) Write(b []byte) (int, error) {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return 0, fmt.Errorf("encoding a message: %w", err)
	}
	var id string
	if len(m.Method) > 0 || json.Unmarshal(m.ID, &id) != nil {
		return h.write(b)
	}
	m.ID = jsontext.Value(id)
	line, err := m.line()
	if err == nil {
		_, err = h.write(line)
	}
	h.mu.Lock()
	delete(h.open, id)
	h.mu.Unlock()
	select {
	case h.answered <- struct{}{}:
	default:
	}
	return len(b), err
}

func (h *host) write(b []byte) (int, error) {
	h.writing.Lock()
	defer h.writing.Unlock()
	return h.out.Write(b)
}

// Close implements [io.Closer]. It does not close the streams.
func (h *host) Close() error {
	h.closing.Do(func() { close(h.closed) })
	return nil
}

func (h *host) finish() {
	late := time.After(finishTimeout)
	for {
		h.mu.Lock()
		open := len(h.open)
		h.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-h.answered:
		case <-late:
			return
		case <-h.closed:
			return
		}
	}
}
