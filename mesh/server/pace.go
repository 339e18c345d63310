package server

import (
	"sync"
	"time"
)

// What one agent may send in one role, over all its connections, before the
// server reads it more slowly: then TCP makes only that agent wait. The highest
// rate measured for an agent that waits for every receipt is 4,000 messages a
// second, on a mesh without fsync.
const (
	// fullRate is in bytes a second.
	fullRate = 16 << 20
	// slowRate is the rate for an agent that floods: two hundred messages a
	// second, so that whoever has a copy of its creds cannot lock it out.
	slowRate = 512 << 10
	// slowTime is how long an agent is slow after it was last found to flood.
	slowTime = 30 * time.Second
	// paceBurst is how much may come at once, at either rate.
	paceBurst = time.Second / 8
	// maxDebt bounds the debt of all connections together, so that one of an
	// agent's cannot keep the others waiting for long.
	maxDebt = time.Second
	// leastWait keeps a waiting connection from waking up too often.
	leastWait = 5 * time.Millisecond
	// lineBytes is the minimum cost of a line and of a TLS record: a ping of six
	// bytes is more work than a hundred bytes of a message. A message has two lines.
	lineBytes = 1 << 10
)

// pace says how long to wait before more is read. Its methods may be used
// concurrently.
type pace struct {
	mu   sync.Mutex
	paid time.Time // until when everything read is paid for
	slow time.Time // until when the rate is the slow one
}

// charge charges for bytes that were read, and returns how long to wait before
// the next read.
func (p *pace) charge(cost int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	rate := time.Duration(fullRate)
	if now.Before(p.slow) {
		rate = slowRate
	}
	if p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(cost) * time.Second / rate)
	if most := now.Add(paceBurst + maxDebt); p.paid.After(most) {
		p.paid = most
	}
	if wait := p.paid.Sub(now) - paceBurst; wait > 0 {
		return max(wait, leastWait)
	}
	return 0
}

func (p *pace) slowUntil(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = t
}
