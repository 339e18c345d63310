//go:build unix

package clustertest

import (
	"net"
	"sync"
	"testing"
)

// wire is a proxy for connections to an address. While it is cut it forwards
// nothing and reports nothing, like a network that loses all packets. Data sent
// meanwhile arrives when it is mended, as TCP sends it again.
type wire struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu    sync.Mutex
	whole chan struct{} // closed while it is not cut
	ended chan struct{}
	conns map[net.Conn]bool
}

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, to: to, whole: make(chan struct{}), ended: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(w.whole)
	w.running.Go(w.accept)
	t.Cleanup(w.end)
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.whole:
		w.whole = make(chan struct{})
	default:
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.whole:
	default:
		close(w.whole)
	}
}

func (w *wire) end() {
	w.mu.Lock()
	select {
	case <-w.ended:
	default:
		close(w.ended)
	}
	for conn := range w.conns {
		_ = conn.Close()
	}
	w.mu.Unlock()
	_ = w.listener.Close()
	w.running.Wait()
}

// passes waits while the wire is cut, and reports whether it has not ended.
func (w *wire) passes() bool {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	select {
	case <-whole:
		return true
	case <-w.ended:
		return false
	}
}

func (w *wire) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() { w.carry(from) })
	}
}

// carry carries one connection until one of its sides closes it.
func (w *wire) carry(from net.Conn) {
	if !w.keep(from) {
		return
	}
	defer w.drop(from)
	if !w.passes() {
		return
	}
	to, err := net.Dial("tcp", w.to)
	if err != nil || !w.keep(to) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { w.copy(from, to) })
	w.copy(to, from)
	back.Wait()
}

// copy copies what one side sends, and then closes both.
func (w *wire) copy(to, from net.Conn) {
	defer w.drop(from)
	defer w.drop(to)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !w.passes() || err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ended:
		_ = conn.Close()
		return false
	default:
		w.conns[conn] = true
		return true
	}
}

func (w *wire) drop(conn net.Conn) {
	_ = conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}
