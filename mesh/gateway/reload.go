package gateway

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Reload switches to other definitions (PROTOCOL P1.5). It first reads the journal
// under them, while the gateway decides as before. Then, between two steps, it reads
// the decisions made meanwhile, calls switchOver, which changes agents' permissions
// at the server, and records the change. After an error the previous definitions
// remain in force here; if switchOver returned none, the caller must switch back. If
// ctx ends before that step has begun, Reload does nothing and returns the context's
// cause.
func (g *Gateway) Reload(ctx context.Context, config state.Config, changes []string, switchOver func() error) error {
	next, err := g.readUnder(ctx, config)
	if err != nil {
		return err
	}
	return g.switchTo(ctx, next, changes, switchOver)
}

// switchTo has the deciding loop go on under the next definitions.
func (g *Gateway) switchTo(ctx context.Context, next nextState, changes []string, switchOver func() error) error {
	return g.between(ctx, func(ctx context.Context) error { return g.reloadSafely(ctx, next, changes, switchOver) })
}

// between has the deciding loop call f between two steps. If ctx ends before that, f is
// not called, and the error is the context's cause.
func (g *Gateway) between(ctx context.Context, f func(context.Context) error) error {
	result := make(chan error, 1)
	var begun atomic.Bool // or given up
	g.tellUntil(ctx, call(func() {
		if !begun.CompareAndSwap(false, true) {
			return
		}
		ctx, cancel := g.whileServing(ctx, reloadTimeout)
		defer cancel()
		result <- g.interrupter.Do(ctx, f)
	}))
	begins := ctx.Done()
	for {
		select {
		case err := <-result:
			return err
		case <-begins:
			if begun.CompareAndSwap(false, true) {
				return context.Cause(ctx)
			}
			begins = nil
		case <-g.done:
			return errEnded
		}
	}
}

// nextState is the state of the journal under the next definitions, up to a
// position.
type nextState struct {
	replayed
	config state.Config
	upTo   jetstream.Position
}

const (
	// A reload leaves at most shortTail decisions to read between two steps, unless
	// the gateway makes more than that during each of tailRounds readings.
	shortTail  = 1000
	tailRounds = 5
)

// readUnder reads the journal under other definitions, over its own connection,
// until ctx or the gateway ends.
func (g *Gateway) readUnder(ctx context.Context, config state.Config) (next nextState, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-g.ending:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	defer func() {
		if err != nil {
			err = cmp.Or(context.Cause(ctx), err)
		}
	}()
	journal, end, err := g.readJournal(ctx)
	if err != nil {
		return next, err
	}
	defer end()
	next.config = config
	if err = safely(func() (err error) { next.replayed, err = g.replay(ctx, journal, config, nil); return err }); err != nil {
		if mistake := mistakeIn(err); mistake != nil {
			g.logMistake("a reload", mistake)
		}
		return next, err
	}
	next.reached(journal)
	for range tailRounds {
		before := next.state.Last()
		if err := next.catchUp(ctx, g, journal); err != nil || next.state.Last()-before <= shortTail {
			return next, err
		}
	}
	return next, nil
}

// catchUp reads the journal after the position.
func (n *nextState) catchUp(ctx context.Context, g *Gateway, journal *jetstream.Journal) error {
	before := n.state.Last()
	if err := journal.ReplayBehind(ctx, n.upTo, applyTo(ctx, g.keys, n.state, nil)); err != nil {
		return err
	}
	n.read += n.state.Last() - before
	n.reached(journal)
	return nil
}

func (n *nextState) reached(journal *jetstream.Journal) {
	n.upTo = jetstream.Position{Sequence: journal.Last(), Decision: n.state.Last(), Head: n.state.Head()}
}

// reloadSafely is reload; after a panic the previous state is kept until it is read from
// the journal again.
func (g *Gateway) reloadSafely(ctx context.Context, next nextState, changes []string, switchOver func() error) error {
	old, before := g.state, g.config.State
	err := safely(func() error { return g.reload(ctx, next, changes, switchOver) })
	if mistake := mistakeIn(err); mistake != nil {
		g.logMistake("a reload", mistake)
		g.state, g.config.State = old, before
		g.failed = cmp.Or(g.failed, err)
	}
	return err
}

func (g *Gateway) reload(ctx context.Context, next nextState, changes []string, switchOver func() error) error {
	if err := next.catchUp(ctx, g, g.journal); err != nil {
		return err
	}
	old, before := g.state, g.config.State
	// What the journal does not have is not in force.
	goBack := func(err error) error {
		g.state, g.config.State = old, before
		g.prune()
		return errors.Join(err, g.connectKernels(old))
	}
	g.config.State = next.config
	err := g.subscribe()
	if err == nil {
		err = g.connectKernels(next.state)
	}
	if err == nil {
		err = switchOver()
	}
	if err != nil {
		return goBack(err)
	}
	g.state = next.state
	if _, err := g.recordNow(g.state.DecideReload(g.moment(), next.config.Version, changes)); err != nil {
		return goBack(err)
	}
	g.snappedUpTo.Store(next.state.Last() - next.read - 1) // it has the reload by now
	g.prune()
	g.log.Info("definitions loaded", "changes", len(changes))
	g.forgetSent()
	g.carryOn()
	return nil
}
