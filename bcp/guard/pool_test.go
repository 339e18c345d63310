package guard

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

var poolBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// counted is a pool with limits, as those who decide use it.
type counted struct {
	*Pool
	limits PoolLimits
}

func countedBy(l PoolLimits) counted { return counted{NewPool(), l} }

func (c counted) Reserve(now time.Time, id, host string, bits NanoBits, bytes int64) error {
	h := PoolHop{ID: id, Host: host, Bits: bits, Bytes: bytes, Until: c.limits.Until(now)}
	if c.Fit(now, c.limits, h) != Fits {
		return BudgetExhausted
	}
	c.Pool.Reserve(now, h)
	return nil
}

func (c counted) Settle(now time.Time, id string, bytes int64) bool {
	return c.Pool.Settle(now, id, bytes, c.limits.Until(now))
}

// What is reserved, or was settled, adds up to no more than there are numbers, and never to less than it is.
func TestPoolSumsEnd(t *testing.T) {
	t.Parallel()
	p := NewPool()
	for _, id := range []string{"1", "2"} {
		p.Reserve(poolBegin, PoolHop{ID: id, Host: "a", Bytes: math.MaxInt64, Until: poolBegin.Add(time.Hour).UnixNano()})
	}
	u := p.Use(poolBegin)
	failIf(t, u.ReservedBytes != math.MaxInt64 || u.Hosts["a"] != math.MaxInt64, "reserved: %+v", u)
	for _, id := range []string{"1", "2"} {
		p.Settle(poolBegin, id, math.MaxInt64, poolBegin.Add(time.Hour).UnixNano())
	}
	u = p.Use(poolBegin)
	failIf(t, u.Bytes != math.MaxInt64 || u.Hosts["a"] != math.MaxInt64, "settled: %+v", u)
}

// Each limit lets through what is exactly as much, and nothing beyond.
func TestPoolLimits(t *testing.T) {
	t.Parallel()
	limits := PoolLimits{Budget: 100, Bytes: 1000, HostBytes: 600, Window: time.Hour, Reservations: 3}
	for name, c := range map[string]struct {
		before func(p counted)
		host   string
		bits   NanoBits
		bytes  int64
		ok     bool
	}{
		"all bits":                 {nil, "a", 100, 1, true},
		"one more":                 {nil, "a", 101, 1, false},
		"all bytes of a host":      {nil, "a", 0, 600, true},
		"one byte more":            {nil, "a", 0, 601, false},
		"all bytes":                {func(p counted) { _ = p.Reserve(poolBegin, "1", "a", 0, 600) }, "b", 0, 400, true},
		"one more of all":          {func(p counted) { _ = p.Reserve(poolBegin, "1", "a", 0, 600) }, "b", 0, 401, false},
		"settled gives bytes back": {func(p counted) { _ = p.Reserve(poolBegin, "1", "a", 0, 600); p.Settle(poolBegin, "1", 1) }, "a", 0, 599, true},
		"settled counts":           {func(p counted) { _ = p.Reserve(poolBegin, "1", "a", 0, 600); p.Settle(poolBegin, "1", 1) }, "a", 0, 600, false},
		"more than was reserved":   {func(p counted) { _ = p.Reserve(poolBegin, "1", "a", 0, 1); p.Settle(poolBegin, "1", 600) }, "a", 0, 1, false},
		"bits do not come back":    {func(p counted) { _ = p.Reserve(poolBegin, "1", "a", 100, 1); p.Settle(poolBegin, "1", 0) }, "a", 1, 1, false},
		"free":                     {func(p counted) { _ = p.Reserve(poolBegin, "1", "a", 100, 1); p.Settle(poolBegin, "1", 0) }, "a", 0, 1, true},
		"negative bits":            {nil, "a", -1, 1, false},
		"no bytes":                 {nil, "a", 1, 0, false},
		"no host":                  {nil, "", 1, 1, false},
		"a name again":             {func(p counted) { _ = p.Reserve(poolBegin, "x", "a", 0, 1) }, "a", 0, 1, false},
		"a name that is settled":   {func(p counted) { _ = p.Reserve(poolBegin, "x", "a", 0, 1); p.Settle(poolBegin, "x", 1) }, "a", 0, 1, true},
		"third reservation":        {func(p counted) { reserveSome(p, 2) }, "a", 0, 1, true},
		"fourth reservation":       {func(p counted) { reserveSome(p, 3) }, "a", 0, 1, false},
	} {
		p := countedBy(limits)
		if c.before != nil {
			c.before(p)
		}
		was := fmt.Sprint(p.Use(poolBegin))
		err := p.Reserve(poolBegin, "x", c.host, c.bits, c.bytes)
		failIf(t, (err == nil) != c.ok || err != nil && !errors.Is(err, BudgetExhausted), "%s: %v", name, err)
		failIf(t, err != nil && fmt.Sprint(p.Use(poolBegin)) != was,
			"%s: refused, and taken: %v, was %v", name, p.Use(poolBegin), was)
	}
	failIf(t, countedBy(PoolLimits{}).Reserve(poolBegin, "x", "a", 0, 1) == nil, "the zero value lets something out")
	failIf(t, countedBy(limits).Settle(poolBegin, "x", 1), "what was not reserved is settled")
}

