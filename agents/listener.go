package agents

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// listener takes the messages of an agent in one role, between Start and Stop, for the
// clients that embed it. The zero value is stopped.
type listener struct {
	conn     *Connection
	role     bcp.Role
	log      hclog.Logger
	counters counters

	starting sync.Mutex // guards current
	current  *run
}

// listen takes the messages of these subjects, of which there is one at least, together with
// others of the queue if that has a name, and returns when the server has confirmed it: if the
// connection is lost, it waits for a reconnect until ctx ends. begin is called before the first
// message, and receive for each, in the order in which they come over all subjects, with its
// reply subject: one of another agent or role is dropped.
func (l *listener) listen(ctx context.Context, queue string, patterns []string, begin func(*run), receive func(*run, *nats.Msg, subjects.Subject)) error {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.current.goesOn() {
		return ErrStarted
	}
	c, messages := l.conn, make(chan *nats.Msg, receiveBuffer)
	subscriptions, err := c.subscribe(ctx, queue, patterns, messages)
	if err != nil {
		unsubscribe(subscriptions)
		return err
	}
	work, cancel := context.WithCancelCause(ctx)
	r := &run{
		cancel: cancel, stopping: make(chan struct{}), done: make(chan struct{}),
		handlers: make(chan struct{}, c.options.Handlers),
		queries:  queries{nc: c.nc, pattern: patterns[0], messages: messages, current: subscriptions[0]},
	}
	r.begin = func(f func(context.Context)) { r.work.Go(func() { f(work) }) }
	c.mu.Lock()
	over := c.over
	if !over {
		c.runs[r] = struct{}{}
	}
	c.mu.Unlock()
	if over {
		cancel(ErrClosed)
		unsubscribe(subscriptions)
		return ErrClosed
	}
	l.current = r
	begin(r)
	go func() {
		defer close(r.done)
		r.receive(work, messages, func(m *nats.Msg) { l.judge(r, m, receive) })
		r.end()
		r.queries.end()
		unsubscribe(subscriptions)
		r.work.Wait()
		cancel(nil)
		c.mu.Lock()
		delete(c.runs, r)
		c.mu.Unlock()
	}()
	return nil
}

// judge has a message received, unless its reply subject is of somebody else.
func (l *listener) judge(r *run, m *nats.Msg, receive func(*run, *nats.Msg, subjects.Subject)) {
	l.conn.marks.keepFrom(m)
	to, err := subjects.Parse(m.Reply)
	switch {
	case m.Reply == "" && l.tellsOfRun(m):
	case err != nil || to.Kind != subjects.KindReply || to.Role != l.role || to.Agent != l.conn.options.Name:
		count(&l.counters.foreign, l.log, "dropped a message with a foreign reply subject")
	default:
		receive(r, m, to)
	}
}

// running returns the run, or nil.
func (l *listener) running() *run {
	l.starting.Lock()
	defer l.starting.Unlock()
	return l.current
}

// tellsOfRun reports whether a Controller is told how a run ended: a [Requester] asks for that.
func (l *listener) tellsOfRun(m *nats.Msg) bool {
	if l.role != bcp.RoleController {
		return false
	}
	got, err := bcp.Receive(m.Data, l.conn.options.Encoding)
	return err == nil && got.Type == bcp.TypeRun
}

// malformed reports a message that is not understood.
func (l *listener) malformed() {
	count(&l.counters.malformed, l.log, "dropped a message that is not understood: is Options.Encoding that of the definition?")
}

// Stop takes nothing more and waits for running handlers; if ctx ends first, it cancels
// their context and still waits for them. What was not yet handled stays with the gateway.
// It may be called before Start and twice. Start may be called again.
func (l *listener) Stop(ctx context.Context) error {
	if r := l.running(); r != nil {
		return r.stop(ctx)
	}
	return nil
}

// counters count messages that no handler was given: those that came again, had another agent's reply subject, were not
// understood, or came while too many waited.
type counters struct{ duplicates, foreign, malformed, overflow atomic.Uint64 }

// count adds one and logs at 1, 2, 4, 8 and so on, so that a flood does not
// fill the log. No part of a message is logged.
func count(counter *atomic.Uint64, log hclog.Logger, what string) {
	if n := counter.Add(1); n&(n-1) == 0 {
		log.Warn(what, "count", n)
	}
}
