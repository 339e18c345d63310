package clustertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Blocks of ports, below those that the system assigns by itself.
const (
	firstPort  = 10000
	blockPorts = 500
	blocks     = 40
)

// ports are those of this process.
var ports portRange

// portRange gives each port only once: it may take a while until somebody listens
// there. The first port of a block is listened on until the process ends, so that no other
// process gives the others away while a listener restarts.
type portRange struct {
	mu        sync.Mutex
	next, end int
	held      []net.Listener
}

// FreeAddress returns a free loopback address that no other test gets, in this process or
// another: so a restarted listener gets it again.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return ports.free(t)
}

func (p *portRange) free(t testing.TB) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.next == p.end {
			p.take(t)
		}
		address := fmt.Sprintf("127.0.0.1:%d", p.next)
		p.next++
		// A test by listening would keep the port in use as long as a child process
		// that is being started holds a copy of the listener.
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return address
		}
		_ = conn.Close()
	}
}

// take continues with an unused block.
func (p *portRange) take(t testing.TB) {
	t.Helper()
	var last error
	for _, i := range rand.Perm(blocks) {
		first := firstPort + i*blockPorts
		held, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
		if err == nil {
			p.next, p.end, p.held = first+1, first+blockPorts, append(p.held, held)
			return
		}
		last = err
	}
	t.Fatalf("tests have all ports: %v", last)
}
