package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// MaxParallel is how many queries a command answers at a time.
const MaxParallel = 64

const (
	// LeastToken is how long a token of somebody's own has to be.
	LeastToken = 16
	// leaveTimeout is how long hosts may take to end with the program.
	leaveTimeout = 2 * time.Second
	// headerTimeout bounds the wait for a request's headers.
	headerTimeout = 10 * time.Second
)

// HTTPToken reads the token of a file, or makes one.
func HTTPToken(file string) (string, error) {
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

// Listen listens on this machine alone.
func Listen(ctx context.Context, command, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, cli.Usagef("%s: --http: expected HOST:PORT, got %s", command, cli.Quoted(address)).WithHint("for example --http 127.0.0.1:7070")
	}
	if !guard.Loopback(host) {
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

// HTTPAddress is where a command that serves over HTTP is reached.
type HTTPAddress struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"` // if it was made
	PID   int    `json:"pid"`
}

// MadeToken is a token that nobody knows yet.
func MadeToken(token, file string) string {
	if file != "" {
		return ""
	}
	return token
}

// ServeHTTP tells where it serves, and serves until interrupted.
func ServeHTTP(ctx context.Context, p *cli.Program, handler http.Handler, path string, listener net.Listener, token string) error {
	web := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	about := HTTPAddress{URL: "http://" + listener.Addr().String() + path, Token: token, PID: os.Getpid()}
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
func showAddress(o *cli.Output, a HTTPAddress) error {
	if err := o.Show(a, func() {
		o.Printf("url    %s\n", a.URL)
		if a.Token != "" {
			o.Printf("token  %s\n", a.Token)
			o.Talkf("hosts send it as \"Authorization: Bearer TOKEN\"; it is not shown again")
		}
	}); err != nil {
		return err
	}
	return o.Flush()
}

// ServeQueries answers queries as a Reader until ctx ends. Told is what is said once it is
// there.
func ServeQueries(ctx context.Context, p *cli.Program, conn *agents.Connection, answer func(context.Context, agents.Query) (any, error), told string) error {
	reader := agents.NewReader(conn)
	reader.OnQuery(answer)
	return ServeUntil(ctx, p, reader, told)
}

// Server serves the messages of an agent.
type Server interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// ServeUntil starts a server, says told once it is there, and serves until ctx ends.
func ServeUntil(ctx context.Context, p *cli.Program, server Server, told string) error {
	if err := server.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return meshdir.Failure(err)
	}
	p.Out.Talkf("%s", told)
	<-ctx.Done()
	_ = server.Stop(context.WithoutCancel(ctx))
	return nil
}