func reserveSome(p counted, n int) {
	for i := range n {
		_ = p.Reserve(poolBegin, fmt.Sprint(i), "b", 0, 1)
	}
}

// A window forgets nothing early, and everything in the end; also a reservation that nobody settled.
func TestPoolWindow(t *testing.T) {
	t.Parallel()
	p := countedBy(PoolLimits{Budget: 10, Bytes: 10, HostBytes: 10, Window: time.Hour})
	noError(t, p.Reserve(poolBegin, "1", "a", 10, 10))
	for after, want := range map[time.Duration]bool{time.Hour - 1: false, time.Hour: false, time.Hour + time.Hour/64: true} {
		q := countedBy(PoolLimits{Budget: 10, Bytes: 10, HostBytes: 10, Window: time.Hour})
		_ = q.Reserve(poolBegin, "1", "a", 10, 10)
		err := q.Reserve(poolBegin.Add(after), "2", "a", 1, 1)
		failIf(t, (err == nil) != want, "after %s: %v", after, err)
	}
	// A clock that goes back forgets nothing, and counts nothing twice.
	p.Settle(poolBegin.Add(-time.Hour), "1", 10)
	u := p.Use(poolBegin.Add(-2 * time.Hour))
	failIf(t, u.Bits != 10 || u.Bytes != 10, "%+v", u)
}

// Bytes of a host whose name is not known any more count for every host.
func TestPoolForgottenHost(t *testing.T) {
	t.Parallel()
	p := countedBy(PoolLimits{Budget: 1, Bytes: 1000, HostBytes: 100, Window: time.Hour})
	p.Pool.Reserve(poolBegin, PoolHop{ID: "1", Bytes: 60, Until: p.limits.Until(poolBegin)})
	for host, bytes := range map[string]int64{"a": 40, "b": 40} {
		failIf(t, p.Reserve(poolBegin, host, host, 0, bytes+1) == nil, "%s: one byte more", host)
		expect(t, p.Reserve(poolBegin, host, host, 0, bytes), nil, "%s", host)
	}
}

