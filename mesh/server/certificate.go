package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

// lookTime is how often to look for a newer certificate, while clients connect.
const lookTime = time.Second

// IssuedTLS returns a config for [Config.TLS] with certificates made by issue:
// the first one now, another whenever a third of the last one's time is left. A
// failed issue is logged and retried.
func IssuedTLS(issue func(now time.Time) (tls.Certificate, error), log hclog.Logger) (*tls.Config, error) {
	next := func(current *tls.Certificate, now time.Time) (*tls.Certificate, error) {
		if current != nil {
			if life := current.Leaf.NotAfter.Sub(current.Leaf.NotBefore); now.Before(current.Leaf.NotAfter.Add(-life / 3)) {
				return current, nil
			}
		}
		c, err := issue(now)
		return &c, err
	}
	return renewingConfig(next, log, time.Now)
}

// maxCertificate bounds a PEM file.
const maxCertificate = 1 << 20

// FileTLS returns a config for [Config.TLS] with the certificate, followed by
// its intermediates, and the key from two PEM files. They are read again when
// they change; while they do not match, the previous ones stay in use, and that
// is logged.
func FileTLS(certFile, keyFile string, log hclog.Logger) (*tls.Config, error) {
	var lastCert, lastKey []byte
	next := func(current *tls.Certificate, now time.Time) (*tls.Certificate, error) {
		cert, err := disk.ReadFile(certFile, maxCertificate)
		if err != nil {
			return nil, err
		}
		key, err := disk.ReadFile(keyFile, maxCertificate)
		if err != nil {
			return nil, err
		}
		if current != nil && bytes.Equal(cert, lastCert) && bytes.Equal(key, lastKey) {
			return current, nil
		}
		c, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		if now.After(c.Leaf.NotAfter) {
			return nil, fmt.Errorf("%w at %s", errExpired, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		lastCert, lastKey = cert, key
		return &c, nil
	}
	return renewingConfig(next, log, time.Now)
}

var errExpired = errors.New("the certificate has expired")

// certificate is the one that clients get.
type certificate struct {
	next func(current *tls.Certificate, now time.Time) (*tls.Certificate, error)
	log  hclog.Logger
	now  func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	looked  time.Time
	failed  string // last logged error
}

func renewingConfig(next func(*tls.Certificate, time.Time) (*tls.Certificate, error), log hclog.Logger, now func() time.Time) (*tls.Config, error) {
	c := &certificate{next: next, log: log, now: now, looked: now()}
	var err error
	if c.current, err = next(nil, c.looked); err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}, nil
}

func (c *certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.looked) < lookTime {
		return c.current
	}
	c.looked = now
	next, err := c.next(c.current, now)
	switch {
	case err == nil:
		if next != c.current {
			c.log.Info("another certificate", "until", next.Leaf.NotAfter)
		}
		c.current, c.failed = next, ""
	case err.Error() != c.failed:
		c.failed = err.Error()
		c.log.Error("the certificate cannot be renewed, and the last one holds", "error", err, "until", c.current.Leaf.NotAfter)
	}
	return c.current
}

// NamesOf returns the host names and IP addresses of a config's certificate.
func NamesOf(config *tls.Config) ([]string, error) {
	c, err := config.GetCertificate(nil)
	if err != nil {
		return nil, err
	}
	leaf := c.Leaf
	if leaf == nil {
		if leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return nil, err
		}
	}
	names := append([]string(nil), leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names, nil
}
