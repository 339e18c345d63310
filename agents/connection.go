package agents

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Options are the settings of a connection and its clients. Only Name is
// required.
type Options struct {
	// Name is the agent or person of the creds.
	Name bcp.AgentName
	// Encoding must be that of the agent's definition. Zero is JSON.
	Encoding bcp.Encoding
	// Logger gets connection events, refusals by the gateway, denied subjects and dropped
	// messages, never payloads. Nil writes its warnings to stderr, and there also what a
	// failing handler says. hclog.NewNullLogger() is silent.
	Logger hclog.Logger
	// NATS are further options of the connection, such as TLS roots or
	// nats.InProcessServer. Its callbacks and the inbox prefix cannot be changed.
	NATS []nats.Option
	// Attempt is the timeout of one attempt of a request; then it is sent
	// again. Zero is 2 s.
	Attempt time.Duration
	// MaxWait bounds the pause between attempts and between reconnects; the
	// first retry is immediate. Zero is 2 s.
	MaxWait time.Duration
	// Handlers is how many handlers of one client run at a time. Zero is 4.
	Handlers int
}

// withDefaults returns o with defaults in place of zero fields, or an error if o is
// invalid.
func (o Options) withDefaults() (Options, error) {
	if _, err := bcp.ParseAgentName(string(o.Name)); err != nil {
		return o, fmt.Errorf("agents: Options.Name: %w", err)
	}
	o.Encoding = cmp.Or(o.Encoding, bcp.JSON)
	if o.Encoding != bcp.JSON && o.Encoding != bcp.MessagePack {
		return o, errors.New("agents: Options.Encoding is neither JSON nor MessagePack")
	}
	if o.Attempt < 0 || o.MaxWait < 0 || o.Handlers < 0 {
		return o, errors.New("agents: Options: durations and counts are not negative")
	}
	o.Attempt, o.MaxWait, o.Handlers = cmp.Or(o.Attempt, defaultAttempt), cmp.Or(o.MaxWait, defaultMaxWait), cmp.Or(o.Handlers, defaultHandlers)
	return o, nil
}

// Credentials prove an agent's name. The zero value is for servers without
// authentication. Printing one shows nothing.
type Credentials struct {
	option nats.Option
	file   string // to watch
}

// CredsFile reads a .creds file at every connect and checks it every second: when the
// file is replaced atomically, the connection switches to the new creds at once. Nothing
// is lost: the gateway sends unacknowledged messages again, and requests are retried.
//
// The file of the same name with ".mark" appended keeps the newest mark, the position of
// the mesh's journal (PROTOCOL P11.7). It is sent to the gateway, which detects by it
// that its state was rolled back. The file is written at most once a second and when the
// connection is closed; if it cannot be written, the mark is lost with the connection,
// as with CredsText.
func CredsFile(path string) Credentials {
	return Credentials{option: nats.UserCredentials(path), file: path}
}

// CredsText takes the text of a .creds file: the user JWT and its seed.
func CredsText(text []byte) Credentials {
	return Credentials{option: nats.UserCredentialBytes(bytes.Clone(text))}
}

// String shows nothing.
func (Credentials) String() string { return "credentials" }

// GoString shows nothing.
func (Credentials) GoString() string { return "agents.Credentials{}" }

// Connection is one agent's connection in one role. It may be used
// concurrently.
type Connection struct {
	nc      *nats.Conn
	options Options
	log     hclog.Logger
	stderr  bool // log is this process's: it may quote what the agent has read
	told    told
	closed  chan struct{} // when the connection is
	watch   sync.WaitGroup
	marks   markStore
	dialled atomic.Pointer[nats.Conn] // nc, for callbacks that may come before it is set
	refused atomic.Bool               // the server refuses the credentials, and that was said
	left    atomic.Int64              // when it last left a server because no reply came, in Unix nanoseconds

	mu   sync.Mutex // guards what follows
	runs map[*run]struct{}
	over bool
	link link // of now
}

