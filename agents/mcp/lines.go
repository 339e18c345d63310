package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeLines serves one host over a pair of streams, a message a line, until it
// leaves or ctx ends. What it has asked before the end of in is answered, for ten
// seconds at most. The caller closes the streams.
func (s *Server) ServeLines(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.Serve(ctx, finishing{&sdk.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}, MaxLineLength: maxMessage}})
}

// unclosed is a writer that must not be closed here.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }

// finishing is a transport whose connection ends when all requests are answered:
// commands in a pipe close their output as soon as they have written.
type finishing struct{ sdk.Transport }

// Connect connects.
func (t finishing) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &finishingConnection{Connection: c, open: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1)}, nil
}

type finishingConnection struct {
	sdk.Connection
	answered chan struct{} // has an element after an answer

	mu   sync.Mutex // guards open
	open map[jsonrpc.ID]bool
}

// Read returns the host's messages. After the last one it waits for the
// answers.
func (c *finishingConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() {
		c.mu.Lock()
		c.open[r.ID] = true
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.finish(ctx)
	}
	return m, err
}

// Write sends the host a message.
func (c *finishingConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.open, r.ID)
		c.mu.Unlock()
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

func (c *finishingConnection) finish(ctx context.Context) {
	timer := time.NewTimer(finishTimeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		open := len(c.open)
		c.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-c.answered:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
