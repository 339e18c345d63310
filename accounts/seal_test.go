package accounts_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
)

var passphrase = []byte("correct horse battery")

func asks(answer []byte, times *int) accounts.OpenOption {
	return accounts.Passphrase(func() ([]byte, error) {
		if times != nil {
			*times++
		}
		return answer, nil
	})
}

// secretFiles returns what the files with private keys hold, by their path.
func secretFiles(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, pattern := range []string{"keys/*.nk", "keys/*.key", "keys/" + accounts.AttestKeyFile, "tls/*.key", "*/.new-*"} {
		for _, file := range must(filepath.Glob(filepath.Join(folder, pattern)))(t) {
			found[file] = must(os.ReadFile(file))(t)
		}
	}
	stopIf(t, len(found) == 0, "there are no keys")
	return found
}

// noneOpen checks that no private key can be read without a passphrase.
func noneOpen(t *testing.T, folder string) {
	t.Helper()
	for path, content := range secretFiles(t, folder) {
		stopIf(t, bytes.Contains(content, []byte("PRIVATE KEY")) || bytes.HasPrefix(content, []byte("S")) || !bytes.Contains(content, []byte("age-encryption.org/v1\n")),
			"%s lies open", filepath.Base(path))
	}
}

// signWith opens a store and uses its keys.
func signWith(folder string, option accounts.OpenOption) error {
	store, err := accounts.Open(folder, option)
	if err != nil {
		return err
	}
	_, err = accounts.Compile(store, scopes(), now)
	return err
}

