package mailbox

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

var errTaken = errors.New("another process copies the mailbox")

// CopyOptions are the options of a copier.
type CopyOptions struct {
	Server guard.MailServer
	// Key returns the user's password, or a token of OAuth 2 after "Bearer ", in printable ASCII. It is asked for at each
	// login: tokens do not last.
	Key    func() (string, error)
	Dialer *fetch.Dialer
	Folder string // the Maildir, created if necessary. Nobody else may write to it
	Logger hclog.Logger

	limits copyLimits // zero: those of always
}

// copyLimits are smaller in tests.
type copyLimits struct {
	messages     int           // the newest
	message, all int64         // bytes
	silence      time.Duration // of the server
	poll         time.Duration // between two looks
	soon, late   time.Duration // first and longest pause after something failed
	locked       time.Duration // the first after the login was refused
	longest      time.Duration // and the longest
	forget       time.Duration // until failed messages are requested again
}

func defaults() copyLimits {
	return copyLimits{
		messages: MaxListed, message: MaxMessage, all: 1 << 30,
		silence: time.Minute, poll: time.Minute, soon: 5 * time.Second, late: 5 * time.Minute,
		locked: time.Minute, longest: 30 * time.Minute, forget: time.Hour,
	}
}

// Copier copies a mailbox for as long as it runs.
type Copier struct {
	o     CopyOptions
	log   hclog.Logger
	store store
	first func()
	ready chan struct{}

	// State of the copy, while its lock is held.
	failed      map[int64]int // how often a requested message did not come
	failedSince time.Time
	complete    state // of the mailbox when everything available had been copied
	held        int
	bytes       int64
}

// state changes whenever a message comes or goes.
type state struct{ validity, uidNext, exists int64 }

// NewCopier returns the copier of a mailbox, and creates its Maildir.
func NewCopier(o CopyOptions) (*Copier, error) {
	if o.limits == (copyLimits{}) {
		o.limits = defaults()
	}
	s, err := openStore(o.Folder)
	if err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	return &Copier{o: o, log: o.Logger, store: s, ready: ready, first: sync.OnceFunc(func() { close(ready) }), failed: map[int64]int{}}, nil
}

// Looked is closed after the first look at the server, or when it could not be reached.
func (c *Copier) Looked() <-chan struct{} { return c.ready }

// Run copies until ctx ends. All errors are retried: after seconds, then minutes. A
// refused login is retried after a minute at the earliest, so that no account is locked.
func (c *Copier) Run(ctx context.Context) {
	defer c.first()
	lock := flock.New(filepath.Join(c.o.Folder, "lock"), flock.SetPermissions(0o600))
	defer func() { _ = lock.Close() }()
	said, failures, refused := "", 0, 0
	for ctx.Err() == nil {
		passes, err := c.hold(ctx, lock)
		c.first()
		if ctx.Err() != nil {
			return
		}
		if passes > 0 {
			failures, refused, said = 0, 0, ""
		}
		pause := backoff(c.o.limits.soon, c.o.limits.late, failures)
		if errors.Is(err, errLogin) || errors.Is(err, errNoLogin) {
			pause = backoff(c.o.limits.locked, c.o.limits.longest, refused)
			refused++
		}
		failures++
		if text := reason(err); text != said || errors.Is(err, errLogin) {
			said = text
			c.log.Warn("the mailbox is not copied", "reason", text, "again_in", pause)
		}
		sleep(ctx, pause)
	}
}

// reason is an error in our words.
func reason(err error) string {
	switch {
	case errors.Is(err, guard.PrivateAddress):
		return "the server's address is not public: list its prefix in allow_addresses of mesh.yaml"
	case errors.Is(err, guard.TLSFailed):
		return "the server does not prove by TLS that it is the one"
	case errors.Is(err, guard.HostDenied), errors.Is(err, guard.PortDenied), errors.Is(err, guard.DenyAll):
		return guard.AllowVariable + " does not list the server with its port"
	}
	return err.Error()
}

func backoff(first, longest time.Duration, times int) time.Duration {
	for range times {
		if first *= 2; first >= longest {
			return longest
		}
	}
	return first
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hold copies while nothing fails, if no other process does. It returns how often it has seen everything.
func (c *Copier) hold(ctx context.Context, lock *flock.Flock) (passes int, err error) {
	switch ours, err := lock.TryLock(); {
	case err != nil:
		return 0, writing(err)
	case !ours:
		return 0, errTaken
	}
	if err := c.store.clean(); err != nil {
		return 0, err
	}
	s, closed, err := c.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer closed()
	for {
		if err := c.pass(s); err != nil {
			return passes, err
		}
		if passes++; passes == 1 {
			c.log.Info("the mailbox is copied", "messages", c.held, "bytes", c.bytes)
		}
		c.first()
		if sleep(ctx, c.o.limits.poll); ctx.Err() != nil {
			return passes, ctx.Err()
		}
	}
}

// connect logs in. The connection is closed when ctx ends.
func (c *Copier) connect(ctx context.Context) (s *session, closed func(), err error) {
	key, err := c.o.Key()
	if err != nil {
		return nil, nil, errKey
	}
	conn, err := c.o.Dialer.Dial(ctx, c.o.Server.Target, "imap")
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	closed = func() {
		stop()
		_ = conn.Close()
	}
	s = &session{wire: newWire(conn, c.o.limits.silence)}
	if err = s.readGreeting(); err == nil {
		err = s.login(c.o.Server.User, key)
	}
	if err != nil {
		closed()
		return nil, nil, err
	}
	return s, closed, nil
}

// pass looks at the mailbox once, and updates the Maildir.
func (c *Copier) pass(s *session) error {
	if err := s.examine(c.o.Server.Mailbox); err != nil {
		return err
	}
	now := state{s.validity, s.uidNext, s.exists}
	if c.complete.validity != now.validity || len(c.failed) > 0 && time.Since(c.failedSince) > c.o.limits.forget {
		c.complete, c.failed, c.failedSince = state{}, map[int64]int{}, time.Now()
	}
	if now == c.complete && now.uidNext != 0 {
		return nil
	}
	have, err := c.store.messages(now.validity)
	if err != nil {
		return err
	}
	listed, all, err := s.newest(now, c.o.limits.messages)
	if err != nil {
		return err
	}
	maps.DeleteFunc(c.failed, func(uid int64, _ int) bool { _, there := listed[uid]; return !there && all })
	missing := choose(listed, have, c.o.limits)
	c.complete, c.held, c.bytes = state{validity: now.validity}, 0, 0
	for uid, m := range have {
		if !m.listed && all {
			if err := c.store.remove(now.validity, uid); err != nil {
				return err
			}
			continue
		}
		c.held++
		c.bytes += m.size
	}
	left, err := c.fetchAll(s, now.validity, missing)
	if err != nil {
		return err
	}
	if left == 0 && all {
		c.complete = now
	}
	return nil
}
