package mcp

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// Version is the program's version for hosts.
	Version string
	// Logger gets events, and never a payload. Nil discards.
	Logger hclog.Logger
	// Refresh is how often a Controller asks the gateway whether its channels
	// have changed. Zero is 5 s.
	Refresh time.Duration
	// Tools are wrapped servers whose tools a Controller's host also gets.
	Tools []*wrap.File
	// Away reports whether a Reader of this Controller is not connected, for the host of
	// whoever may know that: the mesh's owner, of a channel whose timing is not counted,
	// since a Reader chooses when it is there. Nil knows of none.
	Away func(ctx context.Context, reader bcp.AgentName) bool
}

// Server serves one agent of a mesh, in one role, to any number of MCP hosts. Its
// methods may be used concurrently.
type Server struct {
	mcp     *sdk.Server
	log     hclog.Logger
	role    bcp.Role
	options Options
	ready   chan struct{} // closed when Start knows the agent's channels or subscriptions

	mu        sync.Mutex                                    // guards what follows
	side      side                                          // nil before Start
	resources map[string]func(context.Context) (any, error) // by URI
	announced map[string][]byte
	changed   map[string]bool // resources whose subscribers must be notified
	stop      context.CancelFunc
	work      sync.WaitGroup

	signal chan struct{} // has an element if changed may not be empty
}

// side is the part of a Server that depends on the role.
type side interface {
	// start begins to listen and returns once the agent's channels or
	// subscriptions are known; functions passed to run end with its context.
	start(ctx context.Context, run func(func(context.Context))) error
	stop(ctx context.Context) error
}

// New returns the server of an agent in one of its roles, Controller or Reader. It
// answers hosts at once; requests about the agent wait for Start, for at most
// twenty seconds.
func New(name bcp.AgentName, role bcp.Role, o Options) *Server {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	instructions := controllerInstructions
	if role == bcp.RoleReader {
		instructions = readerInstructions
	}
	s := &Server{log: o.Logger.Named("mcp"), role: role, options: o, ready: make(chan struct{}), resources: map[string]func(context.Context) (any, error){},
		announced: map[string][]byte{}, changed: map[string]bool{}, signal: make(chan struct{}, 1)}
	s.mcp = sdk.NewServer(&sdk.Implementation{Name: "bcpmesh", Title: fmt.Sprintf("bcpmesh %s %s", role, name), Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{
			Tools: &sdk.ToolCapabilities{ListChanged: true}, Prompts: &sdk.PromptCapabilities{ListChanged: true},
			Resources: &sdk.ResourceCapabilities{ListChanged: true, Subscribe: true},
		},
		// Results are private to the agent.
		SetCacheable:       func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
		SubscribeHandler:   func(_ context.Context, r *sdk.SubscribeRequest) error { return s.knows(r.Params.URI) },
		UnsubscribeHandler: func(_ context.Context, r *sdk.UnsubscribeRequest) error { return s.knows(r.Params.URI) },
	})
	s.mcp.AddReceivingMiddleware(s.whenReady)
	return s
}

// whenReady makes requests about the agent wait until its channels or subscriptions are
// known.
func (s *Server) whenReady(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		kind, _, _ := strings.Cut(method, "/")
		if kind == "tools" || kind == "resources" || kind == "prompts" {
			patience := time.NewTimer(readyTimeout)
			defer patience.Stop()
			select {
			case <-s.ready:
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-patience.C:
				if method == "tools/call" {
					return newFault(bcp.Unavailable).saying("there is no mesh yet").next("try again in a minute; an operator starts the mesh with bcpmesh up").result(), nil
				}
			}
		}
		// The SDK's own error quotes the address in a way that is not always JSON, which
		// would end the host's session.
		if read, ok := r.GetParams().(*sdk.ReadResourceParams); ok {
			if err := s.knows(read.URI); err != nil {
				return nil, err
			}
		}
		return next(ctx, method, r)
	}
}

// knows fails unless a resource is there.
func (s *Server) knows(uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resources[uri] == nil {
		return errNoResource
	}
	return nil
}

var errNoResource = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such resource: resources/list says what there is"}

// Start connects the tools with the mesh and returns once the agent's channels or
// subscriptions are known, so that the first list of tools is correct. A Reader's
// connection needs agents.Options.Handlers of [MaxPending]. Call it once.
func (s *Server) Start(ctx context.Context, c *agents.Connection) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var side side
	if s.role == bcp.RoleReader {
		side = newReader(s, c)
	} else {
		side = newController(s, c, s.options)
	}
	s.mu.Lock()
	s.stop, s.side = cancel, side
	s.mu.Unlock()
	run := func(f func(context.Context)) { s.work.Go(func() { f(work) }) }
	run(s.notify)
	if err := side.start(ctx, run); err != nil {
		cancel()
		s.work.Wait()
		return err
	}
	close(s.ready)
	return nil
}

// Stop ends what Start began, and the sessions of all hosts. Unacknowledged and
// unanswered messages stay with the gateway. It may be called before Start, and
// twice.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	stop, side := s.stop, s.side
	s.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	err := side.stop(ctx)
	for session := range s.mcp.Sessions() {
		_ = session.Close() // it is over either way
	}
	s.work.Wait()
	return err
}

// Serve serves one host until it leaves or ctx ends.
func (s *Server) Serve(ctx context.Context, t sdk.Transport) error { return s.mcp.Run(ctx, t) }

// announce sets the tools of the hosts, and notifies them of changes.
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
	s.mu.Lock()
	s.resources[uri] = content
	s.mu.Unlock()
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

// updated notifies the subscribers of a resource. It does not wait for them.
func (s *Server) updated(uri string) {
	s.mu.Lock()
	s.changed[uri] = true
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// notify notifies subscribers of changes, one notification for many changes.
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
