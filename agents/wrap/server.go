package wrap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// KeyMeta is the member of a call's _meta with the call's key: a repeated call has the
// same key. A server that supports it can be defined with idempotency key.
const KeyMeta = "bcpmesh.dev/key"

// Server performs calls with the pinned tools of an MCP server. The zero value performs
// none. It may be used concurrently.
type Server struct {
	upstream *Upstream
	timeout  time.Duration
	pins     map[string]Pinned
}

// NewServer returns a Server for calls of pinned tools; timeout is that of a call. The
// caller closes the upstream.
func NewServer(u *Upstream, timeout time.Duration, pins []Pinned) (*Server, error) {
	s := &Server{upstream: u, timeout: timeout, pins: map[string]Pinned{}}
	for _, p := range pins {
		if _, twice := s.pins[p.Name]; twice {
			return nil, fmt.Errorf("two tools are pinned as %q", p.Name)
		}
		s.pins[p.Name] = p
	}
	return s, nil
}

// Call performs one call. A tool that is not pinned, or that the server now lists
// differently, is not called: the error is a [*agents.NotPerformedError] with
// [agents.ErrToolChanged]. If the server ends, or does not answer in time, the outcome is
// unknown: [agents.ErrNoOutcome]. Any other error is a failure reported by the tool.
func (s *Server) Call(ctx context.Context, c agents.Call) (any, error) {
	result, err := s.call(ctx, s.upstream, c.Tool, c.Args, sdk.Meta{KeyMeta: c.Key})
	if err != nil {
		return nil, err
	}
	text := result.Text()
	note := strings.ToValidUTF8(text[:min(len(text), maxNote)], "")
	switch {
	case result.Failed: // and may have done something
		return nil, fmt.Errorf("the MCP server says that it failed: %s", note)
	case result.Structured != nil:
		return jsontext.Value(wire.WholeNumbers(result.Structured)), nil // to JSON Schema 12.0 is an integer
	case !result.Readable():
		return nil, fmt.Errorf("the MCP server returned no text: %s", note)
	}
	return map[string]string{textField: text}, nil
}

// call calls a pinned tool.
func (s *Server) call(ctx context.Context, u *Upstream, name string, args jsontext.Value, meta sdk.Meta) (*Result, error) {
	p, ok := s.pins[name]
	if !ok {
		return nil, &agents.NotPerformedError{Err: agents.ErrToolChanged}
	}
	listed, err := u.Tools(ctx)
	if err == nil && !p.isListed(listed) {
		err = agents.ErrToolChanged
	}
	if err != nil {
		return nil, &agents.NotPerformedError{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	result, err := u.Call(ctx, p.Listed, args, meta)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", agents.ErrNoOutcome, err)
	}
	return result, nil
}

const (
	// textField is the only field of a result without structure.
	textField = "text"
	// maxNote bounds how much of a failure people are shown, in bytes.
	maxNote = 1000
)

// Check returns the pinned tools that the server lists differently or not at all, and its
// other tools, by its own names.
func (s *Server) Check(ctx context.Context) (changed, unknown []string, err error) {
	listed, err := s.upstream.Tools(ctx)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for name, p := range s.pins {
		known[p.Listed] = true
		if !p.isListed(listed) {
			changed = append(changed, name)
		}
	}
	for _, tool := range listed {
		if !known[tool.Name] {
			unknown = append(unknown, tool.Name)
		}
	}
	slices.Sort(changed)
	return changed, unknown, nil
}
