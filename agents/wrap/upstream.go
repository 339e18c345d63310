package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

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
	// maxLine bounds one message of a server.
	maxLine = 16 << 20
)

// Upstream is a connection to a foreign MCP server, which runs as a process of its own with
// a scrubbed environment. Its methods may be used concurrently.
type Upstream struct {
	session *sdk.ClientSession
	process *process.Process
	stdin   io.Closer
	stdout  io.Closer
}

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
	path, err := process.LookUp(program.Command[0], program.Env)
	if err != nil {
		return nil, fmt.Errorf("the server is %s", process.Reason(err))
	}
	output := process.NewOutput(program.Logger)
	stderr := output.Stderr()
	// Files, which nobody has to copy: a copy would outlive a server that reads no more.
	fromHere, stdin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	stdout, toHere, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), fromHere.Close(), stdin.Close())
	}
	p, err := process.Start(&exec.Cmd{Path: path, Args: program.Command, Dir: program.Dir, Env: program.Env, Stdin: fromHere, Stdout: toHere, Stderr: stderr})
	_, _ = fromHere.Close(), toHere.Close() // the server has its own
	if err != nil {
		_, _ = stdin.Close(), stdout.Close()
		return nil, fmt.Errorf("the server is %s", process.Reason(err))
	}
	go func() {
		<-p.Done()
		stderr.End()
		output.End()
	}()
	u := &Upstream{process: p, stdin: stdin, stdout: stdout}
	client := sdk.NewClient(&sdk.Implementation{Name: "bcpmesh", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	u.session, err = client.Connect(ctx, &sdk.IOTransport{Reader: stdout, Writer: stdin, MaxLineLength: maxLine}, nil)
	if err != nil {
		u.Close()
		return nil, errors.New("the server does not speak MCP over stdin and stdout, or ended")
	}
	return u, nil
}

// ErrEnded is of a call whose server ended, or spoke MCP no more, before it answered.
var ErrEnded = errors.New("the server has ended")

// Close ends the server and everything that it started.
func (u *Upstream) Close() {
	_ = u.stdin.Close() // a server ends where its host leaves
	select {
	case <-u.process.Done():
	case <-time.After(time.Second):
		u.process.Kill()
		<-u.process.Done()
	}
	if u.session != nil {
		_ = u.session.Close() // the other end is gone
	}
	_ = u.stdout.Close() // again where the session did
}

// Done is closed when the server has ended.
func (u *Upstream) Done() <-chan struct{} { return u.process.Done() }

// Tools lists what the server has.
func (u *Upstream) Tools(ctx context.Context) ([]*sdk.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var tools []*sdk.Tool
	for tool, err := range u.session.Tools(ctx, nil) {
		if err != nil {
			return nil, errors.New("the server does not list its tools")
		}
		if tools = append(tools, tool); len(tools) > maxTools {
			return nil, fmt.Errorf("the server has more than %d tools", maxTools)
		}
	}
	return tools, nil
}

// Call calls a tool; meta may be nil. A call that the server refuses is a result that is an
// error, without a word of the server's. An error is of a call that nobody knows the end of:
// the server has ended ([ErrEnded]), or did not answer while ctx lasted.
func (u *Upstream) Call(ctx context.Context, name string, input jsontext.Value, meta sdk.Meta) (*sdk.CallToolResult, error) {
	result, err := u.session.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: name, Arguments: rawJSON(input)})
	if err == nil {
		return result, nil
	}
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		return &sdk.CallToolResult{IsError: true}, nil // its text is the server's
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, ErrEnded
}

// rawJSON is JSON that is ready.
type rawJSON []byte

// MarshalJSON returns it.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
