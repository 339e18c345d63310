package fetch

import (
	"context"
	"crypto/tls"
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
	certificate, roots := certificateFor(t, "mail.test")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	_, others := certificateFor(t, "mail.test")
	for name, c := range map[string]struct {
		url, network string
		answers      []netip.Addr
		dialer       Dialer
		want         error
	}{
		"a name":                          {"mail.test", "mail.test:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, nil},
		"another name than in the policy": {"mail.test", "other.test:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.HostDenied},
		"another port":                    {"mail.test", "mail.test:1", []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.PortDenied},
		"an address that is not allowed":  {"mail.test", "mail.test:" + port(listener), []netip.Addr{here}, Dialer{Roots: roots}, guard.PrivateAddress},
		"one of two addresses":            {"mail.test", "mail.test:" + port(listener), []netip.Addr{public, here}, Dialer{Roots: roots}, guard.PrivateAddress},
		"no address":                      {"mail.test", "mail.test:" + port(listener), nil, Dialer{Addresses: loopback, Roots: roots}, guard.DNSFailed},
		"a literal with its port":         {"127.0.0.1", "127.0.0.1:" + port(listener), nil, Dialer{Roots: roots}, guard.PrivateAddress},
		"a literal of another host":       {"127.0.0.1", "127.0.0.1:" + port(listener), nil, Dialer{Addresses: loopback, Roots: roots}, guard.TLSFailed},
		"a certificate of another name":   {"post.test", "post.test:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.TLSFailed},
		"a certificate of nobody":         {"mail.test", "mail.test:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: others}, guard.TLSFailed},
		"the system's authorities":        {"mail.test", "mail.test:" + port(listener), []netip.Addr{here}, Dialer{Addresses: loopback}, guard.TLSFailed},
		"no TLS":                          {"mail.test", "mail.test:" + port(plain), []netip.Addr{here}, Dialer{Addresses: loopback, Roots: roots}, guard.TLSFailed},
	} {
		used := port(listener)
		if name == "no TLS" {
			used = port(plain)
		}
		target, err := guard.ParseTarget("https://" + c.url + ":" + used + "/")
		if err != nil {
			t.Fatal(err)
		}
		policy, _ := guard.ParsePolicy([]string{c.network})
		c.dialer.Policy, c.dialer.Resolver = func() guard.Policy { return policy }, &lyingResolver{answers: [][]netip.Addr{c.answers}}
		conn, err := c.dialer.Dial(context.Background(), target, "imap")
		if err != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if greeting, err := io.ReadAll(conn); err != nil || string(greeting) != "* OK hello\r\n" {
			t.Errorf("%s: %q, %v", name, greeting, err)
		}
		_ = conn.Close()
	}
	target, err := guard.ParseTarget("https://mail.test/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(Dialer).Dial(context.Background(), target, "imap"); err != guard.DenyAll {
		t.Errorf("the zero value: %v", err)
	}
}