// A sealed store gives its keys to who knows the passphrase, and to nobody else;
// what is made then is sealed too. Creds of before stay good.
//
// covers P7.5, BCP-19
func TestSealedKeysNeedTheirPassphrase(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	store.LittleWork()
	before := compile(t, store, scopes())
	creds := issue(t, store)
	for _, short := range [][]byte{nil, passphrase[:accounts.MinPassphrase-1]} {
		fails(t, store.Seal(short), accounts.ErrPassphrase, "%d characters", len(short))
	}
	// A crash in between leaves some keys open: to seal again goes on.
	kept := must(os.ReadFile(filepath.Join(folder, "keys", "gateway.nk")))(t)
	noError(t, store.Seal(passphrase))
	noError(t, os.WriteFile(filepath.Join(folder, "keys", "gateway.nk"), kept, 0o600))
	fails(t, store.Seal([]byte("another passphrase")), accounts.ErrPassphrase, "sealed again with another")
	noError(t, store.Seal(passphrase))
	noneOpen(t, folder)
	if sealed, err := store.Sealed(); err != nil || !sealed {
		t.Errorf("sealed: %t, %v", sealed, err)
	}

	locked := openStore(t, folder)
	fails(t, errorOf(locked.Issue("main", 0, 0)), accounts.ErrSealed, "issued without the passphrase")
	fails(t, errorOf(accounts.Compile(locked, scopes(), now)), accounts.ErrSealed, "compiled without the passphrase")
	acts := actsOf(t, store)
	fails(t, errorOf(locked.RotateAccounts(0)), accounts.ErrSealed, "rotated without the passphrase")
	now := actsOf(t, store)
	failIf(t, !slices.Equal(now, acts), "what was refused is on record: %v", now)
	expect(t, locked.Revoke(creds.PublicKey), nil, "to revoke one needs no key")
	fails(t, signWith(folder, asks([]byte("wrong horse battery"), nil)), accounts.ErrPassphrase, "signed with a wrong passphrase")
	failed := errors.New("nobody is there")
	if err := signWith(folder, accounts.Passphrase(func() ([]byte, error) { return nil, failed })); !errors.Is(err, failed) || !errors.Is(err, accounts.ErrSealed) {
		t.Errorf("signed without an answer: %v", err)
	}

	asked := 0
	open := openStore(t, folder, asks(passphrase, &asked))
	fresh, err := open.Issue("main", 0, 0, accounts.Restricted(accounts.Restriction{Sources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	noError(t, err)
	must(open.RotateAccounts(time.Minute))(t)
	after := compile(t, open, scopes())
	user, _ := userOf(t, fresh)
	failIf(t, claimsOf(t, after, accounts.Controllers).SigningKeys[user.Issuer] == nil, "what was issued is refused")
	a, b := claimsOf(t, before, accounts.Core), claimsOf(t, after, accounts.Core)
	failIf(t, a.Subject != b.Subject || asked != 1, "the account is %s, was %s; asked %d times", b.Subject, a.Subject, asked)
	_, _, err = open.CheckpointKey()
	noError(t, err)
	fails(t, errorOf(accounts.OpenAuthority(folder, time.Now())), accounts.ErrSealed, "made an authority without a passphrase")
	must(accounts.OpenAuthority(folder, time.Now(), asks(passphrase, nil)))(t)
	noneOpen(t, folder)
}

// A sealed key without what it is sealed by is damage, and so is a seal that was
// changed.
//
// covers P7.5
func TestDamagedSealIsRefused(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	store.LittleWork()
	compile(t, store, scopes())
	noError(t, store.Seal(passphrase))
	name := filepath.Join(folder, "keys", "seal.age")
	content := must(os.ReadFile(name))(t)
	for what, damaged := range map[string][]byte{"cut": content[:len(content)-1], "changed": append(bytes.Clone(content[:len(content)-1]), content[len(content)-1]^1), "empty": nil} {
		noError(t, os.WriteFile(name, damaged, 0o600))
		fails(t, signWith(folder, asks(passphrase, nil)), nil, "%s: signed", what)
	}
	noError(t, os.Remove(name))
	fails(t, errorOf(accounts.Open(folder, asks(passphrase, nil))), nil, "without it: opened")
	fails(t, errorOf(accounts.Open(folder)), nil, "without it and a passphrase: opened")
}

// Whatever a kill leaves of sealing, between each two files, opens with
// the passphrase and is completed by the same command. No private key lies open
// then, neither of those that sign checkpoints and certificates nor in a draft that
// somebody else was killed over.
//
// covers P7.5, P11.2, BCP-19
func TestSealingIsCompletedAfterAKill(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	store.LittleWork()
	compile(t, store, scopes())
	_, public, err := store.CheckpointKey()
	noError(t, err)
	authority := must(accounts.OpenAuthority(folder, time.Now()))(t)
	certificate := must(os.ReadFile(authority.File()))(t)
	open := secretFiles(t, folder)
	noError(t, store.Seal(passphrase))
	sealed := secretFiles(t, folder)
	noneOpen(t, folder)
	works := func(what string) {
		t.Helper()
		option := asks(passphrase, nil)
		err := signWith(folder, option)
		stopIf(t, err != nil, "%s: %v", what, err)
		opened, err := accounts.Open(folder, option)
		stopIf(t, err != nil, "%s: %v", what, err)
		_, got, err := opened.CheckpointKey()
		stopIf(t, err != nil || got != public, "%s: the key of checkpoints: %v", what, err)
		_, err = accounts.OpenAuthority(folder, time.Now(), option)
		stopIf(t, err != nil, "%s: the authority: %v", what, err)
	}
	works("sealed")
	locked := openStore(t, folder)
	_, _, err = locked.CheckpointKey()
	failIf(t, !errors.Is(err, accounts.ErrSealed), "the key of checkpoints without a passphrase: %v", err)
	got, err := locked.CheckpointPublic()
	failIf(t, err != nil || got != public, "its public key: %v", err)
	fails(t, errorOf(accounts.OpenAuthority(folder, time.Now())), accounts.ErrSealed, "the authority without a passphrase")
	_, err = accounts.OpenAuthority(folder, time.Now(), asks([]byte("wrong horse battery"), nil))
	failIf(t, !errors.Is(err, accounts.ErrPassphrase), "the authority with a wrong one: %v", err)
	now, err := os.ReadFile(authority.File())
	failIf(t, err != nil || !bytes.Equal(now, certificate), "agents know another certificate: %v", err)
	paths := slices.Sorted(maps.Keys(open))
	for done := 0; done <= len(paths); done += 3 {
		for i, path := range paths {
			content := open[path]
			if i < done {
				content = sealed[path]
			}
			noError(t, os.WriteFile(path, content, 0o600))
		}
		noError(t, os.WriteFile(filepath.Join(folder, "tls", ".new-0123"), open[paths[0]], 0o600))
		what := fmt.Sprintf("%d of %d are sealed", done, len(paths))
		works(what)
		err := store.Seal(passphrase)
		stopIf(t, err != nil, "%s: %v", what, err)
		works(what)
		noneOpen(t, folder)
		drafts, err := filepath.Glob(filepath.Join(folder, "*", ".new-*"))
		stopIf(t, err != nil || len(drafts) > 0, "%s: %v are left: %v", what, drafts, err)
	}
}
