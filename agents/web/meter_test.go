package web

import (
	"sync"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// The least that a definition may allow is enough for one hop.
func TestLeastBudgetIsEnough(t *testing.T) {
	t.Parallel()
	m := fetch.NewMeter(guard.PoolLimits{Budget: 89 * 1e9, Bytes: definition.MinEgressBytes, HostBytes: definition.MinEgressBytes, Window: time.Minute}, time.Now)
	if _, err := m.Reserve(t.Context(), fetch.Hop{Host: "good.test", Price: 89 * 1e9, MaxBytes: fetch.MaxExchange}); err != nil {
		t.Error(err)
	}
}

// However many fetch at once, no more leaves than the budget, and the meter knows exactly how much.
func TestMeterIsExact(t *testing.T) {
	t.Parallel()
	const price, hops = 89 * 1e9, 10
	m := fetch.NewMeter(guard.PoolLimits{Budget: hops * price, Bytes: 1 << 30, HostBytes: 1 << 30, Window: time.Hour}, time.Now)
	var wg sync.WaitGroup
	var mu sync.Mutex
	fetched := 0
	for range 32 {
		wg.Go(func() {
			world := &fetch.Scripted{Routes: map[string]fetch.Route{"https://good.test/": htmlRoute("x")}}
			tool, err := New(fetch.Options{
				Ledger: m, Resolver: world, Transport: world,
				Policy: fetch.Policy([]string{"good.test"}, func(string) (string, bool) { return "", false }),
			})
			if err != nil {
				t.Error(err)
				return
			}
			r := call(t, tool, `{"url":"https://good.test/"}`)
			mu.Lock()
			defer mu.Unlock()
			if r.Error == "" {
				fetched++
			} else if r.Error != guard.BudgetExhausted || world.Contacted != nil {
				t.Errorf("%+v, contacted %q", r, world.Contacted)
			}
		})
	}
	wg.Wait()
	if u := m.Use(); fetched != hops || u.Bits != hops*price || u.ReservedBytes != 0 || u.Bytes == 0 || u.Hosts["good.test"] != u.Bytes {
		t.Errorf("%d pages, %+v", fetched, u)
	}
}
