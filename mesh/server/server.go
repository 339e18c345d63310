package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/jwt/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	resolverFolder = "accounts"
	readyTimeout   = 30 * time.Second
	// resolverSync is how often servers of a cluster would compare claims.
	resolverSync = time.Hour
	// maxStore is how much all streams may hold, in bytes: more than any disk.
	maxStore = 1 << 60
)

// Server is a running server. Its methods may be used concurrently.
type Server struct {
	server   *natsserver.Server // nil until it could be made
	lock     *flock.Flock
	entrance *entrance
	listener net.Listener
	url      string
	log      *adapter
	logger   hclog.Logger
	denials  *denials
	monitor  *nats.Conn
	watcher  *watcher
	keeper   *keeper
	quit     chan struct{} // closed when the server is about to end
	keeping  sync.WaitGroup
	done     chan struct{} // closed when everything has ended
	damaged  chan string   // reports a block to keep

	stopOnce sync.Once
	stopped  error // set before done is closed

	updating sync.Mutex // one UpdateAccounts at a time

	mu      sync.Mutex
	bundles []accounts.Bundle           // the newest first; the previous one for those that leave
	started accounts.Bundle             // what the server started with
	held    map[string]accounts.Account // whose claims it has, by name
}

// Start runs a server until [Server.Stop], or until ctx is cancelled, which begins
// the same sequence. It returns when clients can connect, unless the config makes
// them wait. The error wraps [ErrInUse] if another process runs on the state
// folder, and [ErrPlaintext] if the address requires TLS.
func Start(ctx context.Context, config Config) (*Server, error) {
	config = config.filled()
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	lock, err := Lock(config.StateDir, ServerLock)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	if err := discard(config); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), lock.Close())
	}
	s := &Server{
		lock: lock, logger: config.Logger, keeper: newKeeper(StreamsOf(config.StateDir), config.Logger),
		quit: make(chan struct{}), done: make(chan struct{}), damaged: make(chan string),
		bundles: []accounts.Bundle{config.Bundle},
	}
	s.watcher = newWatcher(s.party, s.open)
	if err := s.start(ctx, config); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), s.Stop(context.WithoutCancel(ctx)))
	}
	context.AfterFunc(ctx, func() { _ = s.Stop(context.WithoutCancel(ctx)) })
	return s, nil
}

func (s *Server) start(ctx context.Context, config Config) error {
	if err := s.listen(ctx, config); err != nil {
		return err
	}
	s.denials = newDenials(s.identify, config.Denials)
	s.log = &adapter{logger: config.Logger, denials: s.denials, unwritten: make(chan string, 1)}
	s.entrance = newEntrance(config.TLS, func() (net.Conn, error) { return s.server.InProcessConn() }, s.admits)
	s.entrance.failed, s.entrance.most = s.log.client, connectionsHere(config.Logger)
	s.entrance.open(s.listener) // clients that come already wait for a turn, which comes when the server runs
	if err := s.begin(config); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.keeping.Go(func() { s.keepRunning(config) })
	var err error
	s.monitor, err = s.connect(func() accounts.Login { return s.bundle().Monitor }, subjects.MonitorInbox, s.monitorIsBack)
	if err != nil {
		return err
	}
	// Over two subscriptions: who watches may be slow, and the proxy has to know at once.
	for _, heard := range []nats.MsgHandler{s.showed, func(m *nats.Msg) { s.watcher.Event(m.Data) }} {
		if _, err := s.monitor.Subscribe(subjects.Connections, heard); err != nil {
			return err
		}
	}
	if err := s.monitor.Flush(); err != nil {
		return err
	}
	s.keeping.Go(s.lookNowAndThen)
	if !config.Shut {
		s.Open()
	}
	config.Logger.Info("listening for agents and people", "url", s.url)
	return nil
}

// Open lets clients in. It may be called several times.
func (s *Server) Open() { s.entrance.turns.open() }

// Stop stops the server: it stops listening, disconnects everybody, writes
// everything to disk, and releases the state folder. It returns when that is
// done, or when ctx ends; then the rest goes on by itself. It may be called
// several times. Agents and the gateway must drain their own connections
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

