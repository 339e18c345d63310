package server_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// from connects from an address of loopback.
func from(address string) nats.Option {
	return nats.SetCustomDialer(&net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}})
}

// A file with sources is good from these networks alone, whatever way it comes,
// and one for WebSocket alone, as on a cluster, not at all. The server refuses the
// others before they can say anything.
//
// covers BCP-19, A-REVOKED
func TestRestrictedCredsAreGoodWhereTheyShould(t *testing.T) {
	everyWay(t, func(t *testing.T, w way) {
		b := start(t, w)
		issue := func(r accounts.Restriction) []byte {
			creds := must(b.store.Issue("main", bcp.RoleController, 0, accounts.Restricted(r)))
			return creds.Text()
		}
		networks := func(texts ...string) (r accounts.Restriction) {
			for _, text := range texts {
				r.Sources = append(r.Sources, netip.MustParsePrefix(text))
			}
			return r
		}
		cases := map[string]struct {
			creds []byte
			host  string
			good  bool
		}{
			"anywhere":             {issue(accounts.Restriction{}), "127.0.0.2", true},
			"the network":          {issue(networks("127.0.0.2/32")), "127.0.0.2", true},
			"one of the networks":  {issue(networks("10.0.0.0/8", "127.0.0.0/30")), "127.0.0.3", true},
			"next to the network":  {issue(networks("127.0.0.0/30")), "127.0.0.4", false},
			"another network":      {issue(networks("10.0.0.0/8", "2001:db8::/32")), "127.0.0.2", false},
			"the server's machine": {issue(networks("127.0.0.1/32")), "127.0.0.2", false},
		}
		noError(t, b.UpdateAccounts(t.Context(), b.compile(b.scopes)))
		for name, tt := range cases {
			options := append(w.options(b), nats.UserCredentialBytes(tt.creds), nats.NoReconnect(), nats.Timeout(patience), from(tt.host))
			nc, err := nats.Connect(b.URL(), options...)
			expect(t, err == nil, tt.good, "%s, from %s: %v", name, tt.host, err)
			if err == nil {
				nc.Close()
			}
		}
	})
}
