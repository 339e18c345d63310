package stdio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The error codes of JSON-RPC 2.0, and ours.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeRefused  = -32000 // the gateway refused it: data has its code
	codeNoAnswer = -32001 // no reply, or the connection is gone
)

// message is a line in either direction: a request, a notification or a response.
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *rpcError      `json:"error,omitzero"`
}

// rpcError is the error of a response.
type rpcError struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Data    *rpcCause `json:"data,omitzero"`
}

// rpcCause says more of an error of ours.
type rpcCause struct {
	Code       string `json:"code"`
	RetryAfter int64  `json:"retry_after_seconds,omitzero"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("JSON-RPC error %d", e.Code) }

// call returns the error for the caller.
func (e *rpcError) call() *CallError {
	switch {
	case e == nil:
		return nil
	case e.Data == nil:
		return &CallError{Message: e.Message}
	}
	return &CallError{Code: e.Data.Code, Message: e.Message}
}

// readMessage reads a line of a program.
func readMessage(line []byte) (m message, failed *rpcError) {
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}, &rpcError{Code: codeParse, Message: "the line is not a JSON object of JSON-RPC"}
	}
	switch kind := m.ID.Kind(); {
	case m.JSONRPC != "2.0":
		failed = &rpcError{Code: codeRequest, Message: `jsonrpc is not "2.0"`}
	case len(m.ID) > 0 && kind != '"' && kind != '0':
		failed = &rpcError{Code: codeRequest, Message: "the id is neither text nor a number"}
	case m.Method == "" && len(m.ID) == 0:
		failed = &rpcError{Code: codeRequest, Message: "neither a method nor an id"}
	}
	return m, failed
}

// peer is the program on the other side of two streams. Its methods may be used
// concurrently.
type peer struct {
	out   io.Writer
	trace func(Passage) error // nil traces nothing

	patience time.Duration // for a line to be read

	writing chan struct{} // holds a token while a line is written, and guards broken
	broken  error         // why nothing can be written

	mu      sync.Mutex // guards what follows
	in      io.Reader  // nil before it is read
	next    int64
	waiting map[int64]chan message // requests of ours
}

func newPeer(out io.Writer) *peer {
	return &peer{out: out, patience: writeTimeout, writing: make(chan struct{}, 1), waiting: map[int64]chan message{}}
}

// write sends a line. Whoever does not read one in time is sent nothing more, and not
// read any more, either.
func (p *peer) write(ctx context.Context, m message) error {
	m.JSONRPC = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	select {
	case p.writing <- struct{}{}:
		defer func() { <-p.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.broken != nil {
		return p.broken
	}
	if out, ok := p.out.(interface{ SetWriteDeadline(time.Time) error }); ok { // not a pipe within this process
		_ = out.SetWriteDeadline(time.Now().Add(p.patience)) // a file has none, and needs none
	}
	if _, p.broken = p.out.Write(append(b, '\n')); errors.Is(p.broken, os.ErrDeadlineExceeded) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if in, ok := p.in.(interface{ SetReadDeadline(time.Time) error }); ok {
			_ = in.SetReadDeadline(time.Now())
		}
	}
	return p.broken
}

// passed reports a message to Trace.
func (p *peer) passed(what Passage) error {
	if p.trace == nil {
		return nil
	}
	return p.trace(what)
}

// notify sends a notification.
func (p *peer) notify(method string, params any) {
	b, err := json.Marshal(params, json.Deterministic(true))
	if err == nil {
		err = p.passed(Passage{Method: method, Params: b})
	}
	if err == nil {
		_ = p.write(context.Background(), message{Method: method, Params: b}) // the next read finds that it is gone
	}
}

// ask sends a request and returns the result. The error is a [*RunError], an *rpcError
// of the program, or the reason that ctx has ended.
func (p *peer) ask(ctx context.Context, method string, params any) (jsontext.Value, error) {
	b, err := json.Marshal(params, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("stdio: %w", err)
	}
	answer := make(chan message, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.waiting[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, id)
	}()
	call := Passage{Call: strconv.FormatInt(id, 10), Method: method, Params: b}
	if err := p.passed(call); err != nil {
		return nil, err
	}
	switch err := p.write(ctx, message{ID: jsontext.Value(call.Call), Method: method, Params: b}); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &RunError{Reason: fmt.Sprintf("the program read nothing within %s", p.patience)}
	case err != nil:
		return nil, &RunError{Reason: "the program has closed its output"}
	}
	timer := time.NewTimer(handlerTimeout)
	defer timer.Stop()
	select {
	case m := <-answer:
		call.Done, call.Result, call.Err = true, m.Result, m.Error.call()
		if err := p.passed(call); err != nil {
			return nil, err
		}
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-timer.C:
		return nil, &RunError{Reason: fmt.Sprintf("no answer within %s", handlerTimeout)}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answered passes a response to its caller. A response without a waiting caller is
// late, or made up, and is dropped.
func (p *peer) answered(m message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	answer := p.waiting[id]
	delete(p.waiting, id)
	p.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// read calls handle for each request, and returns at the end of the stream.
func (p *peer) read(in io.Reader, longest int, handle func(message)) error {
	p.mu.Lock()
	p.in = in
	p.mu.Unlock()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		m, failed := readMessage(lines.Bytes())
		switch {
		case failed != nil:
			id := m.ID
			if len(id) == 0 {
				id = jsontext.Value("null")
			}
			if err := p.write(context.Background(), message{ID: id, Error: failed}); err != nil {
				return err
			}
		case m.Method == "":
			p.answered(m)
		default:
			handle(m)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("stdio: the program read nothing within %s", p.patience)
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("stdio: a line of the program is longer than %d KiB", longest>>10)
	}
	return lines.Err()
}
