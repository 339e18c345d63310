//go:build faults && unix

package main

import (
	"net"
	"sync"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// wiredCluster is a cluster whose nodes can be cut off, if it has wires: then this process
// forwards everything that nodes and clients send to nodes, which is slower.
type wiredCluster struct {
	*clustertest.Cluster
	wires map[[2]int]*nodeWire // from a node, or from the clients, which are -1, to a node
}

func startWired(t testing.TB, config clustertest.Config) *wiredCluster {
	t.Helper()
	c := &wiredCluster{wires: map[[2]int]*nodeWire{}}
	config.Wire = func(from, to int, address string) string {
		w := newNodeWire(t, address)
		c.wires[[2]int{from, to}] = w
		return w.address()
	}
	c.Cluster = clustertest.Start(t, config)
	return c
}

// isolate cuts a node off from the other nodes. Clients still reach it.
func (c *wiredCluster) isolate(node int) {
	for ends, w := range c.wires {
		if ends[0] == node || ends[1] == node && ends[0] >= 0 {
			w.cut()
		}
	}
}

// partition cuts a node off from the other nodes and from clients.
func (c *wiredCluster) partition(node int) {
	c.isolate(node)
	c.wires[[2]int{-1, node}].cut()
}

// heal mends all wires.
func (c *wiredCluster) heal() {
	for _, w := range c.wires {
		w.mend()
	}
}

// nodeWire is a proxy for connections to an address. While it is cut it forwards
// nothing and reports nothing, like a network that loses all packets. Data sent
// meanwhile arrives when it is mended, as TCP sends it again.
type nodeWire struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu    sync.Mutex
	whole chan struct{} // closed while it is not cut
	ended chan struct{}
	conns map[net.Conn]bool
}

func newNodeWire(t testing.TB, to string) *nodeWire {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	w := &nodeWire{listener: listener, to: to, whole: make(chan struct{}), ended: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(w.whole)
	w.running.Go(w.accept)
	t.Cleanup(w.end)
	return w
}

func (w *nodeWire) address() string { return w.listener.Addr().String() }

func (w *nodeWire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.whole:
		w.whole = make(chan struct{})
	default:
	}
}

func (w *nodeWire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.whole:
	default:
		close(w.whole)
	}
}

func (w *nodeWire) end() {
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
func (w *nodeWire) passes() bool {
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

func (w *nodeWire) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() { w.carry(from) })
	}
}

// carry carries one connection until one of its sides closes it.
func (w *nodeWire) carry(from net.Conn) {
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
func (w *nodeWire) copy(to, from net.Conn) {
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

func (w *nodeWire) keep(conn net.Conn) bool {
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

func (w *nodeWire) drop(conn net.Conn) {
	_ = conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}
