package server

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxTurns connections are let in at a time: until their creds are shown. To
	// let one in is work for the processor. Where all that come at once are begun
	// at once, each takes as long as all, which is longer than clients wait.
	maxTurns = 64
	// turnTime is how long one keeps others from their turn at most. It may take
	// longer, without a turn: until authTime.
	turnTime = time.Second
	// maxWaiting is how many wait for their turn. Beyond it the one that has waited
	// longest of the host with the most is closed.
	maxWaiting = 1024
	// waitTime is how long one waits. Stock clients give up after two seconds from
	// when they were accepted: what is done for one later is done for nobody.
	waitTime = time.Second
)

// turns says who is let in when: hosts take turns, and of one host who came first.
// The zero value lets nobody in until it is opened. Its methods may be used
// concurrently.
type turns struct {
	mu     sync.Mutex
	opened bool
	closed bool // for good
	taken  int
	doors  doors
	lines  []*line // those where somebody waits; the next turn is the first's
	length int     // of all lines
}

// line is who waits of one host, in order.
type line struct {
	host    string
	waiting []chan bool // each with room for one
}

// takeTurn waits for a turn, which ends when end is called, or after turnTime. It is
// false where there is none in time, or for that host.
func (t *turns) takeTurn(host string) (end func(), ok bool) {
	turn := t.join(host)
	timer := time.NewTimer(waitTime)
	defer timer.Stop()
	select {
	case ok = <-turn:
	case <-timer.C:
		ok = t.giveUp(host, turn)
	}
	if !ok {
		return nil, false
	}
	end = sync.OnceFunc(t.end)
	time.AfterFunc(turnTime, end)
	return end, true
}

// join stands in line.
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

// giveUp is for who has waited too long. It is true where it has its turn after all.
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

// next lets those in whose turn it is.
func (t *turns) next() {
	for t.opened && t.taken < maxTurns && len(t.lines) > 0 {
		host := t.lines[0].host
		turn := t.remove(0, 0)
		if i := t.findLine(host); i == 0 { // the others of its host are behind other hosts
			t.lines = append(t.lines[1:], t.lines[0])
		}
		ok := t.doors.admit(host, time.Now())
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

// open has those who wait let in, and who comes.
func (t *turns) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = !t.closed
	t.next()
}

// pauseTurns has everybody wait until it is opened again.
func (t *turns) pauseTurns() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = false
}

// close refuses those who wait, and who comes.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened, t.closed = false, true
	for len(t.lines) > 0 {
		t.remove(0, 0) <- false
	}
}

// admit has a host pay for a connection that gets no turn.
func (t *turns) admit(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doors.admit(host, time.Now())
}

// repay gives a host back what one of its connections cost.
func (t *turns) repay(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doors.repay(host)
}

// waiting is how many wait.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.length
}

// doors keeps hosts from coming in too often. It holds for each until when its
// connections are paid.
type doors map[string]time.Time

func (d *doors) admit(host string, now time.Time) bool {
	if *d == nil || len(*d) >= maxHosts {
		*d = doors{}
	}
	paid := (*d)[host]
	if paid.Before(now) {
		paid = now
	}
	if paid = paid.Add(acceptTime); paid.Sub(now) > acceptBurst*acceptTime {
		return false
	}
	(*d)[host] = paid
	return true
}

func (d *doors) repay(host string) {
	if paid, ok := (*d)[host]; ok {
		(*d)[host] = paid.Add(-acceptTime)
	}
}
