// Package keeper runs an agent with its model, and holds what its cell is not given: creds,
// keys and the network. [Run] puts it together. A Ledger has the gateway record each request
// of web_fetch before it is sent, and what was refused, and a Meter each call of the model;
// without a record nothing is sent. A Planner plans for kernels with a model whose one tool takes
// the plan. It decides nothing itself.
package keeper

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// settleTimeout is the timeout for a settlement. Without one the reservation remains.
const settleTimeout = 10 * time.Second

// maxRefusedURL bounds how much of a refused URL is recorded, in bytes.
const maxRefusedURL = 4 << 10

// Ledger is a [fetch.Ledger] in the mesh's journal. It may be used concurrently.
type Ledger struct{ keeper *agents.Keeper }

// NewLedger returns the ledger of an agent's keeper.
func NewLedger(k *agents.Keeper) *Ledger { return &Ledger{k} }

// Reserve implements [fetch.Ledger]. If the mesh does not answer before ctx ends, the error is
// [guard.Unrecorded].
func (l *Ledger) Reserve(ctx context.Context, h fetch.Hop) (func(sent, received int64), error) {
	r := bcp.EgressRequest{Act: bcp.EgressReserve, ID: rand.Text(), URL: h.URL, By: bcp.EgressBy(h.By), Bytes: h.MaxBytes}
	if h.By == fetch.ByLink {
		r.NanoBits = int64(h.Price)
	}
	if err := l.keeper.Egress(ctx, r); err != nil {
		if code, ok := err.(guard.Code); ok {
			return nil, code
		}
		return nil, guard.Unrecorded
	}
	return func(sent, received int64) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		_ = l.keeper.Egress(ctx, bcp.EgressRequest{Act: bcp.EgressSettle, ID: r.ID, Bytes: sent + received}) // or it counts as reserved
	}, nil
}

// Refused implements [fetch.Ledger].
func (l *Ledger) Refused(ctx context.Context, url string, code guard.Code) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	url = strings.ToValidUTF8(url[:min(len(url), maxRefusedURL)], "")
	_ = l.keeper.Egress(ctx, bcp.EgressRequest{Act: bcp.EgressRefuse, URL: url, Code: code}) // nothing was sent
}
