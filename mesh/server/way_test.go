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
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// way is how agents come to a server. The zero value is plain NATS.
type way struct{ sealed bool }

func (w way) String() string {
	return map[way]string{{}: "nats", {sealed: true}: "tls"}[w]
}

// everyWay tests a property of a server for each way.
func everyWay(t *testing.T, test func(*testing.T, way)) {
	t.Parallel()
	for _, w := range []way{{}, {sealed: true}} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// change has a server serve it, and no other.
func (w way) change(t *testing.T, c *server.Config) {
	t.Helper()
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

func (w way) options(b *bench) []nats.Option {
	if !w.sealed {
		return nil
	}
	return []nats.Option{nats.Secure(&tls.Config{RootCAs: rootsOf(b.t, b.state)})}
}

// covers BCP-19, A-STRIP
func TestTLSIsRequiredOfClients(t *testing.T) {
	t.Parallel()
	b := start(t, way{sealed: true})
	others := t.TempDir()
	issued(t, others)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(b.URL(), "tls://"))
	noError(t, err)
	creds := nats.UserCredentialBytes(b.issue("main", bcp.RoleController).Text())
	for name, tt := range map[string]struct {
		url   string
		roots *x509.CertPool
		works bool
	}{
		"TLS":                      {"tls://127.0.0.1:" + port, rootsOf(t, b.state), true},
		"TLS by the server's word": {"nats://127.0.0.1:" + port, rootsOf(t, b.state), true},
		"by its name":              {"tls://localhost:" + port, rootsOf(t, b.state), true},
		"another's certificate":    {"tls://127.0.0.1:" + port, rootsOf(t, others), false},
		"another address":          {"tls://127.0.0.2:" + port, rootsOf(t, b.state), false},
		"an unknown certificate":   {"tls://127.0.0.1:" + port, nil, false},
		"WebSocket":                {"wss://127.0.0.1:" + port, rootsOf(t, b.state), false},
		"WebSocket in the clear":   {"ws://127.0.0.1:" + port, nil, false},
	} {
		options := []nats.Option{creds, nats.NoReconnect(), nats.Timeout(patience)}
		if tt.roots != nil {
			options = append(options, nats.Secure(&tls.Config{RootCAs: tt.roots}))
		}
		nc, err := nats.Connect(tt.url, options...)
		expect(t, err == nil, tt.works, "%s: %v", name, err)
		if err == nil {
			nc.Close()
		} else if errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: came as far as its creds", name)
		}
	}
}
