package server

import (
	"bufio"
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
	said   speech // by the client
	outbox *outbox
	pace   atomic.Pointer[pace]
	// turnEnds lets the next one in. It may be called several times.
	turnEnds func()
	closed   chan struct{}
	once     sync.Once
}

// maxGreeting bounds the server's first line. It has half a kilobyte.
const maxGreeting = 8 << 10

var (
	greetingBegins = []byte("INFO {")
	tlsRequired    = []byte(`"tls_required":true,`)
	errGreeting    = errors.New("the server does not greet")
	errTLS         = errors.New(tlsFailed)
)

// readGreeting reads the server's first line, and nothing after it.
func readGreeting(server net.Conn) ([]byte, error) {
	b := bufio.NewReaderSize(server, maxGreeting)
	line, err := b.ReadSlice('\n')
	if err != nil || b.Buffered() > 0 || !bytes.HasPrefix(line, greetingBegins) {
		return nil, errors.Join(errGreeting, err)
	}
	return line, nil
}

// begin tells the server where a client comes from, does the handshake of TLS with the
// client, and passes it the server's first line. With TLS the protocol of NATS begins in
// cleartext: that line, which has no secrets, says that TLS is required.
func (p *passage) begin() error {
	deadline := time.Now().Add(authTime)
	_ = p.socket.SetDeadline(deadline) // the handshake says more
	_ = p.server.SetDeadline(deadline)
	greeting, err := readGreeting(p.server)
	if err != nil {
		return err
	}
	if _, err := p.server.Write(proxyHeader(p.from, p.number)); err != nil {
		return err
	}
	if sealed, isSealed := p.client.(*tls.Conn); isSealed {
		n := len(greetingBegins)
		if _, err := p.socket.Write(bytes.Join([][]byte{greeting[:n], tlsRequired, greeting[n:]}, nil)); err != nil {
			return err
		}
		if sealed.Handshake() != nil {
			return errTLS
		}
	} else {
		p.outbox.add(greeting)
	}
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
		cost, on, ok := p.said.read(b.read(n))
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

// copyOut takes what the server sends until it sends no more, or the client leaves too
// much of it.
func (p *passage) copyOut() {
	defer p.outbox.end()
	for b := newChunk(); ; b.fit() {
		n, err := p.server.Read(b.bytes)
		if !p.outbox.add(b.read(n)) {
			p.close()
			return
		}
		if err != nil {
			return
		}
	}
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
