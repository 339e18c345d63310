package guard

import (
	"math"
	"slices"
	"time"
)

// PoolLimits bound what an agent sends out over a sliding window. The zero value lets nothing out.
type PoolLimits struct {
	Budget       NanoBits
	Bytes        int64 // on the wire, in both directions
	HostBytes    int64 // of one host
	Window       time.Duration
	Reservations int // at one time; 0 means 64
}

const (
	defaultReservations = 64
	// maxPoolHosts bounds the hosts of a pool that have bytes in the window. Of one more nothing is reserved.
	maxPoolHosts = 1024
	poolParts    = 64
)

// Pool counts what one agent sends out. Bits are taken when a hop is reserved and never come back, since the name of its
// host is looked up at once; of bytes the greatest number is reserved, and replaced by what went over the wire.
//
// It is a value of whoever decides: it has no clock, and decides the same for the same calls. A time that goes back counts
// as the last one. The zero value lets nothing out. It is not safe for concurrent use.
type Pool struct {
	limits PoolLimits
	now    int64 // Unix nanoseconds

	bits  window
	bytes window
	hosts map[string]*window
	open  map[string]reservation
}

// reservation is a hop that was reserved and not settled.
type reservation struct {
	host  string
	bytes int64
	until int64 // the end of what it counts, unless it is settled before
}

// NewPool returns the pool of an agent that has sent nothing.
func NewPool(l PoolLimits) *Pool {
	if l.Reservations == 0 {
		l.Reservations = defaultReservations
	}
	span := max(0, int64(l.Window))
	return &Pool{limits: l, bits: window{span: span}, bytes: window{span: span}, hosts: map[string]*window{}, open: map[string]reservation{}}
}

// PoolUse is what counts at a time.
type PoolUse struct {
	Bits          NanoBits
	Bytes         int64 // settled
	ReservedBytes int64
	Hosts         map[string]int64 // bytes by host, settled and reserved
}

// Use returns what counts now.
func (p *Pool) Use(now time.Time) PoolUse {
	p.advance(now)
	u := PoolUse{Bits: NanoBits(p.bits.sum(p.now)), Bytes: p.bytes.sum(p.now), Hosts: map[string]int64{}}
	for host, w := range p.hosts {
		u.Hosts[host] = w.sum(p.now)
	}
	for _, r := range p.open {
		u.ReservedBytes += r.bytes
		u.Hosts[r.host] += r.bytes
	}
	return u
}

// Reserve takes the bits and the bytes of a hop, under a name that no open reservation has. The error is
// [BudgetExhausted], and then nothing is taken.
func (p *Pool) Reserve(now time.Time, id, host string, bits NanoBits, bytes int64) error {
	p.advance(now)
	u := p.Use(now)
	_, taken := p.open[id]
	_, known := u.Hosts[host]
	switch {
	case id == "", host == "", taken, bits < 0, bytes <= 0, p.limits.Window <= 0:
		return BudgetExhausted
	case len(p.open) >= p.limits.Reservations, !known && len(u.Hosts) >= maxPoolHosts:
		return BudgetExhausted
	case bits > p.limits.Budget-u.Bits:
		return BudgetExhausted
	case bytes > p.limits.Bytes-u.Bytes-u.ReservedBytes, bytes > p.limits.HostBytes-u.Hosts[host]:
		return BudgetExhausted
	}
	p.bits.add(p.now, int64(bits))
	p.open[id] = reservation{host, bytes, p.bytes.end(p.now)}
	return nil
}

// Settle replaces the bytes of a reservation by those that went over the wire, and reports whether there was one. A number
// that is greater than what was reserved counts in full, and less than none as none.
func (p *Pool) Settle(now time.Time, id string, bytes int64) bool {
	p.advance(now)
	r, ok := p.open[id]
	if !ok {
		return false
	}
	delete(p.open, id)
	if bytes <= 0 {
		return true
	}
	p.bytes.add(p.now, bytes)
	if p.hosts[r.host] == nil {
		p.hosts[r.host] = &window{span: p.bytes.span}
	}
	p.hosts[r.host].add(p.now, bytes)
	return true
}

// advance moves the time on, and forgets what does not count any more.
func (p *Pool) advance(now time.Time) {
	p.now = max(p.now, now.UnixNano())
	for host, w := range p.hosts {
		if w.sum(p.now) == 0 {
			delete(p.hosts, host)
		}
	}
	for id, r := range p.open {
		if r.until <= p.now {
			delete(p.open, id)
		}
	}
}

// window sums numbers over a span of time, in parts. A part is forgotten as a whole and never early, so that the sum is
// never low.
type window struct {
	span  int64
	parts []windowPart // oldest first
}

type windowPart struct{ begin, sum int64 }

func (w *window) width() int64 { return max(1, w.span/poolParts) }

// end returns when a number that is added now is forgotten.
func (w *window) end(now int64) int64 { return now - now%w.width() + w.width() + w.span }

func (w *window) sum(now int64) int64 {
	w.parts = slices.DeleteFunc(w.parts, func(p windowPart) bool { return p.begin+w.width()+w.span <= now })
	sum := int64(0)
	for _, p := range w.parts {
		sum = addUpTo(sum, p.sum)
	}
	return sum
}

func (w *window) add(now, n int64) {
	begin := now - now%w.width()
	if last := len(w.parts) - 1; last >= 0 && w.parts[last].begin == begin {
		w.parts[last].sum = addUpTo(w.parts[last].sum, n)
		return
	}
	w.parts = append(w.parts, windowPart{begin, n})
}

func addUpTo(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
