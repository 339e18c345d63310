package server

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// maxTurns connections may authenticate at a time. Accepting one costs CPU
	// time: if all were accepted at once, each would take as long as all
	// together, which is longer than clients wait.
	maxTurns = 64
	// turnTime is how long one keeps others from their turn at most. It may take
	// longer, without a turn: until authTime.
	turnTime = time.Second
	// maxWaiting is the length of the queue. Beyond it the oldest connection of the
	// host with the most is closed.
	maxWaiting = 1024
	// waitTime is how long one waits. Standard clients give up two seconds after
	// they were accepted: later work for them is wasted.
	waitTime = time.Second
)

// turns schedules connections: hosts take turns, and for one host it is first
// come, first served. The zero value accepts nobody until it is opened. Its
// methods may be used concurrently.
type turns struct {
	mu          sync.Mutex
	opened      bool
	closed      bool // for good
	taken       int
	hostLimiter hostLimiter
	lines       []*line // hosts with waiting connections; the next turn is the first's
	length      int     // of all lines
}

// line is who waits of one host, in order.
type line struct {
	host    string
	waiting []chan bool // each with room for one
}

// takeTurn waits for a turn, which ends when end is called, or after turnTime. It
// returns false if there is none in time, or for that host.
func (t *turns) takeTurn(host string) (end func(), ok bool) {
	turn := t.join(host)
	select {
	case ok = <-turn:
	case <-time.After(waitTime):
		ok = t.giveUp(host, turn)
	}
	if !ok {
		return nil, false
	}
	end = sync.OnceFunc(t.end)
	time.AfterFunc(turnTime, end)
	return end, true
}

// join queues a connection.
func (t *turns) join(host string) (turn chan bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn = make(chan bool, 1)
	if t.closed {
		turn <- false
		return turn
	}
	i := t.findLine(host)
	if i < 0 {
		i, t.lines = len(t.lines), append(t.lines, &line{host: host})
	}
	t.lines[i].waiting = append(t.lines[i].waiting, turn)
	if t.length++; t.length > maxWaiting {
		longest := 0
		for i, l := range t.lines {
			if len(l.waiting) > len(t.lines[longest].waiting) {
				longest = i
			}
		}
		t.remove(longest, 0) <- false
	}
	t.next()
	return turn
}

// giveUp ends a wait that was too long. It returns true if the turn came after all.
func (t *turns) giveUp(host string, turn chan bool) (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.findLine(host); i >= 0 {
		if j := slices.Index(t.lines[i].waiting, turn); j >= 0 {
			t.remove(i, j)
			return false
		}
	}
	return <-turn
}

// next gives turns to the next connections.
func (t *turns) next() {
	for t.opened && t.taken < maxTurns && len(t.lines) > 0 {
		host := t.lines[0].host
		turn := t.remove(0, 0)
		if i := t.findLine(host); i == 0 { // the others of its host queue after other hosts
			t.lines = append(t.lines[1:], t.lines[0])
		}
		ok := t.hostLimiter.admit(host, time.Now())
		if ok {
			t.taken++
		}
		turn <- ok
	}
}

// remove takes one out of a line.
func (t *turns) remove(i, j int) (turn chan bool) {
	l := t.lines[i]
	turn = l.waiting[j]
	l.waiting = slices.Delete(l.waiting, j, j+1)
	if t.length--; len(l.waiting) == 0 {
		t.lines = slices.Delete(t.lines, i, i+1)
	}
	return turn
}

func (t *turns) findLine(host string) int {
	return slices.IndexFunc(t.lines, func(l *line) bool { return l.host == host })
}

func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	t.next()
}

// open starts giving turns.
func (t *turns) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = !t.closed
	t.next()
}

// close refuses waiting and new connections.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened, t.closed = false, true
	for len(t.lines) > 0 {
		t.remove(0, 0) <- false
	}
}

// waiting is how many wait.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.length
}

// hostLimiter keeps hosts from coming in too often. It holds for each until when its
// connections are paid. Beyond maxHosts all others share what one may. It may be used
// concurrently.
type hostLimiter struct {
	mu    sync.Mutex
	paid  map[string]time.Time
	swept time.Time // when those who owe nothing were forgotten
}

// others are the hosts beyond maxHosts; no host has this name.
const others = ""

func (d *hostLimiter) admit(host string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paid == nil {
		d.paid = map[string]time.Time{}
	}
	if _, known := d.paid[host]; !known && len(d.paid) >= maxHosts {
		if now.Sub(d.swept) >= acceptTime {
			d.swept = now
			maps.DeleteFunc(d.paid, func(_ string, paid time.Time) bool { return !paid.After(now) })
		}
		if len(d.paid) >= maxHosts {
			host = others
		}
	}
	paid := d.paid[host]
	if paid.Before(now) {
		paid = now
	}
	if paid = paid.Add(acceptTime); paid.Sub(now) > acceptBurst*acceptTime {
		return false
	}
	d.paid[host] = paid
	return true
}

// repay refunds a host the cost of one of its connections.
func (d *hostLimiter) repay(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if paid, ok := d.paid[host]; ok {
		d.paid[host] = paid.Add(-acceptTime)
	}
}

// hostOf returns what counts as one host: an address or, of IPv6, all that a customer is
// given, a /64.
func hostOf(address netip.Addr) string {
	if address = address.Unmap().WithZone(""); address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return network.String()
		}
	}
	return address.String()
}
