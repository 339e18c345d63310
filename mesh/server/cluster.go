package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The files in a gateway's folder: creds for the gateway's account and for the system
// account, and the root of trust that must have signed the cluster's claims.
const (
	CoreCreds    = "core.creds"
	SystemCreds  = "system.creds"
	OperatorFile = "operator.jwt"
)

// DispatcherCreds returns the name of the creds file of a dispatcher, which calls one
// tool for one kernel, by its name in package subjects.
func DispatcherCreds(dispatcher bcp.AgentName) string { return string(dispatcher) + ".creds" }

const (
	// connectTimeout bounds one attempt to connect to one server.
	connectTimeout = 3 * time.Second
	// clusterWait is the pause before the servers are tried again.
	clusterWait = 100 * time.Millisecond
	// A server without a reply for pingInterval and lostPings more is left.
	pingInterval = time.Second
	lostPings    = 2
	// answerTimeout bounds the wait for the servers' answers to one question.
	answerTimeout = 2 * time.Second
	// learnPatience is how long claims are waited for until another server is asked;
	// each time twice as long.
	learnPatience = 250 * time.Millisecond
	// clusterLook is how often connections are listed: a server that crashes
	// sends no events.
	clusterLook = 2 * time.Second
	// learnPause is the minimum time between two reads of the claims because of
	// unknown clients.
	learnPause = time.Second
	// learnInterval is how often they are read in any case.
	learnInterval = 30 * time.Second
)

// ErrClaims says that the cluster's claims differ from those that the definitions need.
var ErrClaims = errors.New("the cluster does not enforce what the definitions say, before bcpmesh accounts push")

// ErrCreds says that a gateway's folder lacks required creds.
var ErrCreds = errors.New("the folder of the gateway's creds lacks some that the definitions need, before bcpmesh accounts export")

// ClusterConfig says which cluster to connect to, and as whom.
type ClusterConfig struct {
	URL   string // of some of its servers, with commas between them
	Creds string // folder with the files
	Name  string // of the gateway, shown by servers
	// NATS are further options of each connection, for example for TLS.
	NATS []nats.Option
	// Logger, nil discards.
	Logger hclog.Logger
}

// Cluster is a gateway's connections to a cluster. Its methods may be used
// concurrently.
type Cluster struct {
	config   ClusterConfig
	log      hclog.Logger
	operator string // its JWT
	monitor  *nats.Conn
	again    chan struct{} // list the connections now
	quit     chan struct{}
	running  sync.WaitGroup

	claims atomic.Pointer[accounts.Bundle]

	called chan struct{} // closed once servers have answered
	first  sync.Once     // closes called

	mu       sync.Mutex
	conns    map[*nats.Conn]bool // of Gateway, unless closed
	attended missedCalls
	home     string // where the monitor has a good connection, or nothing
	fullest  Store
	learnt   time.Time
	strange  map[string]bool // issuers that are not in the claims
	foreign  map[string]bool // those that are not in newer claims either
}

// ConnectCluster connects to the system account and reads the cluster's claims.
func ConnectCluster(ctx context.Context, config ClusterConfig) (*Cluster, error) {
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	c := &Cluster{
		config: config, log: config.Logger, again: make(chan struct{}, 1), quit: make(chan struct{}),
		called: make(chan struct{}), conns: map[*nats.Conn]bool{}, attended: missedCalls{}, strange: map[string]bool{}, foreign: map[string]bool{},
	}
	operator, err := os.ReadFile(filepath.Join(config.Creds, OperatorFile))
	if err != nil {
		return nil, fmt.Errorf("read the root of trust: %w", err)
	}
	c.operator = strings.TrimSpace(string(operator))
	c.monitor, err = c.connect(SystemCreds, subjects.MonitorInbox, nats.ReconnectHandler(func(*nats.Conn) { c.lookAgain() }))
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster's system account: %w", err)
	}
	if err := c.readClaims(ctx); err != nil {
		c.monitor.Close()
		return nil, err
	}
	c.running.Go(func() { c.leaveCutOff(c.quit) })
	return c, nil
}

// Close ends what ConnectCluster began. Connections of [Cluster.Gateway] stay open.
// Call it once.
func (c *Cluster) Close() {
	close(c.quit)
	c.monitor.Close()
	c.running.Wait()
}

// URL returns the URLs for agents.
func (c *Cluster) URL() string { return c.config.URL }

// Slow does nothing: a cluster reads everybody as fast as they send. Who floods is
// disconnected.
func (c *Cluster) Slow(Party) {}

// Gateway returns a new connection to the gateway's account. If it is lost, or its
// server is cut off from the others, it reconnects to another server, until the
// caller closes it. The cluster sets the closed handler.
func (c *Cluster) Gateway(options ...nats.Option) (*nats.Conn, error) {
	conn, err := c.connect(CoreCreds, subjects.GatewayInbox, append(slices.Clip(options), nats.ClosedHandler(c.forget))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the gateway's account: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conn.IsClosed() {
		c.conns[conn] = true
	}
	return conn, nil
}

