package server

import (
	"bufio"
	"bytes"
	"errors"
	"net"
)

// maxGreeting bounds the server's first line. It has half a kilobyte.
const maxGreeting = 8 << 10

var (
	greetingBegins = []byte("INFO {")
	tlsRequired    = []byte(`"tls_required":true,`)
	errGreeting    = errors.New("the server does not greet")
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
