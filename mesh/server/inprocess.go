package server

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
)

// reconnectWait is the pause before a connection of this process reconnects.
const reconnectWait = 10 * time.Millisecond

// connect connects with the current result of login, and again whenever the connection
// is lost. Then it calls back.
func (s *Server) connect(login func() accounts.Login, inbox string, back func(*nats.Conn), options ...nats.Option) (*nats.Conn, error) {
	options = append([]nats.Option{
		nats.InProcessServer(s.server),
		nats.UserJWT(func() (string, error) { return login().JWT, nil }, func(nonce []byte) ([]byte, error) { return login().Signer.Sign(nonce) }),
		nats.CustomInboxPrefix(inbox),
		// Thousands of reconnecting agents must not keep it from starting.
		nats.Timeout(readyTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(0, 0),
		nats.IgnoreAuthErrorAbort(),
		nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.logger.Debug("a connection of this process", "error", err)
		}),
		nats.ReconnectHandler(back),
	}, options...)
	connection, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("connect in this process: %w", err)
	}
	return connection, nil
}
