package server

import (
	"sync"
	"time"
)

// What one agent may send in one role, over all its connections, before the
// server reads it more slowly: TCP then makes it wait, and nobody else. The
// largest rate that an agent reached that waits for every receipt is 4,000
// messages a second, on a mesh without fsync.
const (
	// fullRate is in bytes a second.
	fullRate = 16 << 20
	// slowRate is that of an agent that was found to flood: two hundred
	// messages a second, so that whoever has a copy of its creds cannot lock
	// it out.
	slowRate = 512 << 10
	// slowTime is how long an agent is slow after it was last found to flood.
	slowTime = 30 * time.Second
	// paceBurst is how much may come at once, at either rate.
	paceBurst = time.Second / 8
	// maxDebt bounds what connections owe together, so that none of an agent's
	// can keep the others waiting for long.
	maxDebt = time.Second
	// leastWait keeps a connection that waits from waking up all the time.
	leastWait = 5 * time.Millisecond
	// lineBytes is what a line costs at least, a record of TLS and a frame of
	// WebSocket: a ping of six bytes is more work than a hundred bytes of a
	// message. A message has two lines.
	lineBytes = 1 << 10
)

// pace says how long to wait before more is read. Its methods may be used
// concurrently.
type pace struct {
	mu   sync.Mutex
	paid time.Time // until when everything that was read is paid
	slow time.Time // until when the rate is the slow one
}

// charge charges for bytes that were read, and returns how long to wait until the
// next ones are read.
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
