package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"net"
	"time"
)

// maxGreeting bounds the server's first line. It has half a kilobyte.
const maxGreeting = 8 << 10

var (
	greetingBegins = []byte("INFO {")
	tlsRequired    = []byte(`"tls_required":true,`)
)

// seal does the TLS handshake with a client, and reports whether it succeeded.
// The NATS protocol begins in cleartext: the server's first line, which has no
// secrets, says that TLS is required.
func (p *passage) seal(greet bool) bool {
	deadline := time.Now().Add(authTime)
	_ = p.socket.SetDeadline(deadline) // the handshake says more
	if greet {
		greeting, ok := readGreeting(p.server, deadline)
		if !ok {
			return false
		}
		if _, err := p.socket.Write(greeting); err != nil {
			return false
		}
	}
	if p.client.(*tls.Conn).Handshake() != nil {
		return false
	}
	_ = p.socket.SetDeadline(time.Time{})
	return true
}

// readGreeting reads the server's first line, and nothing after it.
func readGreeting(server net.Conn, deadline time.Time) ([]byte, bool) {
	_ = server.SetReadDeadline(deadline)
	defer func() { _ = server.SetReadDeadline(time.Time{}) }()
	b := bufio.NewReaderSize(server, maxGreeting)
	line, err := b.ReadSlice('\n')
	if err != nil || b.Buffered() > 0 || !bytes.HasPrefix(line, greetingBegins) {
		return nil, false
	}
	n := len(greetingBegins)
	return bytes.Join([][]byte{line[:n], tlsRequired, line[n:]}, nil), true
}
