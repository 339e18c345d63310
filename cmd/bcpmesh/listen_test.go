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
)

// ownCertificate writes a certificate that is not of the mesh's own authority, and
// its key.
func ownCertificate(t *testing.T, folder string, names ...string) (cert, key string) {
	t.Helper()
	authority, err := accounts.OpenAuthority(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issued, err := authority.Issue(names, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(folder, "own.pem"), filepath.Join(folder, "own.key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: issued.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
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
	if got := execute(t, "", "init", dir); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	cert, key := ownCertificate(t, folder, "mesh.example", "other.example")
	url, _ := startMesh(t, dir, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(url, "tls://127.0.0.1:") {
		t.Errorf("it is at %s", url)
	}
	works := func(command string) outcome { return execute(t, "", command, "--dir", dir) }
	for _, command := range []string{"status", "doctor"} {
		if got := works(command); got.code != exitOK {
			t.Errorf("%s: %+v", command, got)
		}
	}
	ownCertificate(t, folder, "mesh.example")
	// It looks for another one once a second.
	for deadline := time.Now().Add(30 * time.Second); works("status").code != exitOK; {
		if time.Now().After(deadline) {
			t.Fatalf("behind the new certificate: %+v", works("status"))
		}
	}
	// Without its name nobody takes it for the mesh.
	creds := filepath.Join(folder, "main.creds")
	if got := execute(t, "", "creds", "issue", "main", "--dir", dir, "--out", creds); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	got := execute(t, "", "inbox", "--as", "main", "--creds", creds, "--url", url, "--ca", cert)
	if got.code != exitFailed || !strings.Contains(got.stderr, "is for another host") {
		t.Errorf("%+v", got)
	}
}

// Addresses beyond this machine need TLS or the one flag, on each listener.
//
// covers BCP-19
func TestListeningBeyondLoopback(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		l  listening
		ok bool
	}{
		"loopback":               {listening{address: "127.0.0.1:0", webSocket: "[::1]:0"}, true},
		"everywhere":             {listening{address: "0.0.0.0:0"}, false},
		"WebSocket everywhere":   {listening{address: "127.0.0.1:0", webSocket: ":0"}, false},
		"a name":                 {listening{address: "mesh.example:0"}, false},
		"everywhere with TLS":    {listening{address: "0.0.0.0:0", webSocket: ":0", ownTLS: true}, true},
		"everywhere, with files": {listening{address: "0.0.0.0:0", cert: "a", key: "b"}, true},
		"in so many words":       {listening{address: "0.0.0.0:0", webSocket: ":0", plaintext: true}, true},
		"a certificate alone":    {listening{address: "127.0.0.1:0", cert: "a"}, false},
		"both certificates":      {listening{address: "127.0.0.1:0", cert: "a", key: "b", ownTLS: true}, false},
		"TLS and not":            {listening{address: "127.0.0.1:0", ownTLS: true, plaintext: true}, false},
	} {
		if err := tt.l.check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	open := listening{address: "0.0.0.0:4222", webSocket: "127.0.0.1:8080", plaintext: true}
	if got := open.exposed(); len(got) != 1 || got[0] != "--listen 0.0.0.0:4222" {
		t.Errorf("it warns of %v", got)
	}
}
