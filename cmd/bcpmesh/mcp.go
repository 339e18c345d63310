package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// leastToken is how long a token of somebody's own has to be.
	leastToken = 16
	// leaveTimeout is how long hosts may take to end with the program.
	leaveTimeout = 2 * time.Second
	// headerTimeout bounds the wait for a request's headers.
	headerTimeout = 10 * time.Second
)

// mcpOptions are the flags of mcp.
type mcpOptions struct {
	agentFlags
	http, tokenFile string
}

func mcpCommand(p *program) *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent of the mesh to MCP hosts",
		Long: `Serve one agent of the mesh, in one role, to a host of the Model Context Protocol:
Claude Code, an editor, or a runtime of your own. The creds file says which.

A controller gets the tools BCPQuery, BCPInbox, BCPBudget and BCPSubscribe; a
reader BCPQueries and BCPRespond, and BCPPublish if its definition lists it and a
subscription names it. The host starts the program itself and speaks with it over stdin and stdout.
The tools follow the definitions when the mesh is reloaded, and come back when it is
started again.

With --http hosts of this machine reach it over streamable HTTP, with a token that
is made and shown once, or read from --token-file.`,
		Example: `  bcpmesh mcp --creds main.creds
  bcpmesh mcp --creds researcher.creds --url nats://127.0.0.1:4222
  bcpmesh mcp --creds main.creds --http 127.0.0.1:7070 --token-file token`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveMCP(cmd.Context(), p, o) },
	}
	o.addTo(cmd, "creds `FILE` of a controller or a reader")
	cmd.Flags().StringVar(&o.http, "http", "", "serve over HTTP on this `HOST:PORT` of this machine; port 0 means any free one")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "with --http: read the token from this `FILE`")
	return cmd
}

// serveMCP serves until the host leaves, or until interrupted.
func serveMCP(ctx context.Context, p *program, o mcpOptions) error {
	if o.creds == "" {
		return usagef("mcp: expected --creds FILE").withHint("bcpmesh creds issue AGENT --out FILE makes one")
	}
	if o.tokenFile != "" && o.http == "" {
		return usagef("mcp: --token-file goes with --http")
	}
	var listener net.Listener
	var token string
	if o.http != "" {
		var err error
		if token, err = mcpToken(o.tokenFile); err != nil {
			return err
		}
		if listener, err = listenLoopback(ctx, o.http); err != nil {
			return err
		}
		defer listener.Close()
	}
	server, end, err := mcpServer(ctx, p, o)
	if err != nil {
		return err
	}
	defer end()
	if listener == nil {
		if isTerminal(p.in) {
			p.out.talkf("this speaks MCP on stdin and stdout: let a host start it")
		}
		err := server.ServeLines(ctx, interruptible(ctx, p.in), p.out.screen)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return serveHTTP(ctx, p, server, listener, token, o.tokenFile == "")
}

// mcpServer connects as the agent of the creds file.
func mcpServer(ctx context.Context, p *program, o mcpOptions) (server *mcp.Server, end func(), err error) {
	agent, err := o.connect(ctx, p, "mcp", mcp.MaxPending)
	if err != nil {
		return nil, nil, err
	}
	options := mcp.Options{Version: programVersion(), Logger: agent.log}
	if agent.role == bcp.RoleReader {
		server = mcp.NewReader(agent.conn, options)
	} else {
		server = mcp.NewController(agent.conn, options)
	}
	if err := server.Start(ctx); err != nil {
		agent.conn.Close()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, outcomeOf(err)
	}
	return server, func() {
		// What the host has not dealt with stays with the gateway.
		_ = server.Stop(context.WithoutCancel(ctx))
		agent.conn.Close()
	}, nil
}

// mcpToken reads the token of a file, or makes one.
func mcpToken(file string) (string, error) {
	if file == "" {
		return rand.Text(), nil
	}
	content, err := readSmall(file)
	if err != nil {
		return "", failf("%s cannot be read: %s", quoted(file), reasonOf(err))
	}
	token := strings.TrimSpace(string(content))
	if len(token) < leastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", failf("%s holds no token: expected one word of at least %d characters", quoted(file), leastToken).
			withHint("without --token-file one is made and shown")
	}
	return token, nil
}

// listenLoopback listens on this machine alone.
func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usagef("mcp: --http: expected HOST:PORT, got %s", quoted(address)).withHint("for example --http 127.0.0.1:7070")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, beyondLoopback("--http", address)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		if portTaken(address) {
			return nil, failf("--http %s: another program has that port", quoted(address)).withHint("stop it, or take any free port: --http 127.0.0.1:0")
		}
		return nil, failf("--http %s: %s", quoted(address), reasonOf(err))
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = listener.Close() // nobody has come yet
		return nil, beyondLoopback("--http", address)
	}
	return listener, nil
}

// mcpAddress is what mcp --http tells.
type mcpAddress struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"` // where it was made
	PID   int    `json:"pid"`
}

// serveHTTP tells where it serves, and serves until interrupted.
func serveHTTP(ctx context.Context, p *program, server *mcp.Server, listener net.Listener, token string, made bool) error {
	web := &http.Server{Handler: server.Handler(token), ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	about := mcpAddress{URL: "http://" + listener.Addr().String() + "/mcp", PID: os.Getpid()}
	if made {
		about.Token = token
	}
	err := p.out.address(about)
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
		return failf("serving over HTTP: %s", reasonOf(err))
	}
	return nil
}

// address shows where hosts find the server, at once.
func (o *output) address(a mcpAddress) error {
	if o.json {
		if err := o.line(a); err != nil {
			return err
		}
		return o.flush()
	}
	o.printf("url    %s\n", a.URL)
	if a.Token != "" {
		o.printf("token  %s\n", a.Token)
		o.talkf("hosts send it as \"Authorization: Bearer TOKEN\"; it is not shown again")
	}
	return o.flush()
}
