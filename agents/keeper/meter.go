package keeper

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// askAgain is how long a keeper refuses calls by itself after one that the budget did not
// cover, so that a cell cannot fill the journal.
const askAgain = 5 * time.Second

// Meter has each call of a model recorded before it is made, and settled with the
// provider's counts (PROTOCOL P15): without a record there is no call. It may be
// used concurrently.
//
// A call of unknown cost counts as reserved: an interrupted one, and one without counts
// from its provider.
type Meter struct {
	provider llm.Provider
	keeper   *agents.Keeper
	model    string

	mu    sync.Mutex
	spent time.Time // until then nothing is asked for
}

// NewMeter returns the meter for single calls of a model, with its name in definitions.
func NewMeter(k *agents.Keeper, model string, p llm.Provider) *Meter {
	return &Meter{provider: p, keeper: k, model: model}
}

// Do implements [llm.Provider]. Without a record the error is [llm.Budget],
// [llm.Unrecorded] or of ctx, and no call was made.
func (m *Meter) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if m.resting() {
		return nil, llm.Budget{}
	}
	id, err := m.reserve(ctx, r)
	if err != nil {
		return nil, err
	}
	reply, err := m.provider.Do(ctx, r)
	u, known := llm.Cost(err)
	if err == nil {
		u, known = reply.Usage, reply.Usage != llm.Usage{}
	}
	if known {
		m.settle(ctx, id, bcp.Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output})
	}
	return reply, err
}

func (m *Meter) reserve(ctx context.Context, r *llm.Request) (id string, err error) {
	request, err := r.MarshalJSON()
	if err != nil || r.MaxTokens <= 0 {
		return "", llm.Unrecorded{}
	}
	id = rand.Text()
	err = m.keeper.Usage(ctx, bcp.UsageRequest{Act: bcp.UsageReserve, ID: id, Model: m.model, RequestBytes: int64(len(request)), MaxTokens: int64(r.MaxTokens)})
	if err == nil {
		return id, nil
	}
	if refused, ok := errors.AsType[*agents.RefusedError](err); ok && refused.Code == bcp.BudgetExhausted {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.spent = time.Now().Add(askAgain)
		return "", llm.Budget{}
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", llm.Unrecorded{}
}

func (m *Meter) resting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.spent)
}

func (m *Meter) settle(ctx context.Context, id string, counted bcp.Tokens) {
	for _, n := range []*int64{&counted.Input, &counted.CacheRead, &counted.CacheWrite, &counted.Output} {
		*n = min(max(0, *n), bcp.MaxCallTokens)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_ = m.keeper.Usage(ctx, bcp.UsageRequest{Act: bcp.UsageSettle, ID: id, Tokens: counted}) // or it counts as reserved
}
