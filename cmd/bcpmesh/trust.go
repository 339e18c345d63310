package main

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"regexp"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
)

var hostName = regexp.MustCompile(`^(?i:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(?i:\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// options are those of a connection that trusts this alone. Where there is
// nothing, the system's authorities are trusted.
func (t trust) options() ([]nats.Option, error) {
	roots, err := t.roots()
	if roots == nil {
		return nil, err
	}
	return []nats.Option{nats.Secure(&tls.Config{RootCAs: roots, ServerName: t.Name, MinVersion: tls.VersionTLS13})}, nil
}

// roots is what it trusts, nil for what the system does.
func (t trust) roots() (*x509.CertPool, error) {
	if t.CA == "" {
		return nil, nil
	}
	_, roots, err := accounts.ReadAuthority(t.CA)
	if err != nil {
		return nil, failf("the certificate %s cannot be used: %s", quoted(t.CA), reasonOf(err)).withHint("it is a PEM file; the operator has it, at the path that bcpmesh up shows")
	}
	return roots, nil
}

// absolute is a path from anywhere; what has none stays.
func absolute(name string) string {
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}
