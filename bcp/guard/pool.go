package guard

import (
	"cmp"
	"maps"
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

// Until returns the time, in Unix nanoseconds, up to which something counts that happens now: the window's length and at
// most a part of it more, so that a pool has no more than some 64 sums of each kind.
func (l PoolLimits) Until(now time.Time) int64 {
	span := max(0, int64(l.Window))
	width := max(1, span/poolParts)
	at := now.UnixNano()
	return at - at%width + width + span
}

// PoolHop is what is reserved for one request to a host.
type PoolHop struct {
	ID    string   `json:"id"` // no other open reservation has it
	Host  string   `json:"host"`
	Bits  NanoBits `json:"bits"`
	Bytes int64    `json:"bytes"` // at most, in both directions
	Until int64    `json:"until"` // of [PoolLimits.Until]
	Seq   uint64   `json:"seq"`   // of the record that reserves it, if there is one
}

// Pool counts what one agent sends out. Bits are taken when a hop is reserved and never come back, since the name of its
// host is looked up at once; of bytes the greatest number is reserved, and replaced by what went over the wire.
//
// It is a value of whoever decides: it has no clock, and knows no limits. What counts says itself up to when it does, so
// that other limits change nothing of what is counted. A time that goes back counts as the last one. The zero value is not
// valid; see [NewPool]. It is not safe for concurrent use.
type Pool struct {
	now   int64 // Unix nanoseconds
	bits  window
	bytes window
	hosts map[string]window
	open  map[string]PoolHop
}

// NewPool returns the pool of an agent that has sent nothing.
func NewPool() *Pool { return &Pool{hosts: map[string]window{}, open: map[string]PoolHop{}} }

// PoolUse is what counts at a time.
type PoolUse struct {
	Bits          NanoBits
	Bytes         int64 // settled
	ReservedBytes int64
	Hosts         map[string]int64 // bytes by host, settled and reserved
}

// Use returns what counts now.
func (p *Pool) Use(now time.Time) PoolUse {
	at := max(p.now, now.UnixNano())
	u := PoolUse{Bits: NanoBits(p.bits.sum(at)), Bytes: p.bytes.sum(at), Hosts: map[string]int64{}}
	for host, w := range p.hosts {
		if n := w.sum(at); n > 0 {
			u.Hosts[host] = n
		}
	}
	for _, r := range p.open {
		if r.Until > at {
			u.ReservedBytes = plus(u.ReservedBytes, r.Bytes)
			u.Hosts[r.Host] = plus(u.Hosts[r.Host], r.Bytes)
		}
	}
	return u
}

// Fit is what stops a hop; its zero value is that nothing does.
type Fit uint8

// What a hop may not fit into.
const (
	Fits      Fit = 0
	FitsNone  Fit = 1 // it is no hop, or there are too many reservations or hosts
	FitsBits  Fit = 2
	FitsBytes Fit = 3 // of all hosts
	FitsHost  Fit = 4 // bytes of its host
)

// Fit says whether limits have room for a hop now. It changes nothing.
func (p *Pool) Fit(now time.Time, l PoolLimits, h PoolHop) Fit {
	u := p.Use(now)
	_, taken := p.open[h.ID]
	_, known := u.Hosts[h.Host]
	open := 0
	for _, r := range p.open {
		if r.Until > max(p.now, now.UnixNano()) {
			open++
		}
	}
	switch {
	case h.ID == "", h.Host == "", taken, h.Bits < 0, h.Bytes <= 0, l.Window <= 0:
		return FitsNone
	case open >= cmp.Or(l.Reservations, defaultReservations), !known && len(u.Hosts) >= maxPoolHosts:
		return FitsNone
	case h.Bits > l.Budget-u.Bits:
		return FitsBits
	case h.Bytes > l.Bytes-u.Bytes-u.ReservedBytes:
		return FitsBytes
	// What is counted of a host that nobody knows any more may have been of this one.
	case h.Bytes > l.HostBytes-plus(u.Hosts[h.Host], u.Hosts[""]):
		return FitsHost
	}
	return Fits
}

// Reserve takes a hop, for which [Pool.Fit] has found room. A host whose name is not known any more is the empty one.
func (p *Pool) Reserve(now time.Time, h PoolHop) {
	p.advance(now)
	p.bits = p.bits.add(h.Until, int64(h.Bits))
	p.open[h.ID] = h
}

// Open returns an open reservation.
func (p *Pool) Open(now time.Time, id string) (PoolHop, bool) {
	h, ok := p.open[id]
	return h, ok && h.Until > max(p.now, now.UnixNano())
}

// Settle replaces the bytes of a reservation by those that went over the wire, which count up to a time, and reports
// whether there was one. A number that is greater than what was reserved counts in full, and less than none as none.
func (p *Pool) Settle(now time.Time, id string, bytes, until int64) bool {
	p.advance(now)
	h, ok := p.open[id]
	if !ok {
		return false
	}
	delete(p.open, id)
	if bytes > 0 {
		p.bytes = p.bytes.add(until, bytes)
		p.hosts[h.Host] = p.hosts[h.Host].add(until, bytes)
	}
	return true
}

// advance moves the time on, and forgets what does not count any more.
func (p *Pool) advance(now time.Time) {
	p.now = max(p.now, now.UnixNano())
	p.bits, p.bytes = p.bits.after(p.now), p.bytes.after(p.now)
	for host, w := range p.hosts {
		if w = w.after(p.now); len(w) == 0 {
			delete(p.hosts, host)
		} else {
			p.hosts[host] = w
		}
	}
	maps.DeleteFunc(p.open, func(_ string, h PoolHop) bool { return h.Until <= p.now })
}

// Valid reports whether a pool that was read from a checkpoint is one.
func (p *Pool) Valid() bool {
	if p == nil || p.hosts == nil || p.open == nil {
		return false
	}
	for _, w := range p.hosts {
		if !w.isValid() {
			return false
		}
	}
	for id, h := range p.open {
		if id == "" || h.ID != id || h.Bits < 0 || h.Bytes <= 0 {
			return false
		}
	}
	return p.bits.isValid() && p.bytes.isValid()
}

// window are sums by the time up to which they count, the earliest first. It is never changed in place.
type window []windowPart

type windowPart struct {
	Until int64 `json:"until"`
	Sum   int64 `json:"sum"`
}

// after returns what counts after a time.
func (w window) after(now int64) window {
	return w[w.find(now+1):]
}

// find returns the place of the first part that counts up to a time or a later one.
func (w window) find(until int64) int {
	i, _ := slices.BinarySearchFunc(w, until, func(p windowPart, until int64) int { return cmp.Compare(p.Until, until) })
	return i
}

func (w window) sum(now int64) (sum int64) {
	for _, p := range w.after(now) {
		sum = plus(sum, p.Sum)
	}
	return sum
}

func (w window) add(until, n int64) window {
	if n == 0 {
		return w
	}
	i := w.find(until)
	if i < len(w) && w[i].Until == until {
		w = slices.Clone(w)
		w[i].Sum = plus(w[i].Sum, n)
		return w
	}
	return slices.Insert(slices.Clone(w), i, windowPart{until, n})
}

func (w window) isValid() bool {
	for i, p := range w {
		if p.Sum <= 0 || i > 0 && w[i-1].Until >= p.Until {
			return false
		}
	}
	return true
}

// plus adds sizes of no less than none, up to the greatest there is.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
