package web

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// One passkey too many locks nobody out but the last, and is said once.
//
// covers A-SLOW
func TestTooManyPasskeys(t *testing.T) {
	t.Parallel()
	key := base64.RawURLEncoding.EncodeToString(meshtest.NewPasskey(t, "mesh.example.org").PublicKey)
	dir := t.TempDir()
	add := func(n int) {
		content, err := json.Marshal(accounts.Passkey{RPID: "mesh.example.org", PublicKey: key, ID: fmt.Sprintf("%04d", n)})
		noError(t, err)
		noError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%04d%s", n, passkeySuffix)), content, 0o600))
	}
	for n := range maxPeople {
		add(n)
	}
	var said bytes.Buffer
	p := &People{Folder: dir, Logger: hclog.New(&hclog.LoggerOptions{Output: &said})}
	logsIn := func(n int) bool { _, ok := p.passkey(fmt.Sprintf("%04d", n)); return ok }
	if !logsIn(0) || !logsIn(maxPeople-1) || said.Len() > 0 {
		t.Errorf("at the limit: %s", &said)
	}
	add(maxPeople)
	if !logsIn(0) || !logsIn(maxPeople-1) || logsIn(maxPeople) || strings.Count(said.String(), "too many passkeys") != 1 {
		t.Errorf("past the limit: %s", &said)
	}
}

// Whoever cannot log in because of a file is told of by that file.
func TestCredsThatAreNoFile(t *testing.T) {
	t.Parallel()
	passkey := accounts.Passkey{RPID: "mesh.example.org", PublicKey: base64.RawURLEncoding.EncodeToString(meshtest.NewPasskey(t, "mesh.example.org").PublicKey), ID: "AAAA"}
	p := &People{Folder: t.TempDir(), Logger: hclog.NewNullLogger()}
	content, err := json.Marshal(passkey)
	noError(t, errors.Join(err, os.WriteFile(filepath.Join(p.Folder, "kim"+passkeySuffix), content, 0o600), os.Mkdir(filepath.Join(p.Folder, "kim"+credsSuffix), 0o700)))
	if _, err := p.connect(t.Context(), passkey); err == nil || !strings.Contains(err.Error(), "kim"+credsSuffix) {
		t.Error(err)
	}
}