// begin starts the server behind the entrance.
func (s *Server) begin(config Config) error {
	options, err := serverOptions(config)
	if err != nil {
		return err
	}
	if options.AccountResolver, err = newResolver(config); err != nil {
		return err
	}
	if s.server, err = natsserver.NewServer(options); err != nil {
		return err
	}
	s.server.SetLoggerV2(s.log, false, false, false)
	if err := s.keeper.begin(); err != nil {
		return err
	}
	rest, err := s.keeper.dropIndexes(blocksAtStart)
	if err != nil {
		return err
	}
	s.server.Start()
	if err := s.log.fatal(); err != nil {
		return err
	}
	if !s.server.ReadyForConnections(readyTimeout) {
		return errors.New("it was not ready in time")
	}
	if err := s.checkStreams(); err != nil {
		return err
	}
	if !s.dropDescriptions() {
		if err := s.keeper.end(); err != nil {
			return err
		}
	}
	if err := knowAccounts(config, s.server); err != nil {
		return err
	}
	s.keeping.Go(func() { s.lookAt(rest) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started, s.held = config.Bundle, map[string]accounts.Account{}
	for _, account := range config.Bundle.Accounts {
		s.held[account.Name] = account
	}
	return nil
}

// knowAccounts makes the server read the claims of all accounts, which are large.
// Otherwise it would read them for their first agents, and again for each that
// comes meanwhile.
func knowAccounts(config Config, server *natsserver.Server) error {
	for _, account := range config.Bundle.Accounts {
		if _, err := server.LookupAccount(account.PublicKey); err != nil {
			return fmt.Errorf("account %s: %w", account.Name, err)
		}
	}
	return nil
}

// keepRunning reopens the streams whenever one could not be written, until the server stops.
func (s *Server) keepRunning(config Config) {
	for {
		select {
		case <-s.quit:
			return
		case reason := <-s.log.unwritten:
			s.openAgain(config, blocksAtStart, "a stream could not be written: "+reason)
		case block := <-s.damaged:
			s.openAgain(config, 0, "a block is damaged: "+block)
		}
		if !s.pause(reopenPause) {
			return
		}
	}
}

func (s *Server) stop() error {
	if s.monitor != nil {
		s.monitor.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	if s.entrance != nil {
		s.entrance.turns.close()
	}
	close(s.quit)
	s.keeping.Wait()
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}
	if s.entrance != nil {
		s.entrance.close()
	}
	if s.denials != nil {
		s.denials.stop()
	}
	return errors.Join(s.keeper.check(), s.keeper.end(), s.lock.Close())
}

// Done returns a channel that is closed when the server has stopped.
func (s *Server) Done() <-chan struct{} { return s.done }

// URL returns the URL for clients: on this machine, if the server listens on every
// address.
func (s *Server) URL() string { return s.url }

// Gateway returns a new connection of the gateway to its own account, inside
// this process. It reconnects until the caller closes it. With one for each
// agent, an agent that floods does not slow the others.
func (s *Server) Gateway(options ...nats.Option) (*nats.Conn, error) {
	return s.connect(func() accounts.Login { return s.bundle().Gateway }, subjects.GatewayInbox, func(*nats.Conn) {}, options...)
}

// Dispatcher connects in this process as the dispatcher that calls a tool of a service
// for a kernel; refused is called when the server denies it something. The caller closes
// the connection.
func (s *Server) Dispatcher(kernel, service bcp.AgentName, tool string, refused func()) (*nats.Conn, error) {
	name := subjects.Dispatcher(kernel, service, tool)
	if _, ok := s.bundle().Dispatcher(name); !ok {
		return nil, fmt.Errorf("no dispatcher: kernel %s has no tool %s of %s", kernel, tool, service)
	}
	return s.connect(func() accounts.Login { login, _ := s.bundle().Dispatcher(name); return login }, subjects.GatewayInbox, func(*nats.Conn) {},
		onRefusal(refused))
}

// onRefusal has refused called when a server denies a connection something.
func onRefusal(refused func()) nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refused()
		}
	})
}

// Unheard reports whether nobody listens on a subject of calls, so that nobody can
// receive what a dispatcher publishes now. It returns false if that is not known.
func (s *Server) Unheard(subject string) bool {
	account, ok := s.bundle().Account(accounts.Dispatchers)
	if !ok {
		return false
	}
	at, err := s.server.LookupAccount(account.PublicKey)
	return err == nil && !at.SubscriptionInterest(subject)
}

func (s *Server) bundle() accounts.Bundle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bundles[0]
}