// What is no pool is known.
func TestPoolValid(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Pool){
		"": func(*Pool) {}, "no bits": func(p *Pool) { p.bits[0].Sum = 0 }, "bits below none": func(p *Pool) { p.hosts["a"][0].Sum = -1 },
		"no id": func(p *Pool) { p.open[""] = PoolHop{Bytes: 1} }, "another id": func(p *Pool) { p.open["y"] = PoolHop{ID: "x", Bytes: 1} },
		"a negative price": func(p *Pool) { p.open["x"] = PoolHop{ID: "x", Bits: -1, Bytes: 1} }, "no bytes": func(p *Pool) { p.open["x"] = PoolHop{ID: "x"} },
		"twice": func(p *Pool) { p.bits = append(p.bits, p.bits[0]) }, "no hosts": func(p *Pool) { p.hosts = nil }, "no list": func(p *Pool) { p.open = nil },
	} {
		p := &Pool{now: 1, bits: window{{5, 1}}, hosts: map[string]window{"a": {{5, 1}}}, open: map[string]PoolHop{"x": {ID: "x", Host: "a", Bytes: 1, Until: 9}}}
		spoil(p)
		failIf(t, p.Valid() != (name == ""), "%s: it is taken for a pool: %t", name, p.Valid())
	}
	failIf(t, (*Pool)(nil).Valid(), "none is one")
}

// A pool keeps no more hosts than it may, whatever an attacker's wildcard offers.
func TestPoolHosts(t *testing.T) {
	t.Parallel()
	p := countedBy(PoolLimits{Budget: 1, Bytes: 1 << 40, HostBytes: 1 << 40, Window: time.Hour})
	for i := range maxPoolHosts {
		noError(t, p.Reserve(poolBegin, "x", fmt.Sprint(i), 0, 1))
		p.Settle(poolBegin, "x", 1)
	}
	failIf(t, p.Reserve(poolBegin, "x", "new", 0, 1) == nil || p.Reserve(poolBegin, "x", "0", 0, 1) != nil,
		"hosts are not bounded, or known ones are refused")
}

// Whatever is asked, in any order and at any time: in no window more leaves than the limits say.
func TestPoolNeverLetsMoreOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := PoolLimits{Budget: 1000, Bytes: 500, HostBytes: 300, Window: time.Duration(rapid.IntRange(1, 200).Draw(t, "window")) * time.Second}
		p := countedBy(limits)
		type event struct {
			reserved, at int64 // bits count from the first, bytes from the second
			host         string
			bits         NanoBits
			most         int64
			sent         int64
		}
		var events []event
		open := map[string]int{}
		now := poolBegin
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "wait")) * time.Second)
			if rapid.Bool().Draw(t, "settle") && len(open) > 0 {
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(open))).Draw(t, "id")
				e := &events[open[id]]
				e.sent = rapid.Int64Range(0, e.most).Draw(t, "sent")
				e.at = now.UnixNano() // bytes count from here on
				settled := p.Settle(now, id, e.sent)
				if !settled {
					e.sent = 0 // the window was over
				}
				delete(open, id)
				continue
			}
			e := event{now.UnixNano(), now.UnixNano(), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host"), NanoBits(rapid.IntRange(0, 600).Draw(t, "bits")), rapid.Int64Range(1, 400).Draw(t, "bytes"), 0}
			e.sent = e.most
			if id := fmt.Sprint(i); p.Reserve(now, id, e.host, e.bits, e.most) == nil {
				open[id] = len(events)
				events = append(events, e)
			}
			stopIf(t, !p.Valid(), "%+v is no pool", p.Pool)
			bits, bytes, hosts := NanoBits(0), int64(0), map[string]int64{}
			for _, e := range events {
				if e.reserved > now.Add(-limits.Window).UnixNano() {
					bits += e.bits
				}
				if e.at > now.Add(-limits.Window).UnixNano() {
					bytes += e.sent
					hosts[e.host] += e.sent
				}
			}
			if bits > limits.Budget || bytes > limits.Bytes || hosts["a"] > limits.HostBytes || hosts["b"] > limits.HostBytes {
				t.Fatalf("%d bits, %d bytes, %v", bits, bytes, hosts)
			}
		}
	})
}

var noError, failIf, fails, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.Fails, bcptest.StopIf

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
