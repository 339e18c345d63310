package keeper

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/tool"
)

const (
	// MaxLine bounds a line of a cell, in bytes: a request of a model, and the text
	// around it.
	MaxLine = maxRequest + 64<<10

	// Memory is how many bytes a keeper has before it looks for garbage all the time: the
	// cell, which may be hijacked, chooses how large its calls are.
	Memory = 192 << 20

	maxRequest       = 4 << 20 // bytes of a request
	maxConversations = 64      // at a time
)

// Services are what a cell may request from its keeper, in addition to what package
// stdio serves. They do not trust a cell.
type Services struct {
	configuration any
	model         llm.Endpoint
	newDesk       func() (*fetch.Desk, error)

	// Tools performs the cell's calls of tools of MCP servers; nil performs none.
	Tools func(context.Context, tool.Call) tool.Result

	mu            sync.Mutex
	desk          *fetch.Desk            // the one that others are made of; nil before the first fetch
	conversations map[string]*fetch.Desk // nil before the first fetch of one
	reads         map[string]string      // the inputs that the cell reads now, by the call that does
	aside         []string               // those that it is not to read
}

// NewServices returns the services of a cell, which gets the configuration first. desk
// makes the desk of its conversations; nil fetches nothing.
func NewServices(configuration any, model llm.Endpoint, desk func() (*fetch.Desk, error)) *Services {
	return &Services{configuration: configuration, model: model, newDesk: desk, conversations: map[string]*fetch.Desk{}, reads: map[string]string{}}
}

// Methods returns the methods for the cell.
func (s *Services) Methods() map[string]stdio.Method {
	return map[string]stdio.Method{
		"configuration": func(context.Context, jsontext.Value) (any, error) { return s.configuration, nil },
		"model":         s.callModel,
		"fetch":         s.fetch,
		"mcp":           s.callTool,
		"reading":       s.reading,
		"end":           s.end,
	}
}

// ProgramMethods are those of [Services.Methods] for a confined command, which brings its own configuration and tools.
func (s *Services) ProgramMethods() map[string]stdio.Method {
	return map[string]stdio.Method{"model": s.callModel, "fetch": s.fetch, "end": s.end}
}

// Rooms are how many bytes the results of the methods may have, for [stdio.Agent].
func (s *Services) Rooms() map[string]int64 { return map[string]int64{"fetch": fetch.MaxBody} }

var (
	errParams = &stdio.CallError{Code: "malformed", Message: "the parameters are not those of the method"}
	errMany   = &stdio.CallError{Code: "rate_limited", Message: fmt.Sprintf("more than %d conversations at a time", maxConversations)}
)

func readParams(raw jsontext.Value) (p cell.Params, err error) {
	if json.Unmarshal(raw, &p, json.RejectUnknownMembers(true)) != nil || p.Conversation == "" || len(p.Conversation) > 64 {
		return p, errParams
	}
	return p, nil
}

// begin begins a conversation with its first call.
func (s *Services) begin(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	desk, begun := s.conversations[id]
	if !begun && len(s.conversations) >= maxConversations {
		return errMany
	}
	s.conversations[id] = desk
	return nil
}

// callModel makes one call of the model in the definition, whatever name the cell
// gives.
func (s *Services) callModel(ctx context.Context, raw jsontext.Value) (any, error) {
	p, err := readParams(raw)
	if err != nil {
		return nil, err
	}
	if s.model.Provider == nil {
		return nil, &stdio.CallError{Code: "not_permitted", Message: "this agent has no model: name one of mesh.yaml in its definition"}
	}
	if len(p.Request) > maxRequest {
		return nil, &stdio.CallError{Code: llm.ErrorCode(llm.TooLong{}), Message: llm.TooLong{}.Error()}
	}
	if err := s.begin(p.Conversation); err != nil {
		return nil, err
	}
	r, err := llm.ParseRequest(p.Request)
	if err != nil {
		return nil, errParams
	}
	r.Model = s.model.Model
	if s.model.MaxTokens > 0 && (r.MaxTokens <= 0 || r.MaxTokens > s.model.MaxTokens) {
		r.MaxTokens = s.model.MaxTokens
	}
	reply, err := s.model.Provider.Do(ctx, r)
	if err != nil {
		code := llm.ErrorCode(err)
		return nil, &stdio.CallError{Code: code, Message: llm.ErrorOf(code).Error()}
	}
	return reply, nil
}

// fetch has the desk of a conversation fetch.
func (s *Services) fetch(ctx context.Context, raw jsontext.Value) (any, error) {
	p, err := readParams(raw)
	if err != nil {
		return nil, err
	}
	desk, err := s.openDesk(p.Conversation)
	if err != nil {
		return nil, err
	}
	return fetch.NewFetched(desk.Fetch(ctx, p.Ask)), nil
}

func (s *Services) openDesk(id string) (*fetch.Desk, error) {
	if s.newDesk == nil {
		return nil, &stdio.CallError{Code: "not_permitted", Message: "this agent has no network"}
	}
	if err := s.begin(id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.desk == nil {
		desk, err := s.newDesk()
		if err != nil {
			return nil, err
		}
		s.desk = desk
	}
	if s.conversations[id] == nil {
		s.conversations[id] = s.desk.Another()
	}
	return s.conversations[id], nil
}

// callTool calls a tool of an MCP server.
func (s *Services) callTool(ctx context.Context, raw jsontext.Value) (any, error) {
	p, err := readParams(raw)
	if err != nil {
		return nil, err
	}
	if s.Tools == nil {
		return nil, &stdio.CallError{Code: "not_permitted", Message: "this agent has no tools of MCP servers"}
	}
	if err := s.begin(p.Conversation); err != nil {
		return nil, err
	}
	return s.Tools(ctx, p.Call), nil
}

// maxAside is how many inputs are set aside, the newest.
const maxAside = 1000

// Aside returns the inputs that no cell is to read if this one has ended by itself: those before,
// and what it was reading.
func (s *Services) Aside() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.aside)
	for _, input := range s.reads {
		if !slices.Contains(all, input) {
			all = append(all, input)
		}
	}
	return all[max(0, len(all)-maxAside):]
}

var digest = regexp.MustCompile(`^[0-9a-f]{32}$`)

// reading hears which input a call of a tool reads, none at its end.
func (s *Services) reading(_ context.Context, raw jsontext.Value) (any, error) {
	var r cell.Reading
	if json.Unmarshal(raw, &r, json.RejectUnknownMembers(true)) != nil || len(r.Call) > 20 || r.Input != "" && !digest.MatchString(r.Input) {
		return nil, errParams
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reads, r.Call)
	aside := slices.Contains(s.aside, r.Input)
	if r.Input != "" && !aside {
		if len(s.reads) == maxAside {
			return nil, errMany
		}
		s.reads[r.Call] = r.Input
	}
	return map[string]bool{"aside": aside}, nil
}

// end forgets a conversation.
func (s *Services) end(_ context.Context, raw jsontext.Value) (any, error) {
	p, err := readParams(raw)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if desk := s.conversations[p.Conversation]; desk != nil {
		desk.Close()
	}
	delete(s.conversations, p.Conversation)
	return struct{}{}, nil
}
