package agents

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// run is one client between Start and Stop. Its goroutines are the receiver and
// those of spawn; done is closed when all have ended.
type run struct {
	cancel   context.CancelCauseFunc // ends the context of the handlers
	stopping chan struct{}           // closed: take nothing new
	done     chan struct{}
	handlers chan struct{} // one token for each handler that may run
	queries  queries

	mu    sync.Mutex // guards over and adding to work
	over  bool
	work  sync.WaitGroup
	begin func(func(context.Context)) // adds a goroutine to work, with the handlers' context
}

func (c *Connection) subscribe(ctx context.Context, queue string, patterns []string, messages chan *nats.Msg) ([]*nats.Subscription, error) {
	var subscriptions []*nats.Subscription
	for _, pattern := range patterns {
		s, err := c.nc.ChanQueueSubscribe(pattern, queue, messages)
		if err != nil {
			return subscriptions, fmt.Errorf("agents: %w", err)
		}
		subscriptions = append(subscriptions, s)
	}
	if err := c.flush(ctx); err != nil {
		return subscriptions, fmt.Errorf("agents: subscribing: %w", err)
	}
	// The server refuses before it answers the flush.
	for _, pattern := range patterns {
		if err := c.denied("Subscription", pattern); err != nil {
			return subscriptions, fmt.Errorf("agents: are these the creds of %s in this role? %w", c.options.Name, err)
		}
	}
	return subscriptions, nil
}

// flush returns when the server has what was sent, even if only on a later connection.
func (c *Connection) flush(ctx context.Context) error {
	for n := 1; ; n++ {
		attempt, cancel := context.WithTimeout(ctx, c.options.Attempt)
		err := c.nc.FlushWithContext(attempt)
		cancel()
		switch {
		case err == nil || c.nc.IsClosed():
			return err
		case !sleep(ctx, nil, pauseBefore(n, firstWait, c.options.MaxWait)):
			return ended(ctx)
		}
	}
}

// unsubscribe ignores errors: a subscription of a closed connection is gone.
func unsubscribe(subscriptions []*nats.Subscription) {
	for _, s := range subscriptions {
		_ = s.Unsubscribe()
	}
}

// receive calls receive for each message, until the run or ctx ends.
func (r *run) receive(ctx context.Context, messages <-chan *nats.Msg, receive func(*nats.Msg)) {
	for {
		select {
		case <-r.stopping:
			return
		case <-ctx.Done():
			return
		case m := <-messages:
			receive(m)
		}
	}
}

// goesOn reports whether the run has not ended. None has.
func (r *run) goesOn() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// end makes the run take nothing new. It may be called twice.
func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over = true
		close(r.stopping)
	}
}

// spawn runs f in a goroutine for which the end of the run waits, unless the
// run is ending.
func (r *run) spawn(f func(context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.begin(f)
	return true
}

// handle calls f when fewer handlers than allowed are running. It reports false,
// without a call, if the run ends before.
func (r *run) handle(ctx context.Context, f func()) bool {
	select {
	case r.handlers <- struct{}{}:
		defer func() { <-r.handlers }()
	case <-r.stopping:
		return false
	case <-ctx.Done():
		return false
	}
	f()
	return true
}

// stop ends the run and waits for its handlers. When ctx ends first, their
// context is cancelled, and stop waits on and returns the reason.
func (r *run) stop(ctx context.Context) error {
	r.end()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		r.cancel(ended(ctx))
		<-r.done
		return fmt.Errorf("agents: stopping: %w", ended(ctx))
	}
}

// lanes runs jobs with one key in sequence and those with different keys
// concurrently. Each key has a goroutine that ends when it has no more jobs.
type lanes[K comparable] struct {
	mu   sync.Mutex // guards what follows
	run  *run
	jobs map[K][]job
}

// job is one piece of a handler's work.
type job func(context.Context, *run)

// begin empties the lanes for a new run.
func (l *lanes[K]) begin(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run, l.jobs = r, make(map[K][]job)
}

// add reports false if the lane is full or the run is ending. Jobs that still
// wait when the run ends are dropped.
func (l *lanes[K]) add(key K, j job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting, busy := l.jobs[key]
	if l.run == nil || len(waiting) >= maxQueued {
		return false
	}
	r := l.run
	if !busy && !r.spawn(func(ctx context.Context) { l.work(ctx, r, key) }) {
		return false
	}
	l.jobs[key] = append(waiting, j)
	return true
}

func (l *lanes[K]) work(ctx context.Context, r *run, key K) {
	for {
		j := l.next(r, key)
		if j == nil {
			return
		}
		j(ctx, r)
	}
}

// next takes the first job of key; after the last job the lane is removed.
func (l *lanes[K]) next(r *run, key K) job {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.jobs[key]
	select {
	case <-r.stopping:
		waiting = nil
	default:
	}
	if len(waiting) == 0 {
		delete(l.jobs, key)
		return nil
	}
	l.jobs[key] = waiting[1:]
	return waiting[0]
}