// link lasts from one connect to the next. What was sent on it and is not answered
// when it ends will not be.
type link struct {
	ctx context.Context
	end context.CancelCauseFunc
}

var errReconnected = errors.New("the connection was lost")

// reconnected cancels the previous link.
func (c *Connection) reconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link.end != nil {
		c.link.end(errReconnected)
	}
	c.link.ctx, c.link.end = context.WithCancelCause(context.Background())
}

func (c *Connection) linked() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.ctx
}

// sending is one sending of a message that needs an answer or acknowledgement.
// The server permits the reply only on the connection on which the message came.
type sending struct {
	reply      string
	reconnects uint64 // reconnects before it arrived
}

// arrived returns the sending of a message that has just come. It counts
// reconnects, since link is not enough: its callback may run after the first
// message of the new connection, which would then never be answered.
func (c *Connection) arrived(m *nats.Msg) sending {
	return sending{m.Reply, c.nc.Stats().Reconnects}
}

// reply answers or acknowledges a sending, unless its connection has ended. A lost
// reply is repeated when the gateway sends the message again.
func (c *Connection) reply(to sending, message []byte) {
	err := errReconnected
	if c.nc.IsConnected() && c.nc.Stats().Reconnects == to.reconnects {
		err = c.nc.PublishMsg(&nats.Msg{Subject: to.reply, Data: message, Header: c.marks.shown(message)})
	}
	if err != nil {
		c.log.Debug("reply not sent", "error", err)
	}
}

// handBack replies, as a server does without listeners, that nobody can take the
// message now.
func (c *Connection) handBack(to sending) {
	if err := c.nc.PublishMsg(&nats.Msg{Subject: to.reply, Header: nats.Header{"Status": {"503"}}}); err != nil {
		c.log.Debug("query not handed back", "error", err)
	}
}

// Connect dials the server, or one of several with URLs separated by commas, and returns
// when the connection is ready, or the first error. To wait for a server that is not up
// yet, pass nats.RetryOnFailedConnect in Options.NATS. It checks ctx before and after
// dialling, which takes at most nats.Timeout (10 s). The connection then reconnects for
// ever: at once when the server dropped it because the agent's permissions changed, and
// with exponential backoff and jitter when the server is gone.
func Connect(ctx context.Context, url string, creds Credentials, o Options) (*Connection, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := newConnection(o)
	dial, err := c.natsOptions(url, creds)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("agents: connecting %s: %w", o.Name, ended(ctx))
	}
	c.marks.open(creds.file)
	held := fileDigest(creds.file)
	if c.nc, err = dial.Connect(); err != nil {
		return nil, fmt.Errorf("agents: connecting %s: %w", o.Name, err)
	}
	c.dialled.Store(c.nc)
	if ctx.Err() != nil {
		c.Close()
		return nil, fmt.Errorf("agents: connecting %s: %w", o.Name, ended(ctx))
	}
	if creds.file != "" {
		c.watch.Go(func() { c.watchFile(creds.file, held) })
	}
	return c, nil
}

func newConnection(o Options) *Connection {
	c := &Connection{options: o, log: o.Logger, stderr: o.Logger == nil, told: told{reasons: map[string]bool{}}, runs: make(map[*run]struct{}), closed: make(chan struct{})}
	if c.stderr {
		c.log = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn})
	}
	c.log = c.log.Named("agents").With("agent", string(o.Name))
	c.marks.log = c.log
	c.reconnected()
	return c
}

// NATS returns the underlying connection, for what this package does not do.
func (c *Connection) NATS() *nats.Conn { return c.nc }

// Name returns the agent's name.
func (c *Connection) Name() bcp.AgentName { return c.options.Name }

