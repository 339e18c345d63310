package attach

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

const (
	// LeastToken is how long a token of somebody's own has to be.
	LeastToken = 16
	// leaveTimeout is how long hosts may take to end with the program.
	leaveTimeout = 2 * time.Second
	// headerTimeout bounds the wait for a request's headers.
	headerTimeout = 10 * time.Second
)

// mcpOptions are the flags of mcp.
type mcpOptions struct {
	client.AgentFlags
	http, tokenFile string
	tools           []string
}

// MCPCommand returns the command mcp.
func MCPCommand(p *cli.Program) *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent of the mesh to MCP hosts",
		Long: `Serve one agent of the mesh, in one role, to a host of the Model Context Protocol:
Claude Code, an editor, or a runtime of your own. The creds file determines agent and
role.

A controller gets the tools BCPQuery, BCPInbox, BCPBudget and BCPSubscribe; a reader
BCPQueries and BCPRespond, and BCPPublish if its definition lists it and a
subscription names it. The host starts the program itself and speaks with it over
stdin and stdout. The tools follow the definitions when the mesh is reloaded, and come
back when it is restarted. If the mesh is not up yet, the command waits for it as long
as the host runs: the host is answered at once, and gets the tools when the mesh is
up.

With --tools a controller's host has the tools of wrapped MCP servers too, with typed
results ("bcpmesh wrap").

With --http hosts of this machine reach it over streamable HTTP, with a token that is
generated and shown once, or read from --token-file.`,
		Example: `  bcpmesh mcp --creds main.creds
  bcpmesh mcp --creds researcher.creds --url nats://127.0.0.1:4222
  bcpmesh mcp --creds main.creds --http 127.0.0.1:7070 --token-file token`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveMCP(cmd.Context(), p, o) },
	}
	o.AddTo(cmd, "creds `FILE` of a controller or a reader")
	cmd.Flags().StringVar(&o.http, "http", "", "serve over HTTP on this `HOST:PORT` of this machine; port 0 means any free one")
	cmd.Flags().StringArrayVar(&o.tools, "tools", nil, "also offer the host the tools of this `FILE` of bcpmesh wrap; may be repeated")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "with --http: read the token from this `FILE`")
	return cmd
}

// serveMCP serves until the host leaves, or until interrupted.
func serveMCP(ctx context.Context, p *cli.Program, o mcpOptions) error {
	if o.Creds == "" {
		return cli.Usagef("mcp: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
	}
	if o.tokenFile != "" && o.http == "" {
		return cli.Usagef("mcp: --token-file needs --http")
	}
	var listener net.Listener
	var token string
	if o.http != "" {
		var err error
		if token, err = hostToken(o.tokenFile); err != nil {
			return err
		}
		if listener, err = listenLoopback(ctx, "mcp", o.http); err != nil {
			return err
		}
		defer listener.Close()
	}
	server, err := mcpServer(p, o)
	if err != nil {
		return err
	}
	serving, leave := context.WithCancel(ctx)
	defer leave()
	ended := make(chan error, 1)
	go func() {
		err := connectMCP(serving, p, o, server)
		if err != nil {
			leave()
		}
		ended <- err
	}()
	if listener != nil {
		err = serveHTTP(serving, p, server.Handler(token), "/mcp", listener, made(token, o.tokenFile))
	} else {
		if cli.IsTerminal(p.In) {
			p.Out.Talkf("this speaks MCP on stdin and stdout: let a host start it")
		}
		err = server.ServeLines(serving, cli.Interruptible(ctx, p.In), p.Out.Screen)
	}
	stopped := serving.Err() != nil
	leave()
	if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	if stopped && listener == nil {
		return nil
	}
	return err
}

// mcpServer makes the server of the agent of the creds file, which answers hosts before
// there is a mesh.
func mcpServer(p *cli.Program, o mcpOptions) (*mcp.Server, error) {
	name, role, err := o.Who()
	if err != nil {
		return nil, err
	}
	options := mcp.Options{Version: cli.ProgramVersion(), Logger: cli.NewLogger(hclog.Info, p.Out.Stderr)}
	for _, name := range o.tools {
		file, err := readTools(name)
		if err != nil {
			return nil, err
		}
		options.Tools = append(options.Tools, file)
	}
	return mcp.New(name, role, options), nil
}

// connectMCP connects the server with its mesh when that is up, and keeps the connection
// until ctx ends.
func connectMCP(ctx context.Context, p *cli.Program, o mcpOptions, server *mcp.Server) error {
	agent, err := o.Await(ctx, p, "mcp", mcp.MaxPending)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	if err := server.Start(ctx, agent.Conn); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return meshdir.Failure(err)
	}
	<-ctx.Done()
	// What the host has not dealt with stays with the gateway.
	return server.Stop(context.WithoutCancel(ctx))
}

// hostToken reads the token of a file, or makes one.
func hostToken(file string) (string, error) {
	if file == "" {
		return rand.Text(), nil
	}
	content, err := cli.ReadSmall(file)
	if err != nil {
		return "", cli.Failf("%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
	}
	token := strings.TrimSpace(string(content))
	if len(token) < LeastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", cli.Failf("%s holds no token: expected one word of at least %d characters", cli.Quoted(file), LeastToken).
			WithHint("without --token-file one is generated and shown")
	}
	return token, nil
}

// listenLoopback listens on this machine alone.
func listenLoopback(ctx context.Context, command, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, cli.Usagef("%s: --http: expected HOST:PORT, got %s", command, cli.Quoted(address)).WithHint("for example --http 127.0.0.1:7070")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, meshdir.BeyondLoopback("--http", address)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		if meshdir.PortTaken(address) {
			return nil, cli.Failf("--http %s: another program uses that port", cli.Quoted(address)).WithHint("stop it, or take any free port: --http 127.0.0.1:0")
		}
		return nil, cli.Failf("--http %s: %s", cli.Quoted(address), cli.FileReason(err))
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = listener.Close() // nobody has come yet
		return nil, meshdir.BeyondLoopback("--http", address)
	}
	return listener, nil
}

// Address is where a command that serves over HTTP is reached.
type Address struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"` // if it was made
	PID   int    `json:"pid"`
}

// made is a token that nobody knows yet.
func made(token, file string) string {
	if file != "" {
		return ""
	}
	return token
}

// serveHTTP tells where it serves, and serves until interrupted.
func serveHTTP(ctx context.Context, p *cli.Program, handler http.Handler, path string, listener net.Listener, token string) error {
	web := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	about := Address{URL: "http://" + listener.Addr().String() + path, Token: token, PID: os.Getpid()}
	err := showAddress(p.Out, about)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			ended <- err
		}
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if web.Shutdown(stopping) != nil { // streams to hosts last as long as they want
		_ = web.Close()
	}
	if served := <-ended; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return cli.Failf("serving over HTTP: %s", cli.FileReason(err))
	}
	return nil
}

// showAddress shows where hosts find the server, at once.
func showAddress(o *cli.Output, a Address) error {
	if o.JSON {
		if err := o.Line(a); err != nil {
			return err
		}
		return o.Flush()
	}
	o.Printf("url    %s\n", a.URL)
	if a.Token != "" {
		o.Printf("token  %s\n", a.Token)
		o.Talkf("hosts send it as \"Authorization: Bearer TOKEN\"; it is not shown again")
	}
	return o.Flush()
}
