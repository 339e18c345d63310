package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents/process"
)

const (
	// startTimeout bounds the start of a server: npx may have to fetch it.
	startTimeout = 2 * time.Minute
	// listTimeout bounds a list of the tools.
	listTimeout = 40 * time.Second
	// writeTimeout is how long a server may take to read a message.
	writeTimeout = time.Minute
	// maxLine bounds one message of a server.
	maxLine = 16 << 20
	// shownNoise is how much of a line that is no message the operator is shown, in bytes.
	shownNoise = 120
)

// Upstream is a connection to a foreign MCP server: a process with a scrubbed
// environment ([Start]), or one at a URL ([Dial]). Its methods may be used concurrently.
type Upstream struct {
	session *sdk.ClientSession
	done    <-chan struct{} // closed when the server has ended
	end     func()

	mu    sync.Mutex           // guards lists
	lists map[string]toolsPage // by cursor: the library keeps those of servers that allow it
}

// toolsPage is a part of the list of tools, with the numbers in their schemas as they are written.
type toolsPage struct {
	Tools []*sdk.Tool `json:"tools"`
	Next  string      `json:"nextCursor"`
}

var implementation = &sdk.Implementation{Name: "bcpmesh", Version: "1"}

// Program says how a server is started.
type Program struct {
	Command []string
	Dir     string
	Env     []string // all of its environment
	Logger  hclog.Logger
}

// Start starts a server and greets it. The caller calls Close.
func Start(ctx context.Context, program Program) (*Upstream, error) {
	if program.Logger == nil {
		program.Logger = hclog.NewNullLogger()
	}
	output := process.NewOutput(program.Logger)
	stderr := output.Stderr()
	p, ours, err := process.Open(&exec.Cmd{Args: program.Command, Dir: program.Dir, Env: program.Env, Stderr: stderr})
	if err != nil {
		return nil, fmt.Errorf("the server is %s", process.Reason(err))
	}
	go func() {
		<-p.Done()
		stderr.End()
		output.End()
	}()
	u := &Upstream{done: p.Done()}
	u.end = func() {
		_ = ours.Out.Close() // a server ends when its stdin is closed
		ending, cancel := context.WithTimeout(context.Background(), time.Second)
		p.EndBy(ending)
		cancel()
		if u.session != nil {
			_ = u.session.Close() // the other end is gone
		}
		ours.Close() // the session may have closed them already
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	toServer := &inTurn{File: ours.Out, patience: writeTimeout}
	from := newAnswers(ours.In, toServer, func(n int, line []byte) {
		program.Logger.Warn("a line of the server's standard output is no message of MCP", "line", n, "begins", hclog.Quote(line[:min(len(line), shownNoise)]))
	})
	u.session, err = sdk.NewClient(implementation, nil).Connect(ctx, &exact{Transport: &sdk.IOTransport{Reader: from, Writer: toServer, MaxLineLength: maxLine}}, nil)
	if err != nil {
		u.Close()
		if n := from.first.Load(); n > 0 {
			return nil, fmt.Errorf("line %d of the server's standard output is no message of MCP: what is none belongs on standard error", n)
		}
		return nil, errors.New("the server does not speak MCP over stdin and stdout, or ended")
	}
	return u, nil
}

// ErrEnded says that the server ended, or stopped speaking MCP, before it answered.
var ErrEnded = errors.New("the server has ended")

// Close ends a server that was started, with everything that it started, or the session
// with one at a URL.
func (u *Upstream) Close() { u.end() }

// Done is closed when the server, or the session with it, has ended.
func (u *Upstream) Done() <-chan struct{} { return u.done }

// Tools returns the server's tools, which stay as they are.
func (u *Upstream) Tools(ctx context.Context) ([]*sdk.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var tools []*sdk.Tool
	for cursor := ""; ; {
		page, err := u.page(ctx, cursor)
		if err != nil {
			return nil, errors.New("the server does not list its tools")
		}
		if tools = append(tools, page.Tools...); len(tools) > maxTools {
			return nil, fmt.Errorf("the server has more than %d tools", maxTools)
		}
		if cursor = page.Next; cursor == "" {
			return tools, nil
		}
	}
}

func (u *Upstream) page(ctx context.Context, cursor string) (page toolsPage, err error) {
	var asked capture
	ctx, cancel := context.WithCancel(context.WithValue(ctx, captureKey{}, &asked))
	defer cancel()
	if _, err := u.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor}); err != nil {
		return page, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if asked.raw == nil {
		return u.lists[cursor], nil
	}
	if err := json.Unmarshal(asked.raw, &page, lenient, exactNumbers); err != nil || slices.Contains(page.Tools, nil) {
		return page, cmp.Or(err, errNoAnswer)
	}
	if u.lists == nil || len(u.lists) > maxTools {
		u.lists = map[string]toolsPage{}
	}
	u.lists[cursor] = page
	return page, nil
}

// notSent is the library's own error for a call that it could not send, or an unreadable
// answer.
const notSent = -32005

// Call calls a tool; meta may be nil. If the server refuses the call, the result has
// failed, with what the server says of it. After an error the outcome of the call is
// unknown: the server has ended ([ErrEnded]), or did not answer before ctx ended.
func (u *Upstream) Call(ctx context.Context, name string, input jsontext.Value, meta sdk.Meta) (*Result, error) {
	asked := capture{only: true}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, captureKey{}, &asked))
	defer cancel()
	_, err := u.session.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: name, Arguments: input})
	if err == nil {
		return parseResult(asked.raw)
	}
	if e, answered := errors.AsType[*jsonrpc.Error](err); answered && e.Code != notSent {
		return refusal(e), nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, ErrEnded
}
