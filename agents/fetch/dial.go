package fetch

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

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
	secure, err := n.secure(ctx, t, conn, until, protocol)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}
