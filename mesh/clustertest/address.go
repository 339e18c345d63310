package clustertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
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
// there. Each block is locked until the process ends, so that no other process gives
// its ports away while a listener restarts.
type portRange struct {
	mu        sync.Mutex
	next, end int
	locks     []*flock.Flock // kept: a lock ends with its file
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
		lock := flock.New(filepath.Join(os.TempDir(), fmt.Sprintf("bcpmesh-ports-%d.lock", i)))
		mine, err := lock.TryLock()
		if mine {
			p.next, p.end = firstPort+i*blockPorts, firstPort+(i+1)*blockPorts
			p.locks = append(p.locks, lock)
			return
		}
		last = err
	}
	t.Fatalf("tests have all ports: %v", last)
}
