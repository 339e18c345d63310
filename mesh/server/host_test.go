package server_test

import (
	"net"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// from connects from an address of loopback.
func from(address string) nats.Option {
	return nats.SetCustomDialer(&net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}})
}

// Where a connection comes from is the client's host, also in what is told of it.
//
// covers A-REVOKED
func TestConnectionTellsItsHost(t *testing.T) {
	t.Parallel()
	b := start(t)
	events := b.watch()
	b.connect("main", bcp.RoleController, from("127.0.0.5"))
	if got := next(t, events); !got.Connected || got.Host != "127.0.0.5" {
		t.Errorf("%+v", got)
	}
}
