package server

import "sync"

// outbox holds what the server has sent to a client that has not taken it yet. The
// server writes to a client in the goroutine of whoever sends to it: if it had to wait
// for one that does not read, so would others.
type outbox struct {
	full func() // called when it is

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte
	ended   bool
}

// add returns false if the client has left too much: then it is to be disconnected.
func (o *outbox) add(b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(b) == 0 || o.ended {
		return true
	}
	if len(o.waiting)+len(b) > maxPending {
		o.ended = true
		o.full()
		return false
	}
	o.waiting = append(o.waiting, b...)
	o.changed.Signal()
	return true
}

// end says that nothing more is added.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.changed.Signal()
}

// take waits for something, and returns all that there is. more is false when nothing
// comes after it.
func (o *outbox) take() (b []byte, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) == 0 && !o.ended {
		o.changed.Wait()
	}
	b, o.waiting = o.waiting, nil
	return b, !o.ended
}
