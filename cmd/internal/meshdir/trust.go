package meshdir

import (
	"crypto/tls"
	"crypto/x509"
	"regexp"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// HostName matches the name of a host, as certificates carry it.
var HostName = regexp.MustCompile(`^(?i:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(?i:\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// Options are those of a connection that trusts this alone. Where there is
// nothing, the system's authorities are trusted.
func (t Trust) Options() ([]nats.Option, error) {
	roots, err := t.Roots()
	if roots == nil {
		return nil, err
	}
	return []nats.Option{nats.Secure(&tls.Config{RootCAs: roots, ServerName: t.Name, MinVersion: tls.VersionTLS13})}, nil
}

// Roots is what it trusts, nil for what the system does.
func (t Trust) Roots() (*x509.CertPool, error) {
	if t.CA == "" {
		return nil, nil
	}
	_, roots, err := accounts.ReadAuthority(t.CA)
	if err != nil {
		return nil, cli.Failf("the certificate %s cannot be used: %s", cli.Quoted(t.CA), cli.FileReason(err)).WithHint("it is a PEM file; the operator has it, at the path that bcpmesh up shows")
	}
	return roots, nil
}

// Trust is how those on this machine know the mesh.
type Trust struct {
	CA   string `json:"ca,omitempty"`          // PEM file with what they trust
	Name string `json:"server_name,omitempty"` // what the certificate is for, if that is not the URL's host
}
