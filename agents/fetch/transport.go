package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	connectTime = 5 * time.Second  // TCP and TLS
	answerTime  = 10 * time.Second // to the first byte
	maxHeader   = 32 << 10         // bytes of a response's header
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

// NewServiceTransport returns a transport to a service of the operator's. It uses no proxy: cleartext must not pass one, and
// TLS needs none. Cleartext goes to this machine alone, whatever the system resolves a name to; else the error is refused.
func NewServiceTransport(scheme string, timeout time.Duration, refused error) *http.Transport {
	dialer := &net.Dialer{Timeout: timeout}
	if scheme == "http" {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if host, _, err := net.SplitHostPort(address); err != nil || !guard.Loopback(host) {
				return refused
			}
			return nil
		}
	}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: 64 << 10,
	}
}

// Get implements [Transport]. The addresses are tried one after the other until one lets a connection in.
func (n *NetTransport) Get(ctx context.Context, t guard.Target, addresses []netip.Addr) (*Response, error) {
	wire := &meteredConn{}
	response, err := n.get(ctx, t, addresses, wire)
	response.Sent, response.Received = wire.sent.Load(), wire.received.Load()
	return response, err
}

func (n *NetTransport) get(ctx context.Context, t guard.Target, addresses []netip.Addr, wire *meteredConn) (*Response, error) {
	at, err := url.Parse(t.String())
	if err != nil || at.RequestURI() != t.RequestURI() || at.Host != t.Authority() { // it would ask for something else
		return &Response{}, guard.Malformed
	}
	until := time.Now().Add(connectTime)
	dial := func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		wire.Conn, err = n.dial(ctx, t, addresses, until)
		return wire, err
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader, ResponseHeaderTimeout: answerTime, DialContext: dial,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if _, err := dial(ctx, "", ""); err != nil {
				return nil, err
			}
			return n.secure(ctx, t, wire, until, "http/1.1")
		},
	}
	request := &http.Request{Method: http.MethodGet, URL: at, Header: http.Header{"User-Agent": {userAgent}, "Accept": {accept}, "Accept-Encoding": {"gzip"}}}
	answer, err := transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return &Response{}, readCode(err)
	}
	defer answer.Body.Close()
	response := &Response{Status: answer.StatusCode, Location: answer.Header.Get("Location"), ContentType: answer.Header.Get("Content-Type")}
	return response, response.readBody(answer.Body, answer.Header.Get("Content-Encoding"))
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
		err = readCode(err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// secure proves who the host is. It closes the connection if it fails.
func (n *NetTransport) secure(ctx context.Context, t guard.Target, conn net.Conn, until time.Time, protocol string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: n.roots, ServerName: t.Name(), NextProtos: []string{protocol}}
	if a, ok := t.Address(); ok {
		config.ServerName = a.String()
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
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
		a := dialled.Addr()
		literal, ok := t.Address()
		named := ok && literal == a && guard.Local(a) // the fetcher let it pass because the policy has it with its port
		switch {
		case !slices.Contains(addresses, a), !named && !guard.Reachable(a, n.addresses):
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

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// readCode returns the code of an error of a connection.
func readCode(err error) guard.Code {
	var code guard.Code
	switch {
	case errors.As(err, &code):
		return code
	case strings.Contains(err.Error(), "headers exceeded"):
		return guard.TooLarge
	case isTimeout(err):
		return guard.TimedOut
	}
	return guard.ConnectFailed
}

// meteredConn counts the bytes of a connection, and ends it at [MaxExchange].
type meteredConn struct {
	net.Conn
	sent, received atomic.Int64
}

func (m *meteredConn) Read(p []byte) (int, error) {
	left := MaxExchange - m.sent.Load() - m.received.Load()
	if left <= 0 {
		return 0, guard.TooLarge
	}
	n, err := m.Conn.Read(p[:min(int64(len(p)), left)])
	m.received.Add(int64(n))
	return n, err
}

func (m *meteredConn) Write(p []byte) (int, error) {
	if int64(len(p)) > MaxExchange-m.sent.Load()-m.received.Load() {
		return 0, guard.TooLarge
	}
	n, err := m.Conn.Write(p)
	m.sent.Add(int64(n))
	return n, err
}

// Dialer connects with TLS to a host of the operator, for a protocol other than HTTP.
// Names, addresses and certificates are checked as for a fetch, but an address that is
// not public must be inside [Dialer.Addresses]: a port list does not allow it. Its zero
// value reaches nothing.
type Dialer struct {
	// Policy is asked before each connection. Nil allows nothing.
	Policy func() guard.Policy
	// Addresses are prefixes that may be dialled in addition to the public addresses
	// ([guard.Reachable]).
	Addresses []netip.Prefix
	Resolver  Resolver
	Roots     *x509.CertPool // authorities to believe; nil: those of the system
}

// Dial connects to t and authenticates it. protocol is for ALPN, which a server need
// not support. The error has a code.
func (d *Dialer) Dial(ctx context.Context, t guard.Target, protocol string) (net.Conn, error) {
	if d.Policy == nil || d.Resolver == nil {
		return nil, guard.DenyAll
	}
	if err := d.Policy().Check(t); err != nil {
		return nil, err
	}
	addresses, err := resolve(ctx, d.Resolver, d.Addresses, t, false)
	if err != nil {
		return nil, err
	}
	n := NewTransport(d.Addresses, d.Roots)
	until := time.Now().Add(connectTime)
	conn, err := n.dial(ctx, t, addresses, until)
	if err != nil {
		return nil, err
	}
	return n.secure(ctx, t, conn, until, protocol)
}
