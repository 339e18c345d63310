package gateway

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Reload switches to other definitions (PROTOCOL P1.5). They are compiled while the gateway
// decides as before. Then, between two steps, the state goes on under them, switchOver
// changes agents' permissions at the server, and the change is recorded. After an error the
// previous definitions remain in force here; if switchOver returned none, the caller must
// switch back. If ctx ends before that step has begun, Reload does nothing and returns the
// context's cause.
func (g *Gateway) Reload(ctx context.Context, config state.Config, changes []string, switchOver func() error) error {
	next, err := g.compile(config)
	if err != nil {
		return err
	}
	return g.between(ctx, func(context.Context) error { return g.reloadSafely(next, config, changes, switchOver) })
}

// compile makes a state of other definitions without history.
func (g *Gateway) compile(config state.Config) (next *state.State, err error) {
	err = safely(func() (err error) { next, err = state.New(config); return err })
	if mistake := mistakeIn(err); mistake != nil {
		g.logMistake("a reload", mistake)
	}
	return next, err
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

// reloadSafely is reload; after a panic the state is read from the journal again.
func (g *Gateway) reloadSafely(next *state.State, config state.Config, changes []string, switchOver func() error) error {
	before := g.config.State
	err := safely(func() error { return g.reload(next, config, changes, switchOver) })
	if mistake := mistakeIn(err); mistake != nil {
		g.logMistake("a reload", mistake)
		g.config.State = before
		g.failed = cmp.Or(g.failed, err)
	}
	return err
}

func (g *Gateway) reload(next *state.State, config state.Config, changes []string, switchOver func() error) error {
	before := g.config.State
	err := g.goOn(next, config)
	if err == nil {
		err = switchOver()
	}
	if err == nil {
		err = g.recordNow(g.state.DecideReload(g.moment(), config.Version, changes))
	}
	if err != nil { // what the journal does not have is not in force
		old, failed := g.compile(before)
		if failed == nil {
			failed = g.goOn(old, before)
		}
		g.prune()
		return errors.Join(err, failed)
	}
	g.prune()
	g.log.Info("definitions loaded", "changes", len(changes))
	g.forgetSent()
	g.carryOn()
	return nil
}

// goOn has the state go on under other definitions.
func (g *Gateway) goOn(next *state.State, config state.Config) error {
	moved, err := g.state.Under(next)
	if err != nil {
		return err
	}
	g.state, g.config.State = moved, config
	return cmp.Or(g.subscribe(), g.connectKernels(g.state))
}

// carryOn continues under other definitions with connected agents: Readers get
// their subscriptions again, and everybody gets what waits only now. Agents do
// not get again what they already have: a second answer would count as a refusal.
func (g *Gateway) carryOn() {
	g.guard("the runs", g.resumeRuns)
	for id := range g.dispatched {
		if _, _, _, open := g.state.Open(id); !open {
			delete(g.dispatched, id)
		}
	}
	for who, c := range g.agents {
		if who.Role != bcp.RoleReader {
			g.sendAllDeliveries(who.Agent)
			continue
		}
		c.handshake, c.acks = bcp.DeliveryID(string(rune(handshakeLetter))+g.moment().Fresh), acks{}
		g.sendSubscriptions(who, c.handshake, 0, g.clock())
		g.sendQueries(who.Agent, false)
	}
}
