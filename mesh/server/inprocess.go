package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
)

const (
	// reconnectWait is the pause before a connection of this process reconnects.
	reconnectWait = 10 * time.Millisecond
	// maxComing is how many of them may reconnect at a time. There is one for
	// each agent: all at once would block each other, and the agents.
	maxComing = 16
)

// inProcess connects to the current server.
type inProcess struct{ server *Server }

var errBeginning = errors.New("the server is beginning")

// InProcessConn implements [nats.InProcessConnProvider]. A client that came
// before the server has opened its streams would make it open them a second
// time.
func (p inProcess) InProcessConn() (net.Conn, error) {
	moving := &p.server.entrance.moving
	if !moving.TryRLock() {
		return nil, errBeginning
	}
	defer moving.RUnlock()
	return p.server.server.Load().InProcessConn()
}

// wait connects to the server when it is not restarting.
func (p inProcess) wait() (net.Conn, error) {
	moving := &p.server.entrance.moving
	moving.RLock()
	defer moving.RUnlock()
	server := p.server.server.Load()
	if server == nil {
		return nil, errBeginning
	}
	return server.InProcessConn()
}

// connect connects with the current result of login: also again, after a restart
// of the server. Then it calls back.
func (s *Server) connect(login func() accounts.Login, inbox string, back func(*nats.Conn), options ...nats.Option) (*nats.Conn, error) {
	c := &arrival{server: s}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	options = append([]nats.Option{
		nats.InProcessServer(inProcess{s}),
		nats.UserJWT(func() (string, error) { return login().JWT, nil }, func(nonce []byte) ([]byte, error) { return login().Signer.Sign(nonce) }),
		nats.CustomInboxPrefix(inbox),
		// Thousands of reconnecting agents must not keep it from starting.
		nats.Timeout(readyTimeout),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(c.wait),
		nats.IgnoreAuthErrorAbort(),
		nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.logger.Debug("a connection of this process", "error", err)
		}),
	}, options...)
	options = append(options,
		nats.ReconnectHandler(func(connection *nats.Conn) {
			c.done()
			back(connection)
		}),
		nats.ClosedHandler(func(*nats.Conn) { c.close() }),
	)
	connection, err := nats.Connect("", options...)
	if err != nil {
		c.cancel()
		return nil, fmt.Errorf("connect in this process: %w", err)
	}
	return connection, nil
}

// arrival is a reconnecting connection of this process.
type arrival struct {
	server *Server
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	one    atomic.Bool // of maxComing
}

// wait waits until there is a server, and few others are reconnecting.
func (c *arrival) wait(int) time.Duration {
	c.done() // it did not
	c.server.entrance.moved()
	select {
	case c.server.coming <- struct{}{}:
		c.one.Store(true)
	case <-c.ctx.Done():
	}
	if c.ctx.Err() != nil {
		c.done()
	}
	return reconnectWait
}

// done lets the next one reconnect.
func (c *arrival) done() {
	if c.one.CompareAndSwap(true, false) {
		<-c.server.coming
	}
}

func (c *arrival) close() {
	c.cancel()
	c.done()
}
