package mcp

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Options are all optional.
type Options struct {
	// Version is what the hosts are told of the program.
	Version string
	// Logger gets what happens, and never a payload. Nil discards.
	Logger hclog.Logger
	// Refresh is how often a Controller asks the gateway whether what it has has
	// changed. Zero is 5 s.
	Refresh time.Duration
	// Tools are wrapped servers whose tools a Controller's host is shown as well.
	Tools []*wrap.File
}

// Server serves one agent of a mesh, in one role, to any number of MCP hosts. Its
// methods may be used concurrently.
type Server struct {
	mcp       *sdk.Server
	log       hclog.Logger
	side      side
	resources map[string]func(context.Context) (any, error) // by URI

	mu        sync.Mutex // guards what follows
	announced map[string][]byte
	changed   map[string]bool // resources whose subscribers are to be told
	stop      context.CancelFunc
	work      sync.WaitGroup

	signal chan struct{} // has an element where changed may not be empty
}

// side is the part of a Server that its role makes.
type side interface {
	// start begins to listen and returns once it is known what the agent has; what
	// run adds ends with its context.
	start(ctx context.Context, run func(func(context.Context))) error
	stop(ctx context.Context) error
}

// NewController returns the server of a Controller's connection. It starts
// nothing.
func NewController(c *agents.Connection, o Options) *Server {
	s := newServer(c.Name(), bcp.RoleController, controllerInstructions, o)
	s.side = newController(s, c, o)
	return s
}

// NewReader returns the server of a Reader's connection, which needs
// agents.Options.Handlers of [MaxPending]. It starts nothing.
func NewReader(c *agents.Connection, o Options) *Server {
	s := newServer(c.Name(), bcp.RoleReader, readerInstructions, o)
	s.side = newReader(s, c)
	return s
}

func newServer(name bcp.AgentName, role bcp.Role, instructions string, o Options) *Server {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	s := &Server{log: o.Logger.Named("mcp"), resources: map[string]func(context.Context) (any, error){},
		announced: map[string][]byte{}, changed: map[string]bool{}, signal: make(chan struct{}, 1)}
	known := func(uri string) error {
		if s.resources[uri] == nil {
			return errNoResource
		}
		return nil
	}
	s.mcp = sdk.NewServer(&sdk.Implementation{Name: "bcpmesh", Title: fmt.Sprintf("bcpmesh %s %s", role, name), Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{
			Tools: &sdk.ToolCapabilities{ListChanged: true}, Prompts: &sdk.PromptCapabilities{ListChanged: true},
			Resources: &sdk.ResourceCapabilities{ListChanged: true, Subscribe: true},
		},
		// What an agent has is nobody else's to see.
		SetCacheable:       func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
		SubscribeHandler:   func(_ context.Context, r *sdk.SubscribeRequest) error { return known(r.Params.URI) },
		UnsubscribeHandler: func(_ context.Context, r *sdk.UnsubscribeRequest) error { return known(r.Params.URI) },
	})
	// The SDK's own refusal quotes the address in a way that is not always JSON, and
	// the host's session would end.
	s.mcp.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if read, ok := r.GetParams().(*sdk.ReadResourceParams); ok && known(read.URI) != nil {
				return nil, errNoResource
			}
			return next(ctx, method, r)
		}
	})
	return s
}

var errNoResource = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such resource: resources/list says what there is"}

// Start connects the tools with the mesh and returns once it is known what the
// agent has, so that the first list of tools is right. It is called once.
func (s *Server) Start(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.stop = cancel
	s.mu.Unlock()
	run := func(f func(context.Context)) { s.work.Go(func() { f(work) }) }
	run(s.notify)
	if err := s.side.start(ctx, run); err != nil {
		cancel()
		s.work.Wait()
		return err
	}
	return nil
}

// Stop ends what Start began, and the sessions of all hosts. What they have not
// acknowledged or answered stays with the gateway. It may be called before Start,
// and twice.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	err := s.side.stop(ctx)
	for session := range s.mcp.Sessions() {
		_ = session.Close() // it is over either way
	}
	s.work.Wait()
	return err
}

// Serve serves one host until it leaves or ctx ends.
func (s *Server) Serve(ctx context.Context, t sdk.Transport) error { return s.mcp.Run(ctx, t) }

// announce has the hosts know exactly these tools, and tells them where that is
// news.
func (s *Server) announce(tools map[*sdk.Tool]sdk.ToolHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := maps.Clone(s.announced)
	for tool, work := range tools {
		delete(gone, tool.Name)
		form, err := json.Marshal(tool, json.Deterministic(true))
		if err != nil {
			s.log.Error("a tool cannot be shown", "tool", tool.Name, "error", err)
			continue
		}
		if !bytes.Equal(s.announced[tool.Name], form) {
			s.announced[tool.Name] = form
			s.mcp.AddTool(tool, work)
		}
	}
	for name := range gone {
		delete(s.announced, name)
	}
	if len(gone) > 0 {
		s.mcp.RemoveTools(slices.Collect(maps.Keys(gone))...)
	}
}

// resource adds a resource that hosts may read and subscribe to.
func (s *Server) resource(uri, name, description string, content func(context.Context) (any, error)) {
	s.resources[uri] = content
	s.mcp.AddResource(&sdk.Resource{URI: uri, Name: name, Description: description, MIMEType: "application/json"},
		func(ctx context.Context, _ *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			value, err := content(ctx)
			if err != nil {
				return nil, err
			}
			b, err := json.Marshal(value, json.Deterministic(true))
			if err != nil {
				return nil, fmt.Errorf("encoding %s: %w", uri, err)
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(b)}}}, nil
		})
}

// prompt adds the prompt of the role.
func (s *Server) prompt(name, title, description string, text func() string) {
	s.mcp.AddPrompt(&sdk.Prompt{Name: name, Title: title, Description: description},
		func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: description,
				Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text()}}}}, nil
		})
}

// updated has the subscribers of a resource told. It never waits for them.
func (s *Server) updated(uri string) {
	s.mu.Lock()
	s.changed[uri] = true
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// notify tells subscribers of what changed, one notification for many changes.
func (s *Server) notify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.signal:
		}
		s.mu.Lock()
		changed := slices.Sorted(maps.Keys(s.changed))
		clear(s.changed)
		s.mu.Unlock()
		for _, uri := range changed {
			told, cancel := context.WithTimeout(ctx, notifyTimeout)
			if err := s.mcp.ResourceUpdated(told, &sdk.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
				s.log.Debug("a notification was not sent", "resource", uri, "error", err)
			}
			cancel()
		}
	}
}
