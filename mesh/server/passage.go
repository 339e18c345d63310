package server

import (
	"bytes"
	"crypto/tls"
	"errors"
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

// passage carries one client's connection to the server, inside this process, and
// back.
type passage struct {
	socket *net.TCPConn // of the client
	client net.Conn     // the client's side: the socket, or TLS on it
	server net.Conn
	number uint16 // by which the server knows it, in place of a port
	from   netip.Addr
	host   string // of the client
	meter  meter  // of what the client sends
	outbox *outbox
	pace   atomic.Pointer[pace]
	// turnEnds lets the next one in. It may be called several times.
	turnEnds func()
	closed   chan struct{}
	once     sync.Once
}

var errTLS = errors.New(tlsFailed)

// begin tells the server where a client comes from, does the handshakes of TLS and
// WebSocket with the client, and passes it the server's first line. With TLS the
// protocol of NATS begins in cleartext: that line, which has no secrets, says that TLS
// is required.
func (p *passage) begin() error {
	deadline := time.Now().Add(authTime)
	_ = p.socket.SetDeadline(deadline) // the handshakes say more
	_ = p.server.SetDeadline(deadline)
	greeting, err := readGreeting(p.server)
	if err != nil {
		return err
	}
	if _, err := p.server.Write(proxyHeader(p.from, p.number)); err != nil {
		return err
	}
	sealed, isSealed := p.client.(*tls.Conn)
	if isSealed && p.meter.frames == nil {
		n := len(greetingBegins)
		if _, err := p.socket.Write(bytes.Join([][]byte{greeting[:n], tlsRequired, greeting[n:]}, nil)); err != nil {
			return err
		}
		greeting = nil
	}
	if isSealed && sealed.Handshake() != nil {
		return errTLS
	}
	if p.meter.frames != nil {
		if err := upgrade(p.client); err != nil {
			return err
		}
	}
	p.send(greeting)
	_ = p.socket.SetDeadline(time.Time{})
	_ = p.server.SetDeadline(time.Time{})
	return nil
}

// copyIn copies what the client sends, no faster than its pace.
func (p *passage) copyIn() {
	// The server has read all that was written, and still acts on it.
	defer p.server.Close()
	for b := newChunk(); ; b.fit() {
		n, err := p.client.Read(b.bytes)
		cost, on, ok := p.meter.read(b.read(n))
		if !ok {
			return
		}
		if _, failed := p.server.Write(on); failed != nil || err != nil {
			return
		}
		if f := p.meter.frames; f != nil {
			if !p.outbox.add(f.answers) || f.ended {
				return
			}
			f.answers = nil
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

// copyOut takes what the server sends until it sends no more, or the client leaves too
// much of it.
func (p *passage) copyOut() {
	defer p.outbox.end()
	for b := newChunk(); ; b.fit() {
		n, err := p.server.Read(b.bytes)
		if !p.send(b.read(n)) {
			p.close()
			return
		}
		if err != nil {
			return
		}
	}
}

// send puts what the server says into the outbox.
func (p *passage) send(b []byte) bool {
	if p.meter.frames != nil && len(b) > 0 {
		b = appendFrame(nil, frameBinary, b)
	}
	return p.outbox.add(b)
}

// deliver sends the client what is in its outbox, and then ends the passage.
func (p *passage) deliver() {
	defer p.close()
	for {
		b, more := p.outbox.take()
		for len(b) > 0 {
			n := min(len(b), maxChunk)
			_ = p.socket.SetWriteDeadline(time.Now().Add(writeTime)) // a Write says more
			if _, err := p.client.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
		}
		if !more {
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
		p.socket.Close() // under TLS too: who does not read is not waited for
		p.server.Close()
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
