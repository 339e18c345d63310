package mcp

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeLines serves one host over a pair of streams, a message a line, until it leaves, sends
// what is no message or one that is longer than 1 MiB, or ctx ends. What it has asked before
// the end of in is answered, for ten seconds at most. The caller closes the streams.
func (s *Server) ServeLines(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.Serve(ctx, &lines{sdk.IOTransport{Reader: io.NopCloser(in), Writer: keptOpen{out}, MaxLineLength: maxMessage}})
}

// keptOpen is a writer that its caller closes.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// lines is a transport with one connection.
type lines struct{ sdk.IOTransport }

// Connect implements [sdk.Transport].
func (l *lines) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := l.IOTransport.Connect(ctx)
	return &lineConnection{Connection: c, answered: make(chan struct{}, 1)}, err
}

// lineConnection is a connection whose reading ends when all requests are answered: commands in a pipe close their output as
// soon as they have written.
type lineConnection struct {
	sdk.Connection
	open     atomic.Int64 // requests without an answer
	answered chan struct{}
}

// Read implements [sdk.Connection]. After the last message it waits for the answers.
func (c *lineConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.open.Add(1)
	}
	if !errors.Is(err, io.EOF) {
		return m, err
	}
	for late := time.After(finishTimeout); c.open.Load() > 0; {
		select {
		case <-c.answered:
		case <-late:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
	return nil, err
}

// Write implements [sdk.Connection].
func (c *lineConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.open.Add(-1)
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}
