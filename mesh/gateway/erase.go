package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// eraseTimeout bounds one erasure.
const eraseTimeout = 10 * time.Minute

// decideErase judges the operator's act: what the mesh needs is not erased. It returns
// false if there is nothing to record, and the outcome's reasons say why.
func (g *Gateway) decideErase(m bcp.Moment, o *outcome) (d bcp.Decision, recorded bool) {
	c, ok := bcp.ParseControl(o.message.body)
	if !ok || c.Erase == nil || c.Agent != "" || c.Taint != nil || c.Key != "" {
		return bcp.Decision{Code: bcp.Malformed}, false
	}
	if d, o.reasons = g.state.DecideErase(m, *c.Erase); len(o.reasons) > 0 {
		return bcp.Decision{}, false
	}
	return d, true
}

// erasures are the operator's acts that destroy keys.
type erasures struct{}

// release carries out a recorded erasure of the batch.
func (erasures) release(g *Gateway, o *outcome) {
	m, d, config := o.message, o.decision, g.config.State
	g.background("erasing", eraseTimeout, func(ctx context.Context) (any, error) {
		result, err := g.destroy(ctx, &d, config)
		if err != nil {
			g.log.Error("erasing", "error", err)
			result.Failed = err.Error()
		} else {
			g.log.Info("erased", "controller", d.Controller, "reader", d.Reader, "before", time.Unix(0, d.Before).UTC().Format(time.DateOnly),
				"keys", result.Keys, "raw_keys", result.RawKeys)
		}
		return result, nil
	}, g.answerer(m))
}

// destroy carries out a recorded erasure. It continues an interrupted one.
func (g *Gateway) destroy(ctx context.Context, d *bcp.Decision, config state.Config) (e status.Erased, err error) {
	channel, before := bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}, time.Unix(0, d.Before)
	e.Decision = d.Seq
	if e.Keys, err = g.keys.Destroy(ctx, channel, subjects.SealedPayload, before); err != nil {
		return e, err
	}
	if d.Event == bcp.EraseAll {
		if e.RawKeys, err = g.keys.Destroy(ctx, channel, subjects.SealedRaw, before); err != nil {
			return e, err
		}
	}
	if e.Keys+e.RawKeys == 0 {
		some, err := g.keys.Any(ctx, channel)
		if err != nil {
			return e, err
		}
		e.NoKeys = !some
	}
	if g.config.Snapshots != nil {
		// Made after the erasure, it has nothing of those days; earlier ones may.
		g.snapshotting.Lock()
		defer g.snapshotting.Unlock()
		err = errors.Join(g.makeSnapshot(ctx, config), g.config.Snapshots.RemoveBefore(d.Seq))
	}
	return e, err
}
