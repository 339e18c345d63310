package server

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// socketBuffer bounds the kernel's buffer for a client, in each direction.
	socketBuffer = 256 << 10
	// A passage's buffers grow and shrink between these.
	minChunk = 512
	maxChunk = 32 << 10
	// shortReads in a row shrink a buffer.
	shortReads = 4
	// writeTime is how long a client may take no byte of a chunk, as with the
	// server itself.
	writeTime = 10 * time.Second
)

// passage carries one client's connection to the server and back.
type passage struct {
	socket *net.TCPConn // of the client
	client net.Conn     // the client's side: the socket, or TLS on it
	server *net.TCPConn
	host   string // of the client
	from   netip.Addr
	meter  meter // of what the client sends
	pace   atomic.Pointer[pace]
	// turnEnds lets the next one in. It may be called several times.
	turnEnds func()
	closed   chan struct{}
	once     sync.Once
}

// copyIn copies what the client sends, no faster than its pace.
func (p *passage) copyIn() {
	// The server still has to read what came before the end, and then ends the
	// other direction.
	defer p.server.CloseWrite()
	for b := newChunk(); ; b.fit() {
		n, err := p.client.Read(b.bytes)
		cost, on, ok := p.meter.read(b.read(n))
		if !ok {
			return
		}
		if _, failed := p.server.Write(on); failed != nil || err != nil {
			return
		}
		d := p.pace.Load().charge(cost, time.Now())
		if d == 0 {
			continue
		}
		b = newChunk() // who owes much is read little
		select {
		case <-time.After(d):
		case <-p.closed:
			return
		}
	}
}

// out copies what the server sends, and then ends the passage.
func (p *passage) out() {
	defer p.close()
	for b := newChunk(); ; b.fit() {
		n, err := p.server.Read(b.bytes)
		_ = p.socket.SetWriteDeadline(time.Now().Add(writeTime)) // a Write says more
		if _, failed := p.client.Write(b.read(n)); failed != nil {
			return
		}
		if err != nil {
			if sealed, ok := p.client.(*tls.Conn); ok {
				_ = sealed.CloseWrite() // not cut off
			}
			return
		}
	}
}

// close may be called several times.
func (p *passage) close() {
	p.once.Do(func() {
		close(p.closed)
		p.turnEnds()
		p.socket.Close()     // under TLS too: who does not read is not waited for
		if p.server != nil { // it was let in
			p.server.Close()
		}
	})
}

// chunk is a buffer that is as large as the data.
type chunk struct {
	bytes []byte
	n     int // of the last read
	short int // reads in a row of less than half a buffer
}

func newChunk() *chunk { return &chunk{bytes: make([]byte, minChunk)} }

func (c *chunk) read(n int) []byte {
	c.n = n
	return c.bytes[:n]
}

func (c *chunk) fit() {
	size := len(c.bytes)
	if c.n < size/2 {
		c.short++
	} else {
		c.short = 0
	}
	switch {
	case c.n == size && size < maxChunk:
		c.bytes = make([]byte, 2*size)
	case c.short == shortReads && size > minChunk:
		c.bytes, c.short = make([]byte, size/2), 0
	}
}
