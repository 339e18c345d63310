package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	connectTime = 5 * time.Second  // TCP and TLS
	answerTime  = 10 * time.Second // to the first byte
	maxHeader   = 32 << 10         // bytes of a response's header
	maxInterim  = 5                // responses 1xx before the real one
	userAgent   = "bcpmesh"
	accept      = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8, */*;q=0.1"
)

// NetResolver asks the hosts file and the name servers of the system, with Go's own resolver.
type NetResolver struct{ net.Resolver }

// NewResolver returns the resolver of the system. It never calls the resolver of the C library.
func NewResolver() *NetResolver { return &NetResolver{net.Resolver{PreferGo: true}} }

// hostsFile is a resolver that reaches no name server.
var hostsFile = net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, guard.DNSFailed }}

// Lookup implements [Resolver]. The name is looked up as it is, without the system's search list.
func (r *NetResolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	err := error(guard.DNSFailed)
	if !strings.Contains(name, ".") { // the library finds it in the hosts file without the dot alone
		addresses, err = hostsFile.LookupNetIP(ctx, "ip", name)
	}
	if err != nil {
		addresses, err = r.LookupNetIP(ctx, "ip", name+".")
	}
	if err != nil {
		return nil, err
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap() // how the library spells IPv4
	}
	return addresses, nil
}

// NetTransport speaks HTTP/1.1 over TCP and TLS, one connection a request: no proxy, no cookies, no Referer, nothing kept.
type NetTransport struct {
	addresses []netip.Prefix
	roots     *x509.CertPool
}

// NewTransport returns the transport to the real network. addresses are those of [Client.Addresses]; roots are the
// authorities to believe, nil for those of the system.
func NewTransport(addresses []netip.Prefix, roots *x509.CertPool) *NetTransport {
	return &NetTransport{addresses: addresses, roots: roots}
}

// Get implements [Transport]. The addresses are tried one after the other until one lets a connection in.
func (n *NetTransport) Get(ctx context.Context, t guard.Target, addresses []netip.Addr) (*Response, error) {
	wire := &meteredConn{}
	response, err := n.get(ctx, t, addresses, wire)
	if response == nil {
		response = &Response{}
	}
	response.Sent, response.Received = wire.sent, wire.received
	return response, err
}

func (n *NetTransport) get(ctx context.Context, t guard.Target, addresses []netip.Addr, wire *meteredConn) (*Response, error) {
	until := time.Now().Add(connectTime)
	conn, err := n.dial(ctx, t, addresses, until)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	wire.Conn = conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if t.Scheme() == "http" {
		return exchange(ctx, wire, t)
	}
	secure, err := n.secure(ctx, t, wire, until, "http/1.1")
	if err != nil {
		return nil, err
	}
	return exchange(ctx, secure, t)
}

// dial connects to one of the addresses. Each gets a share of the remaining time.
func (n *NetTransport) dial(ctx context.Context, t guard.Target, addresses []netip.Addr, until time.Time) (net.Conn, error) {
	err := error(guard.DNSFailed)
	for i, a := range addresses {
		dialer := net.Dialer{Control: n.control(t, addresses), Timeout: time.Until(until) / time.Duration(len(addresses)-i)}
		dialer.SetMultipathTCP(false)
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(a, t.Port()).String()); err == nil {
			return conn, nil
		}
		err = dialCode(err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// secure proves who the host is.
func (n *NetTransport) secure(ctx context.Context, t guard.Target, conn net.Conn, until time.Time, protocol string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: n.roots, ServerName: t.Name(), NextProtos: []string{protocol}}
	if a, ok := t.Address(); ok {
		config.ServerName = a.String()
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		switch {
		case errors.Is(err, guard.TooLarge):
			return nil, guard.TooLarge
		case isTimeout(err):
			return nil, guard.TimedOut
		}
		return nil, guard.TLSFailed
	}
	return secure, nil
}

// control checks the address of a connection again, immediately before connecting: it is
// one of those that were looked up, and public by a list that is not ours unless the
// policy names it.
func (n *NetTransport) control(t guard.Target, addresses []netip.Addr) func(network, address string, c syscall.RawConn) error {
	guardian := ssrf.New(ssrf.WithPorts(t.Port()))
	return func(network, address string, c syscall.RawConn) error {
		dialled, err := netip.ParseAddrPort(address)
		if err != nil || dialled.Port() != t.Port() {
			return guard.PrivateAddress
		}
		expected := false
		for _, a := range addresses {
			expected = expected || a == dialled.Addr()
		}
		if !expected {
			return guard.PrivateAddress
		}
		a := dialled.Addr()
		literal, ok := t.Address()
		named := ok && literal == a && guard.Local(a) // the fetcher let it pass because the policy has it with its port
		switch {
		case !named && !guard.Reachable(a, n.addresses):
			return guard.PrivateAddress
		case named, !guard.Public(a):
			return nil // the operator wrote it down
		}
		if guardian.Safe(network, address, c) != nil {
			return guard.PrivateAddress
		}
		return nil
	}
}

func dialCode(err error) guard.Code {
	var code guard.Code
	switch {
	case errors.As(err, &code):
		return code
	case isTimeout(err):
		return guard.TimedOut
	}
	return guard.ConnectFailed
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// exchange sends the request and reads the answer.
func exchange(ctx context.Context, conn net.Conn, t guard.Target) (*Response, error) {
	deadline := time.Now().Add(answerTime)
	if whole, ok := ctx.Deadline(); ok && whole.Before(deadline) {
		deadline = whole
	}
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write(request(t)); err != nil {
		return nil, readCode(err)
	}
	body := bufio.NewReaderSize(conn, 16<<10)
	answer, err := readHeader(body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	_ = conn.SetDeadline(time.Time{})
	if whole, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(whole)
	}
	if ctx.Err() != nil { // it may have ended before the line above
		return nil, guard.TimedOut
	}
	response := &Response{Status: answer.StatusCode, Location: answer.Header.Get("Location"), ContentType: answer.Header.Get("Content-Type")}
	timed := &timedReader{r: answer.Body}
	err = response.readBody(timed, answer.Header.Get("Content-Encoding"))
	if err != nil && timed.timedOut {
		err = guard.TimedOut
	}
	return response, err
}

// request returns the bytes of a request, made only from the fields of the target.
func request(t guard.Target) []byte {
	var b bytes.Buffer
	b.WriteString("GET " + t.RequestURI() + " HTTP/1.1\r\nHost: " + t.Authority() + "\r\nUser-Agent: " + userAgent +
		"\r\nAccept: " + accept + "\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
	return b.Bytes()
}

// readHeader reads the header of the response, after interim ones. The body must be
// read from the same reader.
func readHeader(r *bufio.Reader) (*http.Response, error) {
	room := maxHeader
	for range maxInterim + 1 {
		header, err := headerBytes(r, room)
		if err != nil {
			return nil, err
		}
		room -= len(header)
		answer, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(header), r)), &http.Request{Method: http.MethodGet})
		if err != nil {
			return nil, guard.ConnectFailed
		}
		if answer.StatusCode >= 200 {
			return answer, nil
		}
	}
	return nil, guard.ConnectFailed
}

// headerBytes returns the bytes up to the empty line, at most room of them.
func headerBytes(r *bufio.Reader, room int) ([]byte, error) {
	var header []byte
	for {
		line, err := r.ReadSlice('\n')
		header = append(header, line...)
		switch {
		case len(header) > room:
			return nil, guard.TooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, readCode(err)
		}
		if trimmed := bytes.TrimRight(line, "\r\n"); len(trimmed) == 0 {
			return header, nil
		}
	}
}

func readCode(err error) guard.Code {
	if errors.Is(err, guard.TooLarge) {
		return guard.TooLarge
	}
	if isTimeout(err) {
		return guard.TimedOut
	}
	return guard.ConnectFailed
}

// meteredConn counts the bytes of a connection, and ends it at [MaxExchange].
type meteredConn struct {
	net.Conn
	sent, received int64
}

func (m *meteredConn) Read(p []byte) (int, error) {
	left := MaxExchange - m.sent - m.received
	if left <= 0 {
		return 0, guard.TooLarge
	}
	n, err := m.Conn.Read(p[:min(int64(len(p)), left)])
	m.received += int64(n)
	return n, err
}

func (m *meteredConn) Write(p []byte) (int, error) {
	if int64(len(p)) > MaxExchange-m.sent-m.received {
		return 0, guard.TooLarge
	}
	n, err := m.Conn.Write(p)
	m.sent += int64(n)
	return n, err
}

// timedReader remembers whether time was up.
type timedReader struct {
	r        io.Reader
	timedOut bool
}

func (t *timedReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.timedOut = t.timedOut || err != nil && isTimeout(err)
	return n, err
}