// Dispatcher returns a new connection of the dispatcher that calls a tool of a service
// for a kernel; refused is called when the cluster denies it something. The caller
// closes it.
func (c *Cluster) Dispatcher(kernel, service bcp.AgentName, tool string, refused func()) (*nats.Conn, error) {
	conn, err := c.connect(DispatcherCreds(subjects.Dispatcher(kernel, service, tool)), subjects.GatewayInbox,
		onRefusal(refused))
	if err != nil {
		return nil, fmt.Errorf("connect as the dispatcher of %s for %s of %s: %w", kernel, tool, service, err)
	}
	return conn, nil
}

func (c *Cluster) forget(conn *nats.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

func (c *Cluster) connect(creds, inbox string, options ...nats.Option) (*nats.Conn, error) {
	all := []nats.Option{
		nats.Name("bcpmesh gateway " + c.config.Name),
		nats.UserCredentials(filepath.Join(c.config.Creds, creds)),
		nats.CustomInboxPrefix(inbox),
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(lostPings),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(clusterWait),
		nats.ReconnectJitter(clusterWait, clusterWait),
		nats.IgnoreAuthErrorAbort(),
		// What cannot be sent in time is decided again by its caller.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if noLongerValid(err) {
				c.log.Error("the cluster refuses this gateway's credentials", "error", err)
				return
			}
			c.log.Debug("a connection to the cluster", "error", err)
		}),
	}
	c.mu.Lock()
	home := c.home
	c.mu.Unlock()
	urls, ordered := inOrder(strings.Split(c.config.URL, ","), home)
	if ordered {
		all = append(all, nats.DontRandomize())
	}
	return nats.Connect(strings.Join(urls, ","), slices.Concat(all, c.config.NATS, options)...)
}

// noLongerValid reports that credentials are no longer, or not yet, valid.
func noLongerValid(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired},
		func(e error) bool { return errors.Is(err, e) })
}

// Kick disconnects a client. It returns [ErrNoClient] if it is gone.
func (c *Cluster) Kick(client ClientID) error { return kick(c.monitor, client) }

// Check reads the cluster's claims, and compares them with exactly those that the
// definitions need. If they differ, the error is [ErrClaims], with one line for
// each difference, or [ErrCreds].
func (c *Cluster) Check(ctx context.Context, scopes []subjects.Scope) error {
	if err := c.readClaims(ctx); err != nil {
		return err
	}
	for _, s := range scopes {
		if s.Role != bcp.RoleDispatcher {
			continue
		}
		file := filepath.Join(c.config.Creds, DispatcherCreds(s.Agent))
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("%w: %s, to %s", ErrCreds, file, strings.Join(s.PubAllow, ", "))
		}
		_ = f.Close() // nothing was written
	}
	if differences := c.claims.Load().Differences(scopes); len(differences) > 0 {
		return fmt.Errorf("%w:\n%s", ErrClaims, strings.Join(differences, "\n"))
	}
	return nil
}

// readClaims reads the accounts' claims from one of the servers. The chosen one may be
// down before the others notice: then it retries.
func (c *Cluster) readClaims(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+answerTimeout)
	defer cancel()
	patience := learnPatience
	tokens, err := c.pack(ctx, patience)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		patience *= 2
		tokens, err = c.pack(ctx, patience)
	}
	if err != nil {
		return fmt.Errorf("read the cluster's claims: %w", err)
	}
	claims, err := accounts.Enforced(c.operator, tokens)
	if err != nil {
		return fmt.Errorf("read the cluster's claims: %w", err)
	}
	c.claims.Store(&claims)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learnt, c.strange = time.Now(), map[string]bool{}
	return nil
}

// pack asks for all claims. Patience bounds the wait for each message.
func (c *Cluster) pack(ctx context.Context, patience time.Duration) ([]string, error) {
	replies, err := ask(c.monitor, subjects.PackClaims, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = replies.Unsubscribe() }() // the connection may be gone
	var tokens []string
	for {
		patient, cancel := context.WithTimeout(ctx, patience)
		reply, err := replies.NextMsgWithContext(patient)
		cancel()
		if err == nil && reply.Header.Get("Status") == "503" {
			err = errors.New("it has no resolver that keeps them: resolver: {type: full}")
		}
		if err != nil {
			return nil, err
		}
		if len(reply.Data) == 0 {
			return tokens, nil
		}
		for line := range bytes.Lines(reply.Data) {
			if _, token, ok := bytes.Cut(line, []byte("|")); ok {
				tokens = append(tokens, string(bytes.TrimSpace(token)))
			}
		}
	}
}

// ask sends a request that each server may answer.
func ask(nc *nats.Conn, subject string, question []byte) (*nats.Subscription, error) {
	replies, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest(subject, replies.Subject, question); err != nil {
		_ = replies.Unsubscribe()
		return nil, err
	}
	return replies, nil
}