// Close stops the clients of the connection without waiting for their handlers,
// closes it, and returns when every goroutine has ended. Do not call it in a handler or in the body of a loop over Deliveries:
// it would wait for itself. It may be called twice.
func (c *Connection) Close() {
	c.mu.Lock()
	c.over = true
	runs := slices.Collect(maps.Keys(c.runs))
	c.mu.Unlock()
	for _, r := range runs {
		r.cancel(ErrClosed)
		<-r.done
	}
	c.nc.Close()
	<-c.closed
	c.watch.Wait()
}

// natsOptions returns the defaults, the caller's options, and then those that
// must not change.
func (c *Connection) natsOptions(url string, creds Credentials) (nats.Options, error) {
	pause := &reconnectPause{most: c.options.MaxWait, refused: func() bool {
		nc := c.dialled.Load()
		return nc != nil && CredsRefused(nc.LastError())
	}}
	o := nats.GetDefaultOptions()
	defaults := []nats.Option{
		nats.Name("bcpmesh agent " + string(c.options.Name)),
		nats.MaxReconnects(-1),
		nats.Timeout(dialTimeout),
		// Nothing is buffered for a later connection: it would be sent without
		// the former one's permission to reply. Requests are retried; answers
		// and acknowledgements are sent again when the gateway repeats its
		// message.
		nats.ReconnectBufSize(-1),
		// A revoked user may be restored, and a scope may return.
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(pause.next),
	}
	if creds.option != nil {
		defaults = append(defaults, creds.option)
	}
	for _, option := range append(defaults, c.options.NATS...) {
		if option == nil {
			continue
		}
		if err := option(&o); err != nil {
			return o, fmt.Errorf("agents: connecting %s: %w", c.options.Name, err)
		}
	}
	if url != "" {
		o.Servers = strings.Split(strings.ReplaceAll(url, " ", ""), ",")
	}
	o.InboxPrefix = subjects.InboxPrefix(c.options.Name)
	c.callbacks(&o, pause)
	return o, nil
}

// callbacks sets what the connection tells of itself.
func (c *Connection) callbacks(o *nats.Options, pause *reconnectPause) {
	connected := func(*nats.Conn) {
		pause.connected()
		c.refused.Store(false)
	}
	o.ConnectedCB = connected
	o.ReconnectedCB = func(nc *nats.Conn) {
		connected(nc)
		c.log.Info("connected again")
		c.reconnected()
	}
	o.DisconnectedErrCB = func(_ *nats.Conn, err error) {
		if err != nil { // nil is our own Close
			c.log.Info("disconnected", "error", err)
		}
	}
	o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { c.failed(err) }
	o.ClosedCB = func(*nats.Conn) { close(c.closed) }
}

// failed reports an asynchronous error of the connection. Its text may name a
// subject of this agent.
func (c *Connection) failed(err error) {
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		c.tellDenied(err)
	case !CredsRefused(err) || !c.refused.Swap(true): // that is said once, however often it is tried
		c.log.Warn("connection", "error", err)
	}
}

// CredsRefused reports whether an error of a connection says that the server does not take
// its credentials: they are unknown, expired or revoked, or their account is.
func CredsRefused(err error) bool {
	return isAny(err, nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired)
}

// denied returns the server's refusal of subject, if it was the last refusal.
// doing is "Publish" or "Subscription".
func (c *Connection) denied(doing, subject string) error {
	err := c.nc.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), fmt.Sprintf("%s to %q", doing, subject)) {
		return err
	}
	return nil
}

// handlerFailed reports why a handler's message was not dealt with: all of it to stderr, and to
// a logger only what cannot quote content.
func (c *Connection) handlerFailed(err error) {
	failed, ok := errors.AsType[*handlerError](err)
	if !ok {
		failed = &handlerError{what: "what a handler returned", err: err}
	}
	if c.stderr {
		c.tell("a handler failed", failed.what+failed.err.Error(), "of", failed.what, "panicked", failed.panicked, "error", bounded(failed.err.Error()))
	} else {
		c.log.Error("handler failed", "of", failed.what, "id", failed.id, "panicked", failed.panicked, "error_type", fmt.Sprintf("%T", failed.err))
	}
}
