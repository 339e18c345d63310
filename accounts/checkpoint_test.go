package accounts_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/bcpmesh/bcpmesh/accounts"
)

// The key of the checkpoints is made once, for its owner alone, and verifies with its public half.
//
// covers P11.2, P7.5
func TestCheckpointKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := must(accounts.Create(dir))(t)
	signer, public, err := store.CheckpointKey()
	noError(t, err)
	again, samePublic, err := store.CheckpointKey()
	stopIf(t, err != nil || samePublic != public || again.KeyHash() != signer.KeyHash(),
		"the second call gave another key: %v", err)
	failIf(t, !strings.HasPrefix(signer.Name(), "bcpmesh/") || !strings.HasPrefix(public, signer.Name()+"+"),
		"the key is named %q, its public half begins %.20q", signer.Name(), public)
	file := filepath.Join(dir, "keys", "checkpoint.key")
	content := must(os.ReadFile(file))(t)
	secret, _, _ := strings.Cut(string(content), "\n")
	secret = strings.SplitN(secret, "+", 5)[4] // the key may have a plus in it
	signed := must(note.Sign(&note.Note{Text: signer.Name() + "\n"}, signer))(t)
	verifier := must(note.NewVerifier(public))(t)
	must(note.Open(signed, note.VerifierList(verifier)))(t)

	info, err := os.Stat(file)
	failIf(t, err != nil || info.Mode().Perm() != 0o600, "the key's file has mode %v (%v)", info.Mode(), err)
	noError(t, os.Chmod(file, 0o644))
	_, _, err = store.CheckpointKey()
	failIf(t, !errors.Is(err, accounts.ErrUnsafe), "a key that others may read: %v", err)
	for _, damaged := range []string{"", string(content[1:]), string(content) + "x", string(content[:len(content)/2])} {
		noError(t, errors.Join(os.Remove(file), os.WriteFile(file, []byte(damaged), 0o600)))
		_, _, err := store.CheckpointKey()
		failIf(t, err == nil || strings.Contains(err.Error(), secret), "a damaged key was taken, or shown: %v", err)
	}
}
