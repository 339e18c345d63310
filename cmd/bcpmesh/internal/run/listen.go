package run

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// listening says where a mesh listens for agents, and what it shows them.
type listening struct {
	Listen  string   `default:"127.0.0.1:4222"`
	TLS     bool     // by the mesh's own authority
	Names   []string `flag:"tls-name"`
	TLSCert string   `flag:"tls-cert"` // PEM files
	TLSKey  string   `flag:"tls-key"`
}

// check refuses what makes no sense, before anything is made.
func (l *listening) check() error {
	switch {
	case l.TLS && l.TLSCert+l.TLSKey != "":
		return cli.Usagef("up: --tls makes a certificate, and --tls-cert names one").WithHint("leave out one of them")
	case (l.TLSCert == "") != (l.TLSKey == ""):
		return cli.Usagef("up: --tls-cert and --tls-key must be given together")
	case len(l.Names) > 0 && !l.TLS:
		return cli.Usagef("up: --tls-name needs --tls")
	}
	for _, name := range l.Names {
		if net.ParseIP(name) == nil && !meshdir.HostName.MatchString(name) {
			return cli.Usagef("up: --tls-name: %s is neither a host name nor an IP address", cli.Quoted(name))
		}
	}
	return meshdir.CheckListen("--listen", l.Listen, l.TLS || l.TLSCert != "")
}

// beyond reports whether another machine can reach the address.
func (l *listening) beyond() bool {
	host, _, err := net.SplitHostPort(l.Listen)
	return err == nil && !guard.Loopback(host)
}

// secure makes what the listener shows, nil for nothing.
func (l *listening) secure(state string, log hclog.Logger) (*tls.Config, meshdir.Trust, error) {
	switch {
	case l.TLS:
		authority, err := accounts.OpenAuthority(state, time.Now(), meshdir.Unlock())
		if err != nil {
			return nil, meshdir.Trust{}, authorityFailure(err, state)
		}
		names := l.allNames()
		config, err := server.IssuedTLS(func(now time.Time) (tls.Certificate, error) { return authority.Issue(names, now) }, log)
		if err != nil {
			return nil, meshdir.Trust{}, cli.Failf("--tls: %s", err)
		}
		return config, meshdir.Trust{CA: authority.File()}, nil
	case l.TLSCert != "":
		config, err := server.FileTLS(l.TLSCert, l.TLSKey, log)
		if err != nil {
			return nil, meshdir.Trust{}, cli.Failf("--tls-cert %s: %s", cli.Quoted(l.TLSCert), cli.FileReason(err)).WithHint("it needs a certificate and its key, as PEM files; bcpmesh up --tls makes its own")
		}
		names, err := server.NamesOf(config)
		if err != nil || len(names) == 0 {
			return nil, meshdir.Trust{}, cli.Failf("--tls-cert %s names no host", cli.Quoted(l.TLSCert)).WithHint("agents check the host by the certificate's subjectAltName")
		}
		t := meshdir.Trust{CA: cli.Absolute(l.TLSCert)}
		if host, _, err := net.SplitHostPort(l.Listen); err != nil || !slices.Contains(names, host) {
			t.Name = names[0]
		}
		return config, t, nil
	}
	return nil, meshdir.Trust{}, nil
}

func authorityFailure(err error, state string) error {
	f := cli.Failf("--tls: %s", err)
	switch {
	case errors.Is(err, accounts.ErrUnsafe):
		return f.WithHint("only you may read its key: chmod -R go= %s", state)
	case errors.Is(err, fs.ErrNotExist):
		return f.WithHint("a part of it is lost: restore %s/tls from a backup, or remove it, and give agents the new certificate", state)
	}
	return f
}

// allNames are those under which this machine may be reached at the listener.
func (l *listening) allNames() []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, l.Names...)
	host, _, err := net.SplitHostPort(l.Listen)
	switch ip := net.ParseIP(host); {
	case err != nil:
	case host == "" || ip != nil && ip.IsUnspecified():
		names = append(names, machineNames()...)
	default:
		names = append(names, host)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// machineNames are this machine's host name and addresses.
func machineNames() []string {
	var names []string
	if name, err := os.Hostname(); err == nil && meshdir.HostName.MatchString(name) {
		names = append(names, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return names
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			names = append(names, network.IP.String())
		}
	}
	return names
}
