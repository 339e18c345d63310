package wrap

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// exact is a transport that keeps a result as its server wrote it. The library decodes what has no type to float64, and knows
// nothing of parts that it has no type for.
type exact struct {
	sdk.Transport
	version atomic.Pointer[string] // of the protocol, once the server has said it
}

// Connect implements [sdk.Transport].
func (t *exact) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &exactConnection{Connection: c, transport: t, waiting: map[jsonrpc.ID]*capture{}}, nil
}

// capture is a place for the result of the request with its context.
type capture struct {
	raw  jsontext.Value
	only bool // the library gets none: it could not read it
}

type captureKey struct{}

type exactConnection struct {
	sdk.Connection
	transport *exact

	mu      sync.Mutex // guards waiting
	waiting map[jsonrpc.ID]*capture
}

// Write implements [sdk.Connection].
func (c *exactConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	asked, _ := ctx.Value(captureKey{}).(*capture)
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && asked != nil {
		c.mu.Lock()
		c.waiting[r.ID] = asked
		c.mu.Unlock()
		context.AfterFunc(ctx, func() { c.take(r.ID) })
	}
	return c.Connection.Write(ctx, m)
}

func (c *exactConnection) take(id jsonrpc.ID) *capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.waiting[id]
	delete(c.waiting, id)
	return asked
}

// Read implements [sdk.Connection].
func (c *exactConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	r, ok := m.(*jsonrpc.Response)
	if !ok || err != nil || r.Error != nil {
		return m, err
	}
	asked := c.take(r.ID)
	if asked != nil {
		asked.raw = jsontext.Value(r.Result)
		if asked.only {
			return &jsonrpc.Response{ID: r.ID, Result: []byte(`{"content":[]}`)}, nil
		}
	}
	if wire.Crowded(r.Result) { // the library makes more of it than it has bytes
		return nil, errNoAnswer
	}
	var greeting struct {
		Version string                    `json:"protocolVersion"`
		Others  map[string]jsontext.Value `json:",embed"`
	}
	if json.Unmarshal(r.Result, &greeting, lenient) == nil && greeting.Version != "" {
		c.transport.version.Store(&greeting.Version)
		if !slices.Contains(sdk.SupportedProtocolVersions(), greeting.Version) && greeting.Others["capabilities"] != nil { // the library would end here
			greeting.Others["protocolVersion"] = jsontext.Value(`"` + knownVersion + `"`)
			result, err := json.Marshal(greeting.Others, lenient, json.Deterministic(true))
			return &jsonrpc.Response{ID: r.ID, Result: result}, err
		}
	}
	return m, nil
}

// knownVersion is the newest version with a greeting that the library knows.
const knownVersion = "2025-11-25"

// versionHeader is the header in which the library would name the version, if it knew of this transport.
const versionHeader = "Mcp-Protocol-Version"

// addVersion names the version of the protocol in a request without one.
func (t *exact) addVersion(r *http.Request) {
	if v := t.version.Load(); v != nil && r.Header.Get(versionHeader) == "" {
		r.Header.Set(versionHeader, *v)
	}
}
