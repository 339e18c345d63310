package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

func TestMain(m *testing.M) {
	bcptest.LeaveOut(
		"TestHostileReaderHost", "TestWrongCalls",
	)
	bcptest.Parallel(8)
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = 45 * time.Second

const token = "the-token-of-a-test"

// desk is the research desk of the subscriptions seed, with a category more.
func desk() map[string]string {
	return map[string]string{
		"mesh.yaml": "name: desk\napprovers: [alice]\n",
		"agents/main.md": `---
name: main
description: Decides.
tools: Read, Write, BCPQuery
bcp_channels:
  - peer: researcher
    role: controller
    max_category: 3
    budget_bits: 5000
    max_cat2_queries: 10
    subscriptions:
      - id: research-findings
        category: 2
        questions:
          - {id: topic, question: "What is the topic?", max_words: 10, expected_format: short_text}
          - {id: finding, question: "What is the key finding?", max_words: 50, expected_format: short_text}
          - {id: relevance, question: "Relevance score", max_words: 1, expected_format: integer}
      - id: research-alerts
        category: 1
        fields:
          - {name: has_breaking_news, type: boolean}
          - {name: priority, type: enum, values: [low, medium, high, critical]}
---
You are the main orchestrator agent.
`,
		"agents/researcher.md": `---
name: researcher
description: Searches the web.
tools: WebFetch, BCPRespond, BCPPublish
bcp_channels:
  - peer: main
    role: reader
    max_category: 3
    budget_bits: 5000
---
You are the researcher agent.
`,
	}
}

// startMesh runs a mesh that keeps its port over a restart.
func startMesh(t *testing.T, files map[string]string) *meshtest.Mesh {
	t.Helper()
	listen := clustertest.FreeAddress(t)
	return meshtest.Start(t, files, func(c *mesh.Config) { c.Listen = listen })
}

// serve runs the server of an agent until the test ends, or until the returned
// function is called.
func serve(t *testing.T, m *meshtest.Mesh, name bcp.AgentName, role bcp.Role) (s *mcp.Server, end func()) {
	t.Helper()
	o := agents.Options{Name: name, MaxWait: 50 * time.Millisecond, Handlers: mcp.MaxPending}
	if definition, ok := m.Definition.Agent(name); ok {
		o.Encoding = definition.Encoding
	}
	conn := must(agents.Connect(t.Context(), m.URL(), agents.CredsText(m.Creds(t, name, role)), o))
	s = mcp.New(name, role, mcp.Options{Version: "test"})
	noError(t, s.Start(t.Context(), conn))
	var once sync.Once
	end = func() {
		once.Do(func() {
			s.Stop(context.Background())
			conn.Close()
		})
	}
	t.Cleanup(end)
	return s, end
}

// host is a host of MCP: the client of the SDK.
type host struct {
	*sdk.ClientSession
	tools chan struct{} // the list of tools has changed
}

// transports are the ways for a host to reach a server.
var transports = map[string]func(*testing.T, *mcp.Server) *host{"lines": overLines, "http": overHTTP}

func newHost() (*sdk.Client, *host) {
	h := &host{tools: make(chan struct{}, 64)}
	return sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { h.tools <- struct{}{} },
	}), h
}

// overLines speaks as over stdin and stdout, a message a line.
func overLines(t *testing.T, s *mcp.Server) *host {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.ServeLines(ctx, in, out)
		_, _ = in.Close(), out.Close()
	}()
	client, h := newHost()
	session := must(client.Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil))
	h.ClientSession = session
	t.Cleanup(func() {
		_ = session.Close()
		cancel()
		<-ended
	})
	return h
}

// bearer sends the token with every request.
type bearer struct {
	token string
	http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

func overHTTP(t *testing.T, s *mcp.Server) *host {
	t.Helper()
	web := httptest.NewServer(s.Handler(token))
	transport := &http.Transport{}
	client, h := newHost()
	session := must(client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: web.URL, HTTPClient: &http.Client{Transport: bearer{token, transport}},
	}, nil))
	h.ClientSession = session
	t.Cleanup(func() {
		_ = session.Close()
		transport.CloseIdleConnections()
		web.CloseClientConnections()
		web.Close()
	})
	return h
}

// hosts runs a mesh with a host for its Controller and one for its Reader, each
// over its own transport.
func hosts(t *testing.T, files map[string]string, controller, reader func(*testing.T, *mcp.Server) *host) (m *meshtest.Mesh, main, researcher *host) {
	t.Helper()
	m = startMesh(t, files)
	s, _ := serve(t, m, "main", bcp.RoleController)
	main = controller(t, s)
	s, _ = serve(t, m, "researcher", bcp.RoleReader)
	return m, main, reader(t, s)
}

// call calls a tool and returns its structured result, and whether it is an error.
func (h *host) call(t *testing.T, tool string, arguments any) (result map[string]any, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := h.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	stopIf(t, err != nil, "%s: %v", tool, err)
	b, err := json.Marshal(got.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, &result)
	}
	stopIf(t, err != nil || len(got.Content) != 1, "%s: %v, %d contents", tool, err, len(got.Content))
	return result, got.IsError
}

// must is call for what must succeed.
func (h *host) must(t *testing.T, tool, arguments string) map[string]any {
	t.Helper()
	result, failed := h.call(t, tool, raw(arguments))
	stopIf(t, failed, "%s %s: %v", tool, arguments, result)
	return result
}

// refused is call for what must fail, and returns the code and all its text.
func (h *host) refused(t *testing.T, tool, arguments string) (code, says string) {
	t.Helper()
	result, failed := h.call(t, tool, raw(arguments))
	stopIf(t, !failed, "%s %s succeeded: %v", tool, arguments, result)
	return fmt.Sprint(result["error"]), fmt.Sprintf("%s. %s", result["detail"], result["what_next"])
}

// refuses is refused with a code, and text that has a part.
func (h *host) refuses(t *testing.T, tool, arguments, code, part string) {
	t.Helper()
	got, says := h.refused(t, tool, arguments)
	failIf(t, got != code || !strings.Contains(says, part), "%s %.80s: %s: %s", tool, arguments, got, says)
}

// raw is JSON as it stands there.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// member returns what stands at a path of a result; numbers are places in lists.
func member(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := value.(map[string]any)
			stopIf(t, !ok || object[step] == nil, "no %q of %v in %v", step, path, value)
			value = object[step]
		case int:
			list, ok := value.([]any)
			stopIf(t, !ok || step >= len(list), "no %d of %v in %v", step, path, value)
			value = list[step]
		}
	}
	return value
}

func next[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	return bcptest.Next(t, from, "%s", what)
}

// tool returns a tool as the host sees it, or nil.
func (h *host) tool(t *testing.T, name string) *sdk.Tool {
	t.Helper()
	list := must(h.ListTools(t.Context(), nil))
	for _, tool := range list.Tools {
		if tool.Name == name {
			return tool
		}
	}
	return nil
}

func text(t *testing.T, value any) string {
	t.Helper()
	return string(must(json.Marshal(value, json.Deterministic(true))))
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var noError, failIf, fails, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.Fails, bcptest.StopIf
