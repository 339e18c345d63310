package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// way is how agents come to a server. The zero value is plain NATS.
type way struct{ sealed, webSocket bool }

func (w way) String() string {
	return map[way]string{{}: "nats", {sealed: true}: "tls", {webSocket: true}: "ws", {true, true}: "wss"}[w]
}

// ways are those that agents come by. The fast form has the first and the last, which
// have the parts of all.
var ways = []way{{}, {sealed: true}, {webSocket: true}, {true, true}}

// everyWay tests a property of a server for each way.
func everyWay(t *testing.T, test func(*testing.T, way)) {
	t.Parallel()
	for _, w := range effort.Sample(ways, 3) {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// change has a server serve it, and no other.
func (w way) change(t *testing.T, c *server.Config) {
	t.Helper()
	if w.webSocket {
		c.WebSocket = "127.0.0.1:0"
	}
	if w.sealed {
		c.TLS = issued(t, c.StateDir)
	}
}

// issued is a TLS config of the authority in a state folder.
func issued(t *testing.T, state string) *tls.Config {
	t.Helper()
	authority := must(accounts.OpenAuthority(state, time.Now()))
	return must(server.IssuedTLS(func(now time.Time) (tls.Certificate, error) {
		return authority.Issue([]string{"127.0.0.1", "localhost"}, now)
	}, hclog.NewNullLogger()))
}

func rootsOf(t *testing.T, state string) *x509.CertPool {
	t.Helper()
	_, roots, err := accounts.ReadAuthority(accounts.AuthorityFile(state))
	noError(t, err)
	return roots
}

// address is where agents of the test's way connect.
func (b *bench) address() string {
	if b.way.webSocket {
		return b.WebSocketURL()
	}
	return b.URL()
}

func (w way) options(b *bench) []nats.Option {
	if !w.sealed {
		return nil
	}
	return []nats.Option{nats.Secure(&tls.Config{RootCAs: rootsOf(b.t, b.state)})}
}

// covers BCP-19
func TestAddressOfEachWay(t *testing.T) {
	everyWay(t, func(t *testing.T, w way) {
		b := start(t, w)
		if scheme, _, _ := strings.Cut(b.address(), "://"); scheme != w.String() {
			t.Errorf("%s is at %s", w, b.address())
		}
		if (b.WebSocketURL() != "") != w.webSocket {
			t.Errorf("WebSocket at %q", b.WebSocketURL())
		}
		main := b.connect("main", bcp.RoleController)
		arrived := listen(t, b.gateway(), subjects.Session("main"))
		publish(t, main.Conn, subjects.Session("main"), "x")
		flush(t, main.Conn)
		if len(arrived()) != 1 {
			t.Error("it did not arrive")
		}
	})
}

// covers BCP-19, A-STRIP
func TestTLSIsRequiredOfClients(t *testing.T) {
	t.Parallel()
	b := start(t, way{sealed: true, webSocket: true})
	others := t.TempDir()
	issued(t, others)
	port := func(url string) string {
		_, port, err := net.SplitHostPort(url[strings.Index(url, "://")+3:])
		noError(t, err)
		return port
	}
	nats4222, ws := port(b.URL()), port(b.WebSocketURL())
	creds := nats.UserCredentialBytes(b.issue("main", bcp.RoleController).Text())
	for name, tt := range map[string]struct {
		url   string
		roots *x509.CertPool
		works bool
	}{
		"TLS":                         {"tls://127.0.0.1:" + nats4222, rootsOf(t, b.state), true},
		"TLS by the server's word":    {"nats://127.0.0.1:" + nats4222, rootsOf(t, b.state), true},
		"WebSocket":                   {"wss://localhost:" + ws, rootsOf(t, b.state), true},
		"another's certificate":       {"tls://127.0.0.1:" + nats4222, rootsOf(t, others), false},
		"another's, over WebSocket":   {"wss://127.0.0.1:" + ws, rootsOf(t, others), false},
		"another address":             {"tls://127.0.0.2:" + nats4222, rootsOf(t, b.state), false},
		"an unknown certificate":      {"tls://127.0.0.1:" + nats4222, nil, false},
		"WebSocket in the clear":      {"ws://127.0.0.1:" + ws, nil, false},
		"NATS at WebSocket's address": {"tls://127.0.0.1:" + ws, rootsOf(t, b.state), false},
		"WebSocket at NATS's address": {"wss://127.0.0.1:" + nats4222, rootsOf(t, b.state), false},
		"the clear at NATS's, forced": {"ws://127.0.0.1:" + nats4222, nil, false},
	} {
		options := []nats.Option{creds, nats.NoReconnect(), nats.Timeout(patience)}
		if tt.roots != nil {
			options = append(options, nats.Secure(&tls.Config{RootCAs: tt.roots}))
		}
		nc, err := nats.Connect(tt.url, options...)
		if (err == nil) != tt.works {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			nc.Close()
		} else if errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: came as far as its creds", name)
		}
	}
}
