package accounts_test

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
)

func authority(t *testing.T, state string, now time.Time) *accounts.Authority {
	t.Helper()
	return must(accounts.OpenAuthority(state, now))(t)
}

func roots(t *testing.T, file string) (*x509.Certificate, *x509.CertPool) {
	t.Helper()
	c, pool, err := accounts.ReadAuthority(file)
	noError(t, err)
	return c, pool
}

// What an authority vouches for is its addresses, for a server, and nothing else.
func TestAuthorityVouchesForAddresses(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := authority(t, t.TempDir(), now)
	_, pool := roots(t, a.File())
	_, others := roots(t, authority(t, t.TempDir(), now).File())
	issued := must(a.Issue([]string{"mesh.example", "192.0.2.7"}, now))(t)
	for name, tt := range map[string]struct {
		options x509.VerifyOptions
		valid   bool
	}{
		"a name":            {x509.VerifyOptions{Roots: pool, DNSName: "mesh.example"}, true},
		"an address":        {x509.VerifyOptions{Roots: pool, DNSName: "192.0.2.7"}, true},
		"just before":       {x509.VerifyOptions{Roots: pool, DNSName: "mesh.example", CurrentTime: now.Add(accounts.CertificateLife - time.Second)}, true},
		"another name":      {x509.VerifyOptions{Roots: pool, DNSName: "other.example"}, false},
		"another address":   {x509.VerifyOptions{Roots: pool, DNSName: "192.0.2.8"}, false},
		"another authority": {x509.VerifyOptions{Roots: others, DNSName: "mesh.example"}, false},
		"too late":          {x509.VerifyOptions{Roots: pool, DNSName: "mesh.example", CurrentTime: now.Add(accounts.CertificateLife + time.Second)}, false},
		"as a client":       {x509.VerifyOptions{Roots: pool, DNSName: "mesh.example", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, false},
	} {
		_, err := issued.Leaf.Verify(tt.options)
		failIf(t, (err == nil) != tt.valid, "%s: %v", name, err)
	}
	failIf(t, !issued.Leaf.IPAddresses[0].Equal(net.ParseIP("192.0.2.7")) || issued.Leaf.IsCA, "it is for something else")
	for _, e := range must(os.ReadDir(filepath.Dir(a.File())))(t) {
		mode := must(e.Info())(t).Mode()
		public := e.Name() == filepath.Base(a.File()) // the certificate is given away
		failIf(t, mode != 0o600 && !(public && mode == 0o644), "others may read %s", e.Name())
	}
}

// A renewed authority has its key and its name: what was given away goes on
// until its own end.
func TestAuthorityIsRenewed(t *testing.T) {
	t.Parallel()
	state, begin := t.TempDir(), time.Now()
	a := authority(t, state, begin)
	first, old := roots(t, a.File())
	for name, tt := range map[string]struct {
		at      time.Duration
		renewed bool
	}{"at once": {0, false}, "before the last third": {accounts.AuthorityLife*2/3 - 2*time.Hour, false}, "in the last third": {accounts.AuthorityLife*2/3 + time.Hour, true}} {
		now := begin.Add(tt.at)
		again := authority(t, state, now)
		c, _ := roots(t, again.File())
		failIf(t, c.Equal(first) == tt.renewed, "%s: renewed is %t", name, !tt.renewed)
		issued := must(again.Issue([]string{"localhost"}, now))(t)
		expect(t, errorOf(issued.Leaf.Verify(x509.VerifyOptions{Roots: old, DNSName: "localhost", CurrentTime: now})), nil,
			"%s: who has the first one", name)
		if tt.renewed {
			noError(t, os.RemoveAll(filepath.Dir(again.File())))
			first, old = roots(t, authority(t, state, begin).File())
		}
	}
}

func TestDamagedAuthorityIsRefused(t *testing.T) {
	t.Parallel()
	file := func(state, name string) string { return filepath.Join(state, "tls", name) }
	for name, damage := range map[string]func(state string) error{
		"a key that others may read": func(s string) error { return os.Chmod(file(s, "ca.key"), 0o644) },
		"an open folder":             func(s string) error { return os.Chmod(filepath.Join(s, "tls"), 0o755) },
		"no key":                     func(s string) error { return os.Remove(file(s, "ca.key")) },
		"no certificate":             func(s string) error { return os.Remove(file(s, "ca.pem")) },
		"not a key":                  func(s string) error { return os.WriteFile(file(s, "ca.key"), []byte("x"), 0o600) },
		"not a certificate":          func(s string) error { return os.WriteFile(file(s, "ca.pem"), []byte("x"), 0o600) },
		"another's key": func(s string) error {
			other := t.TempDir()
			authority(t, other, time.Now())
			return os.Rename(file(other, "ca.key"), file(s, "ca.key"))
		},
	} {
		state := t.TempDir()
		authority(t, state, time.Now())
		noError(t, damage(state))
		fails(t, errorOf(accounts.OpenAuthority(state, time.Now())), nil, "%s: taken", name)
	}
}
