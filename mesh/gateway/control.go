package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// controls are the acts of the operator.
type controls struct{ plain }

func (controls) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	switch act := o.message.subject.Event; {
	case act == bcp.ControlErase:
		return g.decideErase(now, o)
	case act == bcp.ControlStopRun:
		return g.decideStop(o), true
	case act == bcp.ControlRevocations:
		return g.decideRevocations(now, o.message)
	case bcp.ControlAside(act):
		return bcp.Decision{}, false
	default:
		return g.state.DecideControl(now, act, o.message.body), true
	}
}

// release answers an act that is recorded as an alert.
func (controls) release(g *Gateway, o *outcome) { g.answer(o.message, sessionReceipt{}) }

// answer answers acts that do not involve the state.
func (controls) answer(g *Gateway, o *outcome) {
	m := o.message
	switch act := m.subject.Event; {
	case act == bcp.ControlSessions:
		g.answer(m, map[string]any{"sessions": g.state.Sessions(g.clock())})
	case act == bcp.ControlProposals:
		g.answer(m, map[string]any{"proposals": g.state.Approved()})
	case act == bcp.ControlForecast:
		g.answer(m, map[string]any{"forecasts": g.state.Forecasts(g.clock())})
	case act == bcp.ControlReconcile:
		last, pools := g.state.Last(), g.state.Pools()
		g.slowly(m, func(ctx context.Context, _ []byte) (any, error) { return g.recount(ctx, last, pools) })
	case act == bcp.ControlErase:
		g.answer(m, status.Erased{Reasons: o.reasons})
	case act == bcp.ControlKey:
		g.giveKey(m)
	case g.config.Acts[act] == nil:
		g.answer(m, bcp.RefusalOf(bcp.Unavailable))
	case act == bcp.ControlTruncate:
		g.slowly(m, g.config.Acts[act])
	default:
		g.background(act, reloadTimeout, func(ctx context.Context) (any, error) { return g.config.Acts[act](ctx, m.body) }, g.answerer(m))
	}
}

// slowly answers a message by what may take longer than a client waits for an answer: whoever
// asks for the same meanwhile, as a client does that asks again, gets the same answer.
func (g *Gateway) slowly(m *message, f Act) {
	act := m.subject.Event
	g.background(act, reconcileTimeout, func(ctx context.Context) (any, error) {
		answer, err, _ := g.asked.Do(act+" "+string(m.body), func() (any, error) { return f(ctx, m.body) })
		return answer, err
	}, g.answerer(m))
}

// background calls f, which must not use the state, until the gateway is about to end, and
// has its goroutine call then with the answer. After an error that is a refusal.
func (g *Gateway) background(doing string, limit time.Duration, f func(context.Context) (any, error), then func(answer any)) {
	g.calls.Go(func() {
		ctx, cancel := g.whileServing(context.Background(), limit)
		defer cancel()
		answer, err := f(ctx)
		if err != nil {
			g.log.Error(doing, "error", err)
			answer = bcp.RefusalOf(bcp.Unavailable)
		}
		g.tell(call(func() { then(answer) }))
	})
}

// answerer answers a message later.
func (g *Gateway) answerer(m *message) func(any) { return func(answer any) { g.answer(m, answer) } }

// giveKey gives the operator a sealing key, which is in the state folder anyway:
// so its owner can also open content while the mesh runs.
func (g *Gateway) giveKey(m *message) {
	c, ok := bcp.ParseControl(m.body)
	if !ok || c.Key == "" || c.Agent != "" || c.Taint != nil || c.Erase != nil {
		g.answer(m, bcp.RefusalOf(bcp.Malformed))
		return
	}
	g.background("giving out a sealing key", recordTimeout, func(ctx context.Context) (any, error) {
		given, err := g.keys.Give(ctx, c.Key)
		if errors.Is(err, subjects.ErrSubject) {
			return bcp.RefusalOf(bcp.Malformed), nil
		}
		return given, err
	}, g.answerer(m))
}

// recount adds up the journal so far again.
func (g *Gateway) recount(ctx context.Context, last uint64, pools []bcp.PoolBalance) (status.Reconciliation, error) {
	js, end, err := g.ownStreams()
	if err != nil {
		return status.Reconciliation{}, err
	}
	defer end()
	return jetstream.Reconcile(ctx, js, g.config.Bases, last, pools)
}

// whileServing returns a context for work that must not delay the gateway's end: it
// ends after a time, and as soon as the gateway is about to stop.
func (g *Gateway) whileServing(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	g.calls.Go(func() {
		select {
		case <-g.ending:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}
