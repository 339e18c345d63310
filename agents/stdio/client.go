package stdio

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
)

// Client is the program's end of [Serve], for programs in Go. Its methods may be used concurrently.
type Client struct {
	peer    *peer
	methods map[string]Method
	calls   sync.WaitGroup
}

// NewClient returns a client that writes to out and has these methods: "query",
// "delivery" and "prompt", whose results are sent, and the notifications "ready",
// "subscriptions" and "result", which are handled in order, one at a time, before
// anything else is read.
func NewClient(out io.Writer, methods map[string]Method) *Client {
	return &Client{peer: newPeer(out), methods: methods}
}

// Call calls a method of the other side. The error is a [*CallError] if it refused, a
// [*RunError] if it is gone or does not answer, or the reason that ctx has ended.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	raw, err := c.peer.ask(ctx, method, params)
	var failed *rpcError
	switch {
	case errors.As(err, &failed):
		return failed.call()
	case err != nil:
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return &RunError{Reason: "the result of " + method + " is not understood"}
	}
	return nil
}

// Run reads until the stream ends, cancels the context of running methods, and waits for
// them. A line has at most longest bytes.
func (c *Client) Run(ctx context.Context, in io.Reader, longest int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.calls.Wait()
	defer cancel()
	return c.peer.read(in, longest, func(m message) {
		method, there := c.methods[m.Method]
		switch {
		case len(m.ID) == 0:
			if there {
				_, _ = method(ctx, m.Params) // a notification has no result
			}
			return
		case !there:
			_ = c.peer.send(message{ID: m.ID, Error: &rpcError{Code: codeMethod, Message: "there is no such method"}}, nil)
			return
		}
		called := context.WithValue(ctx, callKey{}, m.ID.String())
		c.calls.Go(func() { c.peer.answer(m, func() (any, error) { return method(called, m.Params) }) })
	})
}

// callKey is the key of a call's id in its context.
type callKey struct{}

// CallID returns the unique id of the call that a method of a [Client] answers. It is
// empty in a notification.
func CallID(ctx context.Context) string {
	id, _ := ctx.Value(callKey{}).(string)
	return id
}

// answer sends the result of a call.
func (p *peer) answer(m message, call func() (any, error)) {
	answer := message{ID: m.ID}
	result, err := call()
	if err == nil {
		answer.Result, err = json.Marshal(result, json.Deterministic(true))
	}
	if err != nil {
		answer.Error = toRPCError(err)
	}
	written := make(chan struct{})
	if p.send(answer, written) == nil { // or the next read finds that the other side is gone
		<-written // its memory is that of a call at work
	}
}
