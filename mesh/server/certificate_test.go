package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func shown(t *testing.T, config *tls.Config) *x509.Certificate {
	t.Helper()
	c := must(config.GetCertificate(nil))
	return c.Leaf
}

// A certificate that is issued is replaced while a third of its time is left, and
// outlives failures to do so.
func TestIssuedCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	authority := must(accounts.OpenAuthority(t.TempDir(), time.Now()))
	synctest.Test(t, func(t *testing.T) {
		var failure error
		config := must(IssuedTLS(func(now time.Time) (tls.Certificate, error) {
			if failure != nil {
				return tls.Certificate{}, failure
			}
			return authority.Issue([]string{"mesh.example"}, now)
		}, hclog.NewNullLogger()))
		expect(t, config.MinVersion, tls.VersionTLS13, "older versions of TLS are spoken")
		first := shown(t, config)
		time.Sleep(accounts.CertificateLife*2/3 - 2*time.Hour)
		failIf(t, !shown(t, config).Equal(first), "replaced before its time")
		time.Sleep(3 * time.Hour)
		failure = errors.New("no disk")
		failIf(t, !shown(t, config).Equal(first), "another one, although none was issued")
		failure = nil
		failIf(t, !shown(t, config).Equal(first), "it was looked again within a second")
		time.Sleep(lookTime)
		second := shown(t, config)
		failIf(t, second.Equal(first) || time.Until(second.NotAfter) < accounts.CertificateLife-time.Minute,
			"not renewed: until %s", second.NotAfter)
		failure = errors.New("no disk")
		_, err := IssuedTLS(func(time.Time) (tls.Certificate, error) { return tls.Certificate{}, failure }, hclog.NewNullLogger())
		failIf(t, !errors.Is(err, failure), "a start without a certificate: %v", err)
	})
}

// pair writes a certificate and its key.
func pair(t *testing.T, folder string, now time.Time, name string) (cert, key string) {
	t.Helper()
	authority := must(accounts.OpenAuthority(t.TempDir(), now))
	issued := must(authority.Issue([]string{name}, now))
	der := must(x509.MarshalPKCS8PrivateKey(issued.PrivateKey))
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: issued.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		noError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

// Files of the operator's own are read again when they change, and the last ones
// hold while they are not whole.
func TestCertificateFilesAreReloaded(t *testing.T) {
	t.Parallel()
	folder, log := t.TempDir(), &strings.Builder{}
	cert, key := pair(t, folder, time.Now(), "one.example")
	synctest.Test(t, func(t *testing.T) {
		config := must(FileTLS(cert, key, hclog.New(&hclog.LoggerOptions{Output: log})))
		name := func() string {
			time.Sleep(lookTime)
			names, err := NamesOf(config)
			stopIf(t, err != nil || len(names) != 1, "%v %v", names, err)
			return names[0]
		}
		// The clock of the test stands before the certificate's time: it is not
		// judged here, but by who connects.
		expect(t, name(), "one.example", "not what the files say")
		other, _ := pair(t, t.TempDir(), time.Now(), "two.example")
		noError(t, os.Rename(other, cert))
		for range 2 {
			expect(t, name(), "one.example", "a certificate without its key is shown")
		}
		expect(t, strings.Count(log.String(), "cannot be renewed"), 1, "the log has: %s", log)
		pair(t, folder, time.Now(), "three.example")
		expect(t, name(), "three.example", "the new pair is not taken")
		noError(t, os.Remove(key))
		expect(t, name(), "three.example", "lost with its file")
		for file, now := range map[string]time.Time{"expired": time.Now().Add(-accounts.CertificateLife - time.Second), "good": time.Now()} {
			folder := t.TempDir()
			cert, key := pair(t, folder, now, file)
			_, err := FileTLS(cert, key, hclog.NewNullLogger())
			failIf(t, errors.Is(err, errExpired) != (file == "expired"), "%s: %v", file, err)
		}
		_, err := FileTLS(cert, key, hclog.NewNullLogger())
		failIf(t, !errors.Is(err, os.ErrNotExist), "without a key: %v", err)
	})
	if entries, err := os.ReadDir(folder); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "cert.pem" }) {
		t.Error(entries, err)
	}
}

var noError, failIf, stopIf, eventually = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Eventually
