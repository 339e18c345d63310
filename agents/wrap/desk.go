package wrap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

const (
	// DeskTimeout is how long one call of a [Desk] may take, with the start of its server.
	DeskTimeout = 45 * time.Second
	// maxResult bounds the text of one result, in bytes.
	maxResult = 1 << 20
)

// Starter starts a server, or connects to it. The desk closes it.
type Starter func(ctx context.Context, server *bcp.MCPServer) (*Upstream, error)

// Desk performs the tool calls of a model's cell, for its keeper, with tools of MCP
// servers that the operator named. It trusts neither: a call goes to a pinned tool, with
// arguments of the operator's type, and the result is text. It may be used concurrently.
type Desk struct {
	start   Starter
	timeout time.Duration
	changed func(tool string)
	tools   map[string]*deskTool
	servers map[string]*deskServer
}

type deskTool struct {
	server *deskServer
	input  *kernel.Type
}

// deskServer is a server that is started by its first call, and restarted by the next
// call after it has ended.
type deskServer struct {
	Server
	definition *bcp.MCPServer

	mu     sync.Mutex // guards closed and the upstream, which is nil if it is not started; held while it starts
	closed bool
}

// NewDesk returns the desk for the names that are tools of MCP servers of a mesh. timeout
// is that of a call. changed is called for each call of a tool that differs from its pin.
// The caller closes the desk.
func NewDesk(m *bcp.Mesh, names []string, start Starter, timeout time.Duration, changed func(tool string)) (*Desk, error) {
	d := &Desk{start: start, timeout: timeout, changed: changed, tools: map[string]*deskTool{}, servers: map[string]*deskServer{}}
	for _, name := range names {
		definition, t := m.MCPTool(name)
		if t == nil {
			continue
		}
		input, err := kernel.ParseType([]byte(t.InputSchema))
		if err != nil {
			return nil, fmt.Errorf("the input_schema of %s: %w", name, err)
		}
		s := d.servers[string(definition.Name)]
		if s == nil {
			s = &deskServer{Server: Server{timeout: timeout, pins: map[string]Pinned{}}, definition: definition}
			d.servers[string(definition.Name)] = s
		}
		s.pins[t.Name] = Pinned{Name: t.Name, Listed: t.Listed, SHA256: t.SHA256}
		d.tools[name] = &deskTool{s, input}
	}
	return d, nil
}

// Close ends the servers.
func (d *Desk) Close() {
	for _, s := range d.servers {
		s.mu.Lock()
		s.closed = true
		if s.upstream != nil {
			s.upstream.Close()
		}
		s.mu.Unlock()
	}
}

// Call performs one call, and returns its result. A failure contains no text of a
// server.
func (d *Desk) Call(ctx context.Context, c tool.Call) tool.Result {
	t := d.tools[c.Tool]
	if t == nil {
		return tool.Result{Failure: tool.Unavailable}
	}
	var arguments jsontext.Value
	if tool.Arguments(c.Arguments, &arguments) != nil {
		return tool.Result{Failure: tool.BadArguments}
	}
	value, err := kernel.ParseValue(arguments)
	if err != nil || !t.input.Has(&value) {
		return tool.Result{Failure: tool.BadArguments}
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var upstream *Upstream
	var result *Result
	for range 2 {
		if upstream, err = t.server.running(ctx, d.start); err != nil {
			return tool.Result{Failure: timeoutOr(ctx, tool.Unavailable)}
		}
		result, err = t.server.call(ctx, upstream, c.Tool, value.JSON(), nil)
		if not := new(agents.NotPerformedError); !errors.As(err, &not) || errors.Is(err, agents.ErrToolChanged) || ctx.Err() != nil {
			break
		}
		t.server.end(upstream) // it may have forgotten the session: nothing was done, and another is begun
	}
	switch {
	case errors.Is(err, agents.ErrToolChanged):
		d.changed(c.Tool)
		return tool.Result{Failure: tool.Changed}
	case err != nil:
		// It has ended, or speaks MCP no more. At a URL its answer may go on.
		if ctx.Err() == nil || t.server.definition.URL != "" {
			t.server.end(upstream)
		}
		return tool.Result{Failure: timeoutOr(ctx, tool.Unavailable)}
	}
	text := result.Whole()
	if len(text) > maxResult {
		return tool.Result{Failure: tool.TooLarge}
	}
	return tool.Result{Text: text, Failed: result.Failed}
}

func timeoutOr(ctx context.Context, otherwise tool.Failure) tool.Failure {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tool.TimedOut
	}
	return otherwise
}

// end ends a server, unless another has taken its place.
func (s *deskServer) end(u *Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.upstream == u {
		u.Close()
		s.upstream = nil
	}
}

// running returns the server, which it starts if necessary.
func (s *deskServer) running(ctx context.Context, start Starter) (*Upstream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the desk is closed")
	}
	if s.upstream != nil {
		select {
		case <-s.upstream.Done():
			s.upstream.Close()
			s.upstream = nil
		default:
			return s.upstream, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	started, err := start(ctx, s.definition)
	if err == nil {
		s.upstream = started
	}
	return s.upstream, err
}
