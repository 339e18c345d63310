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
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// listening says where a mesh listens for agents, and what it shows them.
type listening struct {
	address   string
	ownTLS    bool // by the mesh's own authority
	names     []string
	cert, key string // PEM files
}

func (l *listening) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.address, "listen", "127.0.0.1:4222", "`HOST:PORT` for agents; port 0 means any free one")
	f.BoolVar(&l.ownTLS, "tls", false, "require TLS, with a certificate of the mesh's own authority")
	f.StringArrayVar(&l.names, "tls-name", nil, "with --tls: a further `HOST` that the certificate is for; may be repeated")
	f.StringVar(&l.cert, "tls-cert", "", "require TLS, with the certificate in this PEM `FILE`")
	f.StringVar(&l.key, "tls-key", "", "the key of --tls-cert, a PEM `FILE`")
}

// check refuses what makes no sense, before anything is made.
func (l *listening) check() error {
	switch {
	case l.ownTLS && l.cert+l.key != "":
		return cli.Usagef("up: --tls makes a certificate, and --tls-cert names one").WithHint("leave out one of them")
	case (l.cert == "") != (l.key == ""):
		return cli.Usagef("up: --tls-cert and --tls-key must be given together")
	case len(l.names) > 0 && !l.ownTLS:
		return cli.Usagef("up: --tls-name needs --tls")
	}
	for _, name := range l.names {
		if net.ParseIP(name) == nil && !meshdir.HostName.MatchString(name) {
			return cli.Usagef("up: --tls-name: %s is neither a host name nor an IP address", cli.Quoted(name))
		}
	}
	return meshdir.CheckListen("--listen", l.address, l.ownTLS || l.cert != "")
}

// beyond reports whether another machine can reach the address.
func (l *listening) beyond() bool {
	host, _, err := net.SplitHostPort(l.address)
	return err == nil && !guard.Loopback(host)
}

// tls makes what the listener shows, nil for nothing.
func (l *listening) tls(state string, log hclog.Logger) (*tls.Config, meshdir.Trust, error) {
	switch {
	case l.ownTLS:
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
	case l.cert != "":
		config, err := server.FileTLS(l.cert, l.key, log)
		if err != nil {
			return nil, meshdir.Trust{}, cli.Failf("--tls-cert %s: %s", cli.Quoted(l.cert), cli.FileReason(err)).WithHint("it needs a certificate and its key, as PEM files; bcpmesh up --tls makes its own")
		}
		names, err := server.NamesOf(config)
		if err != nil || len(names) == 0 {
			return nil, meshdir.Trust{}, cli.Failf("--tls-cert %s names no host", cli.Quoted(l.cert)).WithHint("agents check the host by the certificate's subjectAltName")
		}
		t := meshdir.Trust{CA: cli.Absolute(l.cert)}
		if host, _, err := net.SplitHostPort(l.address); err != nil || !slices.Contains(names, host) {
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
	names := append([]string{"localhost", "127.0.0.1", "::1"}, l.names...)
	host, _, err := net.SplitHostPort(l.address)
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
