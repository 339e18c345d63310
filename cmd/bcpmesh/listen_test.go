package main

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// ownCertificate writes a certificate that is not of the mesh's own authority, and
// its key.
func ownCertificate(t *testing.T, folder string, names ...string) (cert, key string) {
	t.Helper()
	authority := must(accounts.OpenAuthority(t.TempDir(), time.Now()))(t)
	issued := must(authority.Issue(names, time.Now()))(t)
	der := must(x509.MarshalPKCS8PrivateKey(issued.PrivateKey))(t)
	cert, key = filepath.Join(folder, "own.pem"), filepath.Join(folder, "own.key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: issued.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		noError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

// With a certificate of the operator's own, for a name that this machine does not
// even know, commands of the folder find the mesh, also behind another certificate.
//
// covers A-STRIP
func TestOwnCertificate(t *testing.T) {
	t.Parallel()
	folder, dir := t.TempDir(), filepath.Join(t.TempDir(), "office")
	succeed(t, "init", dir)
	cert, key := ownCertificate(t, folder, "mesh.example", "other.example")
	url, _ := startMesh(t, dir, "--tls-cert", cert, "--tls-key", key)
	failIf(t, !strings.HasPrefix(url, "tls://127.0.0.1:"), "it is at %s", url)
	works := func(command string) outcome { return execute(t, "", command, "--dir", dir) }
	for _, command := range []string{"status", "doctor"} {
		got := works(command)
		failIf(t, got.code != cli.ExitOK, "%s: %+v", command, got)
	}
	ownCertificate(t, folder, "mesh.example")
	// It looks for another one once a second.
	for deadline := time.Now().Add(30 * time.Second); works("status").code != cli.ExitOK; {
		if time.Now().After(deadline) {
			t.Fatalf("behind the new certificate: %+v", works("status"))
		}
	}
	// Without its name nobody takes it for the mesh.
	creds := filepath.Join(folder, "main.creds")
	succeed(t, "creds", "issue", "main", "--dir", dir, "--out", creds)
	got := execute(t, "", "inbox", "--as", "main", "--creds", creds, "--url", url, "--ca", cert)
	failIf(t, got.code != cli.ExitFailed || !strings.Contains(got.stderr, "is for another host"), "%+v", got)
}
