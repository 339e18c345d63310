package web

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
	now  func() time.Time
	mu   sync.Mutex
	pool *guard.Pool
	last uint64
}

// NewMeter returns a meter that has counted nothing. now is the clock, time.Now for most.
func NewMeter(limits guard.PoolLimits, now func() time.Time) *Meter {
	return &Meter{now: now, pool: guard.NewPool(limits)}
}

// Reserve implements [Ledger].
func (m *Meter) Reserve(_ context.Context, h Hop) (func(sent, received int64), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	id := strconv.FormatUint(m.last, 10)
	if err := m.pool.Reserve(m.now(), id, h.Host, h.Price, h.MaxBytes); err != nil {
		return nil, err
	}
	return func(sent, received int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.pool.Settle(m.now(), id, sent+received)
	}, nil
}

// Use returns what counts now.
func (m *Meter) Use() guard.PoolUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pool.Use(m.now())
}
