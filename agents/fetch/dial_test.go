package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"strconv"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// covers GUARD G6, AGENTS A7
func TestDialer(t *testing.T) {
	t.Parallel()
	secure, roots := tlsServer(t, nil, nil)
	listener := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: secure.TLS.Certificates}))
	plain := must(net.Listen("tcp", "127.0.0.1:0"))
	for _, l := range []net.Listener{listener, plain} {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "* OK hello\r\n")
				_ = conn.Close()
			}
		}()
	}
	port := func(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }
	here, public := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("93.184.216.34")
	for name, c := range map[string]struct {
		url, network string
		answers      []netip.Addr
		dialer       Dialer
		want         error
	}{
		"a name":                          {"example.com", "example.com:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, nil},
		"another name than in the policy": {"example.com", "other.test:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.HostDenied},
		"another port":                    {"example.com", "example.com:1", []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.PortDenied},
		"an address that is not allowed":  {"example.com", "example.com:" + port(listener), []netip.Addr{here}, Dialer{Roots: roots}, guard.PrivateAddress},
		"one of two addresses":            {"example.com", "example.com:" + port(listener), []netip.Addr{public, here}, Dialer{Roots: roots}, guard.PrivateAddress},
		"no address":                      {"example.com", "example.com:" + port(listener), nil, Dialer{Addresses: loopback, Roots: roots}, guard.DNSFailed},
		"a literal with its port":         {"127.0.0.1", "127.0.0.1:" + port(listener), nil, Dialer{Roots: roots}, guard.PrivateAddress},
		"a literal in the certificate":    {"127.0.0.1", "127.0.0.1:" + port(listener), nil, Dialer{Addresses: loopback, Roots: roots}, nil},
		"a certificate of another name":   {"post.test", "post.test:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.TLSFailed},
		"a certificate of nobody":         {"example.com", "example.com:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: x509.NewCertPool()}, guard.TLSFailed},
		"the system's authorities":        {"example.com", "example.com:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback}, guard.TLSFailed},
		"no TLS":                          {"example.com", "example.com:" + port(plain), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.TLSFailed},
	} {
		used := port(listener)
		if name == "no TLS" {
			used = port(plain)
		}
		target := targetOf(t, "https://"+c.url+":"+used+"/")
		policy, _ := guard.ParsePolicy([]string{c.network})
		c.dialer.Policy, c.dialer.Resolver = func() guard.Policy { return policy }, &lyingResolver{answers: [][]netip.Addr{c.answers}}
		conn, err := c.dialer.Dial(context.Background(), target, "imap")
		failIf(t, err != c.want, "%s: %v", name, err)
		if err != nil {
			continue
		}
		greeting, err := io.ReadAll(conn)
		failIf(t, err != nil || string(greeting) != "* OK hello\r\n", "%s: %q, %v", name, greeting, err)
		_ = conn.Close()
	}
	_, err := new(Dialer).Dial(context.Background(), targetOf(t, "https://example.com/"), "imap")
	failIf(t, err != guard.DenyAll, "the zero value: %v", err)
}
