package fetch

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Meter is a [Ledger] in the memory of one process: it holds an agent to its limits as long as the process runs, and keeps
// no record. It is safe for concurrent use.
type Meter struct {
	limits guard.PoolLimits
	now    func() time.Time
	mu     sync.Mutex
	pool   *guard.Pool
	last   uint64
}

// NewMeter returns an empty meter. now is the clock, usually time.Now.
func NewMeter(limits guard.PoolLimits, now func() time.Time) *Meter {
	return &Meter{limits: limits, now: now, pool: guard.NewPool()}
}

// Reserve implements [Ledger].
func (m *Meter) Reserve(_ context.Context, h Hop) (func(sent, received int64), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	id := strconv.FormatUint(m.last, 10)
	now := m.now()
	hop := guard.PoolHop{ID: id, Host: h.Host, Bits: h.Price, Bytes: h.MaxBytes, Until: m.limits.Until(now)}
	if m.pool.Fit(now, m.limits, hop) != guard.Fits {
		return nil, guard.BudgetExhausted
	}
	m.pool.Reserve(now, hop)
	return func(sent, received int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		now := m.now()
		m.pool.Settle(now, id, sent+received, m.limits.Until(now))
	}, nil
}

// Refused implements [Ledger]: a meter keeps no record.
func (m *Meter) Refused(context.Context, string, guard.Code) {}

// Use returns the current use.
func (m *Meter) Use() guard.PoolUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pool.Use(m.now())
}
