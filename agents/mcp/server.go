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

// Limits of a host's requests, and of what waits for it.
const (
	// MaxPending is how many queries wait for a Reader's host at a time. The
	// gateway repeats the others.
	MaxPending = 256
	// maxListed is how many deliveries or queries one call lists: a model reads
	// them all.
	maxListed = 32
	// maxAcknowledged is how many deliveries one call acknowledges.
	maxAcknowledged = 256
	// maxHanded is how many sealed values one call hands to a person: less than the acts of
	// a session that a Controller has in a minute.
	maxHanded = 16
	// maxWait is how long a call waits at most. Hosts give up after a minute.
	maxWait = 50 * time.Second
	// silence is how long a wrapped tool says nothing before its Reader is looked for.
	silence = time.Second
	// maxArguments bounds the arguments of a call, in bytes, and maxMessage a
	// whole message of a host.
	maxArguments = 256 << 10
	maxMessage   = 1 << 20
	// maxID bounds the id of a host's request, in bytes.
	maxID = 256

	// callTimeout is the timeout of one message to the gateway, even across a
	// restart of the mesh, and resultTimeout that of the gateway's verdict on an
	// answer.
	callTimeout   = 30 * time.Second
	resultTimeout = 10 * time.Second
	// arrivalTime is how long an answer waits for its query: a newly connected
	// Reader gets its open queries a moment later.
	arrivalTime = 2 * time.Second
	// finishTimeout is how long a host still gets answers after it has closed its
	// output.
	finishTimeout = 10 * time.Second
	// listTimeout is how long a start waits for the agent's channels or subscriptions.
	listTimeout = 5 * time.Second
	// readyTimeout is how long a host's request about the agent waits for the mesh.
	// Hosts give a list of tools half a minute.
	readyTimeout = 20 * time.Second
	// refreshTime is how often a Controller asks whether its channels have changed.
	refreshTime = 5 * time.Second
	// sessionIdle is how long a session over HTTP lives without a request.
	sessionIdle = 24 * time.Hour
)

// Options are all optional.
type Options struct {
	// Version is the program's version for hosts.
	Version string
	// Logger gets events, and never a payload. Nil discards.
	Logger hclog.Logger
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

	mu        sync.Mutex // guards what follows
	side      side       // nil before Start
	announced map[string][]byte
	stop      context.CancelFunc
	work      sync.WaitGroup
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
	s := &Server{log: o.Logger.Named("mcp"), role: role, options: o, ready: make(chan struct{}), announced: map[string][]byte{}}
	s.mcp = sdk.NewServer(&sdk.Implementation{Name: "bcpmesh", Title: fmt.Sprintf("bcpmesh %s %s", role, name), Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{
			Tools: &sdk.ToolCapabilities{ListChanged: true}, Prompts: &sdk.PromptCapabilities{ListChanged: true},
		},
		// Results are private to the agent.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	s.mcp.AddReceivingMiddleware(s.whenReady)
	return s
}

// errNoResources answers requests for resources, of which there are none. The library's own
// answer repeats the URI in what is no JSON for some of them, and ends the session.
var errNoResources = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "there are no resources"}

// whenReady makes requests about the agent wait until its channels or subscriptions are
// known.
func (s *Server) whenReady(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		kind, _, _ := strings.Cut(method, "/")
		if kind == "resources" {
			return nil, errNoResources
		}
		if kind == "tools" || kind == "prompts" {
			select {
			case <-s.ready:
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(readyTimeout):
				if method == "tools/call" {
					return newFault(bcp.Unavailable).saying("there is no mesh yet").next("try again in a minute; an operator starts the mesh with bcpmesh up").result(), nil
				}
			}
		}
		return next(ctx, method, r)
	}
}

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
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	stop, side := s.stop, s.side
	s.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	stopNow(ctx, side)
	for session := range s.mcp.Sessions() {
		_ = session.Close() // it is over either way
	}
	s.work.Wait()
}

// stopNow cancels the context of everything that waits for the host, so that it comes
// again.
func stopNow(ctx context.Context, s side) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = s.stop(ended) // its error is only that it did not wait
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

// prompt adds the prompt of the role.
func (s *Server) prompt(name, title, description string, text string) {
	s.mcp.AddPrompt(&sdk.Prompt{Name: name, Title: title, Description: description},
		func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: description,
				Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}, nil
		})
}
