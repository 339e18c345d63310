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
	if e.Data == nil {
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
// concurrently. Lines are written by a goroutine, so that whoever does not read them holds
// up only those who wait for that.
type peer struct {
	out io.Writer

	patience time.Duration // for a line to be read

	mu      sync.Mutex // guards what follows, and is never held while something is written
	in      io.Reader  // nil before it is read
	next    int64
	waiting map[int64]chan message // requests of ours
	lines   []line                 // to be written
	idle    chan struct{}          // closed when the goroutine that writes them has ended; nil before the first
	unread  int                    // bytes of those that nobody waits for
	broken  error                  // why nothing can be written
}

// line is a line to be written.
type line struct {
	text    []byte
	written chan struct{} // closed when it is, or never will be; nil if nobody waits
}

func newPeer(out io.Writer) *peer {
	return &peer{out: out, patience: writeTimeout, waiting: map[int64]chan message{}}
}

var errUnread = errors.New("stdio: the program does not read what it is sent")

// send has a line written after those before it. Nobody need wait for written.
func (p *peer) send(m message, written chan struct{}) error {
	m.JSONRPC = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if written == nil {
		if p.unread += len(b); p.unread > maxUnread && p.broken == nil {
			p.broken = errUnread
		}
	}
	if p.broken != nil {
		return p.broken
	}
	if p.lines = append(p.lines, line{append(b, '\n'), written}); len(p.lines) == 1 {
		p.idle = make(chan struct{})
		go p.writeLines(p.idle)
	}
	return nil
}

// writeLines writes the lines that there are. Whoever does not read one in time is sent
// nothing more, and not read any more, either.
func (p *peer) writeLines(idle chan struct{}) {
	defer close(idle)
	for {
		p.mu.Lock()
		one := p.lines[0]
		p.mu.Unlock()
		if out, ok := p.out.(interface{ SetWriteDeadline(time.Time) error }); ok { // not a pipe within this process
			_ = out.SetWriteDeadline(time.Now().Add(p.patience)) // a file has none, and needs none
		}
		_, err := p.out.Write(one.text)
		if p.wrote(one, err) {
			return
		}
	}
}

// wrote takes a line away, and reports whether it was the last one.
func (p *peer) wrote(one line, err error) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.broken == nil {
		p.broken = err
	}
	if one.written == nil {
		p.unread -= len(one.text) - 1
	} else {
		close(one.written)
	}
	if p.lines = p.lines[1:]; p.broken == nil {
		return len(p.lines) == 0
	}
	for _, left := range p.lines {
		if left.written != nil {
			close(left.written)
		}
	}
	p.lines = nil
	if in, ok := p.in.(interface{ SetReadDeadline(time.Time) error }); ok && errors.Is(p.broken, os.ErrDeadlineExceeded) {
		_ = in.SetReadDeadline(time.Now())
	}
	return true
}

// finish waits until all lines are written, for a while.
func (p *peer) finish() {
	p.mu.Lock()
	idle := p.idle
	p.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(finishTimeout):
	}
}

// failed returns why nothing can be written.
func (p *peer) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// notify sends a notification.
func (p *peer) notify(method string, params any) {
	b, err := json.Marshal(params, json.Deterministic(true))
	if err == nil {
		_ = p.send(message{Method: method, Params: b}, nil) // the next read finds that it is gone
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
	written := make(chan struct{})
	if err := p.send(message{ID: jsontext.Value(strconv.FormatInt(id, 10)), Method: method, Params: b}, written); err != nil {
		return nil, p.notWritten(err)
	}
	late := time.After(handlerTimeout)
	for {
		select {
		case m := <-answer:
			if m.Error != nil {
				return nil, m.Error
			}
			return m.Result, nil
		case <-written:
			if err := p.failed(); err != nil {
				return nil, p.notWritten(err)
			}
			written = nil
		case <-late:
			return nil, &RunError{Reason: fmt.Sprintf("no answer within %s", handlerTimeout)}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// notWritten is why a call was not made.
func (p *peer) notWritten(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &RunError{Reason: fmt.Sprintf("the program read nothing within %s", p.patience)}
	case errors.Is(err, errUnread):
		return &RunError{Reason: "the program does not read what it is sent"}
	}
	return &RunError{Reason: "the program has closed its output"}
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

// read calls handle for each request, and returns at the end of the stream, when what was sent
// before is written.
func (p *peer) read(in io.Reader, longest int, handle func(message)) error {
	defer p.finish()
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
			if err := p.send(message{ID: id, Error: failed}, nil); err != nil {
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