// lockWait is how long a server waits for the lock of its state folder: whoever looks
// whether it is held has it for a moment.
const lockWait = 250 * time.Millisecond

// Lock takes a lock of a state folder, and keeps every other mesh, or gateway, from running on
// it until the lock is closed. The error wraps [ErrInUse] if one runs.
func Lock(folder, name string) (*flock.Flock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(folder, name), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	locked, err := lock.TryLockContext(ctx, lockWait/10)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s", ErrInUse, folder)
	}
	return lock, nil
}

// Displaced reports whether the state folder was removed or replaced while the server runs: what it writes then is in files
// that nobody can open again.
func (s *Server) Displaced() bool {
	held, err := s.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(s.lock.Path())
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(held, there)
}

// discard removes streams from the disk, while nobody uses them.
func discard(config Config) error {
	for _, name := range config.Discard {
		folders, err := filepath.Glob(StreamPattern(config.StateDir, filepath.Base(name)))
		kept, err2 := filepath.Glob(filepath.Join(StreamsOf(config.StateDir), keepFolder, "*", "streams", filepath.Base(name)))
		err = errors.Join(err, err2)
		for _, folder := range append(folders, kept...) {
			err = errors.Join(err, os.RemoveAll(folder))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listen listens for clients, and stores where.
func (s *Server) listen(ctx context.Context, config Config) (err error) {
	scheme := "nats://"
	if config.TLS != nil {
		scheme = "tls://"
	}
	// The server finds out who is gone, by its own pings.
	quiet := net.ListenConfig{KeepAlive: -1}
	if s.listener, err = quiet.Listen(ctx, "tcp", config.Listen); err != nil {
		return err
	}
	host, _, _ := splitAddress(config.Listen) // it was checked
	_, port, _ := splitAddress(s.listener.Addr().String())
	s.url = scheme + net.JoinHostPort(localAddress(host), strconv.Itoa(port))
	return nil
}

// localAddress returns the address of a listener for this machine.
func localAddress(host string) string {
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}

func serverOptions(config Config) (*natsserver.Options, error) {
	operator, err := jwt.DecodeOperatorClaims(config.Bundle.Operator)
	if err != nil {
		return nil, fmt.Errorf("the operator's claims: %w", err)
	}
	options := &natsserver.Options{
		ServerName: "bcpmesh",
		// Clients come through the proxy, inside of this process: a port would be open
		// to everybody on this machine.
		DontListen: true,
		NoSigs:     true,
		// By default a client gets a ping after two seconds, and one that does not yet
		// know that it was accepted takes the ping for a refusal.
		DisableShortFirstPing: true,
		TrustedOperators:      []*jwt.OperatorClaims{operator},
		SystemAccount:         operator.SystemAccount,
		JetStream:             true,
		// Otherwise JetStream would use a folder that all servers of the
		// machine share.
		StoreDir: StreamsOf(config.StateDir),
		// The server's default limit is 75% of the free space when it starts: with a
		// larger journal it would not go on.
		JetStreamMaxStore:      config.MaxStore,
		SyncAlways:             config.SyncAlways,
		SyncInterval:           config.SyncInterval,
		DisableJetStreamBanner: true,
		MaxPayload:             maxPayload,
		MaxPending:             maxPending,
		MaxClosedClients:       maxClosed,
		MaxSubTokens:           maxSubjectTokens,
		AuthTimeout:            authTime.Seconds(),
		// The proxy says where clients come from.
		ProxyProtocol: true,
	}
	return options, nil
}

// ClaimFiles are the paths of the JWTs that a server enforces, for inspection
// from outside. They contain no secrets.
type ClaimFiles struct {
	Operator string // a file
	Accounts string // a folder: a file for each account, always the newest
}

// Claims returns the paths of the claims of a state folder. They do not exist
// before the first start.
func Claims(stateDir string) ClaimFiles {
	return ClaimFiles{filepath.Join(stateDir, OperatorFile), filepath.Join(stateDir, resolverFolder)}
}

// newResolver fills a new folder with the bundle's claims: those of an earlier
// run do not count.
func newResolver(config Config) (*natsserver.DirAccResolver, error) {
	folder := filepath.Join(config.StateDir, resolverFolder)
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	// For inspection; the server has it from the bundle.
	if err := os.WriteFile(Claims(config.StateDir).Operator, []byte(config.Bundle.Operator+"\n"), 0o600); err != nil {
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
