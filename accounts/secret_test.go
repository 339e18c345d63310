package accounts_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/accounts"
)

// covers P7.5
func TestSecretsShowNothing(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	bundle := compile(t, store, scopes())
	creds := must(store.Issue("main", 0, 0))(t)
	authority, attester := authority(t, folder, now), must(store.Attester())(t)
	checkpoints, _, err := store.CheckpointKey()
	noError(t, err)
	_, pair := userOf(t, creds)
	secrets := [][]byte{must(pair.Seed())(t)}
	for file, secret := range secretFiles(t, folder) {
		if block, _ := pem.Decode(secret); block != nil {
			secret = block.Bytes[16:] // behind what each such key begins with
		} else if parts := strings.SplitN(string(secret), "+", 5); len(parts) == 5 {
			secret = []byte(strings.TrimSpace(parts[4]))
		}
		stopIf(t, len(secret) < 20, "%s holds %d bytes", file, len(secret))
		secrets = append(secrets, secret)
	}
	type nested struct{ inner any }
	values := []any{
		creds, &creds, []accounts.Creds{creds}, nested{creds}, &nested{&creds}, map[string]any{"c": creds},
		bundle, &bundle, nested{bundle}, bundle.Gateway, &bundle.Gateway, bundle.Monitor.Signer, nested{bundle.Monitor.Signer},
		store, *store, nested{store}, authority, nested{authority}, attester, nested{attester}, checkpoints, nested{checkpoints},
	}
	for _, v := range values {
		var text strings.Builder
		for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
			for _, flag := range []string{"", "+", "#", "-", " ", "0", "200", ".200"} {
				fmt.Fprintf(&text, "%"+flag+string(verb)+"\n", v)
			}
		}
		encoded := must(json.Marshal(v))(t)
		text.Write(encoded)
		for _, s := range secrets {
			seed := string(s)
			hexed, raw := fmt.Sprintf("%x", seed), strings.Trim(fmt.Sprint(s[:16]), "[]")
			for _, leak := range []string{seed, seed[:20], hexed[:40], strings.ToUpper(hexed[:40]), raw} {
				stopIf(t, strings.Contains(text.String(), leak), "%T shows a private key", v)
			}
		}
	}
}

// covers P7.5
func TestZeroValuesHoldNothing(t *testing.T) {
	t.Parallel()
	fails(t, errorOf((accounts.Signer{}).Sign([]byte("x"))), nil, "the zero signer signed")
	path := filepath.Join(t.TempDir(), "x")
	failIf(t, (accounts.Creds{}).WriteFile(path) == nil || (accounts.Creds{}).Text() != nil, "the zero creds hold something")
	failIf(t, (accounts.Stamp{}).Same(accounts.Stamp{}), "the zero stamp is one")
	_, _, ok := (accounts.Bundle{}).ScopeOf("")
	failIf(t, ok, "the zero bundle knows a scope")
}

// covers P7.5
func TestWriteFileIsPrivateAndReplacesNothing(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	compile(t, store, scopes())
	creds := must(store.Issue("main", 0, 0))(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "main.creds")
	noError(t, creds.WriteFile(path))
	content, err := os.ReadFile(path)
	failIf(t, err != nil || string(content) != string(creds.Text()),
		"%v: wrote %d bytes of %d", err, len(content), len(creds.Text()))
	info, err := os.Stat(path)
	failIf(t, err != nil || info.Mode() != 0o600, "mode %v, %v", info.Mode(), err)
	fails(t, creds.WriteFile(path), fs.ErrExist, "replaced a file")
	link := filepath.Join(folder, "link.creds")
	noError(t, os.Symlink("elsewhere", link))
	fails(t, creds.WriteFile(link), fs.ErrExist, "wrote through a link")
	entries, err := os.ReadDir(folder)
	failIf(t, err != nil || len(entries) != 2, "left behind: %v, %v", entries, err)
}
