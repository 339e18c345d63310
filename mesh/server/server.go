package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/jwt/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	streamFolder   = "jetstream"
	resolverFolder = "accounts"
	lockFile       = "server.lock"
	readyTimeout   = 30 * time.Second
	// resolverSync is how often servers of a cluster would compare claims.
	resolverSync = time.Hour
	// reconnectWait is the pause between attempts of a connection of this
	// process.
	reconnectWait = 10 * time.Millisecond
)

// Server is a running server. Its methods may be used concurrently.
type Server struct {
	server  *natsserver.Server
	lock    *flock.Flock
	log     *adapter
	logger  hclog.Logger
	denials *denials
	monitor *nats.Conn
	done    chan struct{} // closed when everything has ended

	stopOnce sync.Once
	stopped  error // set before done is closed

	updating sync.Mutex // one UpdateAccounts at a time

	mu       sync.Mutex
	bundles  []accounts.Bundle // the newest first; the one before for those that leave
	watchers map[*watcher]bool
}

// Start runs a server until [Server.Stop], or until ctx is cancelled, which
// begins the same sequence. It returns when clients can connect. The error
// wraps [ErrInUse] where another process runs on the state folder, and
// [ErrPlaintext] where the address asks for TLS.
func Start(ctx context.Context, config Config) (*Server, error) {
	config = config.filled()
	options, err := optionsOf(config)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	lock, err := lockState(config.StateDir)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	if err := discard(config); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), lock.Close())
	}
	s := &Server{lock: lock, logger: config.Logger, done: make(chan struct{}), bundles: []accounts.Bundle{config.Bundle}, watchers: map[*watcher]bool{}}
	if err := s.start(ctx, config, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), s.Stop(context.WithoutCancel(ctx)))
	}
	if config.TLS == nil && config.AllowNetworkWithoutTLS {
		config.Logger.Warn("LISTENING WITHOUT TLS: everything that agents say can be read and changed on the way", "address", config.Listen)
	}
	context.AfterFunc(ctx, func() { _ = s.Stop(context.WithoutCancel(ctx)) })
	return s, nil
}

func (s *Server) start(ctx context.Context, config Config, options *natsserver.Options) error {
	resolver, err := newResolver(config)
	if err != nil {
		return err
	}
	options.AccountResolver = resolver
	if s.server, err = natsserver.NewServer(options); err != nil {
		return err
	}
	s.denials = newDenials(s.identify, config.Denials)
	s.log = &adapter{logger: config.Logger, denials: s.denials}
	s.server.SetLoggerV2(s.log, false, false, false)
	s.server.Start()
	if err := s.log.fatal(); err != nil {
		return err
	}
	if !s.server.ReadyForConnections(readyTimeout) {
		return errors.New("it was not ready in time")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.monitor, err = s.connect(config.Bundle.Monitor, subjects.MonitorInbox, nats.ReconnectHandler(s.lookAgain))
	return err
}

// Stop ends the server: it stops listening and disconnects everybody, writes
// what is to be written, and releases the state folder. It returns when all of
// that is done, or when ctx is; then the rest goes on by itself. It may be
// called several times. Agents and the gateway drain their own connections
// before.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		go func() {
			defer close(s.done)
			s.stopped = s.stop()
		}()
	})
	select {
	case <-s.done:
		return s.stopped
	case <-ctx.Done():
		return fmt.Errorf("stop the server: %w", context.Cause(ctx))
	}
}

func (s *Server) stop() error {
	if s.monitor != nil {
		s.monitor.Close()
	}
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}
	if s.denials != nil {
		s.denials.stop()
	}
	return s.lock.Close()
}

// Done returns a channel that is closed when the server has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// URL returns where clients connect.
func (s *Server) URL() string { return s.server.ClientURL() }

// Gateway returns a new connection of the gateway to its own account, inside
// this process. Where it is lost, it reconnects until the caller closes it. One
// for each agent keeps an agent that floods from slowing the others.
func (s *Server) Gateway(options ...nats.Option) (*nats.Conn, error) {
	return s.connect(s.bundle().Gateway, subjects.GatewayInbox, options...)
}

func (s *Server) connect(login accounts.Login, inbox string, options ...nats.Option) (*nats.Conn, error) {
	options = append([]nats.Option{
		nats.InProcessServer(s.server),
		nats.UserJWT(func() (string, error) { return login.JWT, nil }, login.Signer.Sign),
		nats.CustomInboxPrefix(inbox),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.IgnoreAuthErrorAbort(),
		nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.logger.Debug("a connection of this process", "error", err)
		}),
	}, options...)
	connection, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("connect in this process: %w", err)
	}
	return connection, nil
}

func (s *Server) bundle() accounts.Bundle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bundles[0]
}

func lockState(folder string) (*flock.Flock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(folder, lockFile), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s", ErrInUse, folder)
	}
	return lock, nil
}

// discard removes streams from the disk, while nobody uses them.
func discard(config Config) error {
	for _, name := range config.Discard {
		folders, err := filepath.Glob(filepath.Join(config.StateDir, "jetstream", "jetstream", "*", "streams", filepath.Base(name)))
		for _, folder := range folders {
			err = errors.Join(err, os.RemoveAll(folder))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func optionsOf(config Config) (*natsserver.Options, error) {
	host, port, err := config.check()
	if err != nil {
		return nil, err
	}
	operator, err := jwt.DecodeOperatorClaims(config.Bundle.Operator)
	if err != nil {
		return nil, fmt.Errorf("the operator's claims: %w", err)
	}
	if port == 0 {
		port = natsserver.RANDOM_PORT
	}
	return &natsserver.Options{
		ServerName: "bcpmesh",
		Host:       host, Port: port,
		NoSigs:           true,
		TrustedOperators: []*jwt.OperatorClaims{operator},
		SystemAccount:    operator.SystemAccount,
		JetStream:        true,
		// Without a folder of its own JetStream would use one that all
		// servers of the machine share.
		StoreDir:               filepath.Join(config.StateDir, streamFolder),
		SyncAlways:             config.SyncAlways,
		SyncInterval:           config.SyncInterval,
		DisableJetStreamBanner: true,
		MaxPayload:             int32(config.MaxPayload),
		MaxPending:             maxPending,
		MaxSubTokens:           maxSubjectTokens,
		TLSConfig:              config.TLS.Clone(),
	}, nil
}

// newResolver fills a fresh folder with the bundle's claims: what an earlier
// run left there does not count.
func newResolver(config Config) (*natsserver.DirAccResolver, error) {
	folder := filepath.Join(config.StateDir, resolverFolder)
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	resolver, err := natsserver.NewDirAccResolver(folder, 0, resolverSync, natsserver.NoDelete)
	if err != nil {
		return nil, err
	}
	for _, account := range config.Bundle.Accounts {
		if err := resolver.Store(account.PublicKey, account.JWT); err != nil {
			return nil, fmt.Errorf("account %s: %w", account.Name, err)
		}
	}
	return resolver, nil
}
