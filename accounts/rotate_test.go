package accounts_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// actsOf returns the changes that wait for their record, as acts.
func actsOf(t *testing.T, store *accounts.Store) []bcp.CredentialAct {
	t.Helper()
	pending, _, err := store.Pending(time.Now())
	noError(t, err)
	var acts []bcp.CredentialAct
	for _, c := range pending {
		acts = append(acts, c.Act)
	}
	return acts
}

// trusts reports whether one key alone has signed all accounts, and that the root of
// trust names it and no other.
func trusts(t *testing.T, b accounts.Bundle) (identity, signing string) {
	t.Helper()
	operator, err := jwt.DecodeOperatorClaims(b.Operator)
	if err != nil || len(operator.SigningKeys) != 1 || operator.Issuer != operator.Subject || !operator.StrictSigningKeyUsage {
		t.Fatalf("%+v: %v", operator, err)
	}
	for _, a := range b.Accounts {
		if issuer := claimsOf(t, b, a.Name).Issuer; issuer != operator.SigningKeys[0] {
			t.Errorf("%s is signed by %s", a.Name, issuer)
		}
	}
	return operator.Subject, operator.SigningKeys[0]
}

// Nothing is signed by an operator's key that was replaced, and what it had signed
// says the same under the new one. Each replacement is on record once, also where a
// crash left the rest to the next compilation.
//
// covers P7.5, P11.1, BCP-19
func TestOperatorIsReplaced(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	before := compile(t, store, scopes())
	creds := issue(t, store)
	identity, signing := trusts(t, before)

	noError(t, store.RotateOperator(false))
	second := compile(t, store, scopes())
	identity2, signing2 := trusts(t, second)
	if identity2 != identity || signing2 == signing || !admitted(t, second, creds) {
		t.Errorf("the operator is %s, was %s; it signs with %s, before with %s", identity2, identity, signing2, signing)
	}
	away := filepath.Join(folder, "operator.nk")
	noError(t, os.Rename(filepath.Join(folder, "keys", "operator.nk"), away))
	if err := store.RotateOperator(false); !errors.Is(err, accounts.ErrOperatorAway) {
		t.Errorf("without the operator's key: %v", err)
	}
	if _, kept := trusts(t, compile(t, store, scopes())); kept != signing2 {
		t.Error("what was refused has changed something")
	}
	noError(t, store.RotateOperator(true))
	third := compile(t, store, scopes())
	identity3, signing3 := trusts(t, third)
	if identity3 == identity || signing3 == signing2 || !admitted(t, third, creds) {
		t.Errorf("the operator is %s, was %s; it signs with %s, before with %s", identity3, identity, signing3, signing2)
	}
	// Whose key is in the store is the operator: what puts the old one there is on record.
	noError(t, os.Rename(away, filepath.Join(folder, "keys", "operator.nk")))
	if got, _ := trusts(t, compile(t, store, scopes())); got != identity {
		t.Errorf("the key in the store is %s, and the operator %s", identity, got)
	}
	// A crash between the new key and the new root of trust.
	pair, err := nkeys.CreateOperator()
	noError(t, err)
	seed, err := pair.Seed()
	noError(t, err)
	noError(t, os.WriteFile(filepath.Join(folder, "keys", "operator-signing.nk"), seed, 0o600))
	public, err := pair.PublicKey()
	noError(t, err)
	if _, signs := trusts(t, compile(t, store, scopes())); signs != public {
		t.Errorf("%s signs", signs)
	}
	want := []bcp.CredentialAct{bcp.CredentialIssued, bcp.CredentialOperator, bcp.CredentialIdentity, bcp.CredentialOperator, bcp.CredentialIdentity, bcp.CredentialOperator}
	if got := actsOf(t, store); !slices.Equal(got, want) {
		t.Errorf("the audit shows %v, want %v", got, want)
	}
}

// What the keys of an account have signed is let in until the overlap ends, and
// refused from then on; other accounts do not notice. Invitations end with it too,
// and this process's own logins have none.
//
// covers A-REVOKED, A-JWTSELF, P7.5, P11.1
func TestKeysOfAnAccountAreReplaced(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	first := compile(t, store, scopes())
	old := issue(t, store)
	token, err := store.Invite("researcher", 0, time.Hour, 0, accounts.Restriction{})
	noError(t, err)
	start := time.Now()
	for _, name := range []string{accounts.Readers, accounts.Joiners, accounts.Core, accounts.System} {
		noError(t, store.RotateAccount(name, time.Minute))
	}
	if err := store.RotateAccount("READERS-2", time.Minute); !errors.Is(err, accounts.ErrUnknown) {
		t.Errorf("an account that there is not: %v", err)
	}
	if err := store.RotateAccount(accounts.Readers, -time.Second); err == nil {
		t.Error("an overlap of less than nothing")
	}
	over := time.Now().Add(time.Minute + time.Second) // of each rotation, however long they took
	next := issue(t, store)
	meanwhile, behind := compileAt(t, store, scopes(), start), compileAt(t, store, scopes(), over)
	if !admitted(t, meanwhile, old) || !admitted(t, meanwhile, next) {
		t.Error("in the overlap somebody is refused")
	}
	if admitted(t, behind, old) || !admitted(t, behind, next) {
		t.Error("behind the overlap the old ones are let in, or the new ones refused")
	}
	was, _ := first.Account(accounts.Controllers)
	if is, _ := behind.Account(accounts.Controllers); was.Digest != is.Digest {
		t.Error("another account has changed")
	}
	user, _ := userOf(t, old)
	if claimsOf(t, behind, accounts.Readers).SigningKeys[user.Issuer] != nil {
		t.Error("the old key signs on")
	}
	join := claimsOf(t, first, accounts.Joiners).SigningKeys.Keys()[0]
	if during, after := claimsOf(t, meanwhile, accounts.Joiners).SigningKeys, claimsOf(t, behind, accounts.Joiners).SigningKeys; during[join] == nil || len(during) != 2 || after[join] != nil || len(after) != 1 {
		t.Errorf("invitations: %d keys in the overlap, %d behind", len(during), len(after))
	}
	for at, want := range map[time.Time]int{start: 1, over: 0} {
		if open, err := store.Invitations(at); err != nil || len(open) != want || want > 0 && open[0].PublicKey != token.PublicKey {
			t.Errorf("%d invitations at %v: %v", len(open), at, err)
		}
	}
	for _, name := range []string{accounts.Core, accounts.System} {
		was, is := claimsOf(t, first, name).SigningKeys.Keys(), claimsOf(t, meanwhile, name).SigningKeys.Keys()
		if len(is) != 1 || slices.Contains(was, is[0]) {
			t.Errorf("%s: signed by %v, before by %v", name, is, was)
		}
	}
	if first.Gateway.JWT == meanwhile.Gateway.JWT || first.Gateway.Signer.PublicKey() == meanwhile.Gateway.Signer.PublicKey() || first.Monitor.Signer.PublicKey() == meanwhile.Monitor.Signer.PublicKey() {
		t.Error("a login of this process is as it was")
	}
}

// Credentials whose signing key was replaced are replaced like any others, once, and
// never live on by it.
//
// covers A-REVOKED
func TestCredsOfAReplacedKeyAreReplaced(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	compile(t, store, scopes())
	old := issue(t, store)
	start := time.Now()
	noError(t, store.RotateAll(false, time.Minute))
	next, err := store.Rotate(old.PublicKey, time.Hour, 0)
	noError(t, err)
	if _, err := store.Rotate(old.PublicKey, time.Hour, 0); !errors.Is(err, accounts.ErrNoUser) {
		t.Errorf("twice: %v", err)
	}
	// An account has no room for a third key of everybody.
	acts := actsOf(t, store)
	for name, rotate := range map[string]func(time.Duration) error{
		"an agent":    func(d time.Duration) error { return store.RotateScope("researcher", 0, d) },
		"an account":  func(d time.Duration) error { return store.RotateAccount(accounts.Readers, d) },
		"invitations": func(d time.Duration) error { return store.RotateAccount(accounts.Joiners, d) },
		"all":         func(d time.Duration) error { return store.RotateAll(false, d) },
	} {
		if err := rotate(time.Minute); !errors.Is(err, accounts.ErrOverlap) {
			t.Errorf("%s in the overlap: %v", name, err)
		}
	}
	if now := actsOf(t, store); !slices.Equal(now, acts) {
		t.Errorf("what was refused is on record: %v", now)
	}
	if b := compileAt(t, store, scopes(), start); !admitted(t, b, old) || !admitted(t, b, next) {
		t.Error("in the overlap somebody is refused")
	}
	if b := compileAt(t, store, scopes(), start.Add(time.Minute+time.Second)); admitted(t, b, old) || !admitted(t, b, next) {
		t.Error("behind the overlap the old ones are let in, or the new ones refused")
	}
	if err := store.RotateAll(false, 0); err != nil {
		t.Errorf("at once: %v", err)
	}
	if b := compileAt(t, store, scopes(), time.Now()); admitted(t, b, old) || admitted(t, b, next) {
		t.Error("without an overlap there is one")
	}
}

// Sealed keys are replaced by sealed ones, and not without the passphrase.
//
// covers P7.5, BCP-19
func TestSealedKeysAreReplacedBySealedOnes(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	store.LittleWork()
	compile(t, store, scopes())
	noError(t, store.Seal(passphrase))
	locked := openStore(t, folder)
	wrong := openStore(t, folder, asks([]byte("wrong horse battery"), nil))
	acts := actsOf(t, store)
	for name, rotate := range map[string]func(*accounts.Store) error{
		"the operator": func(s *accounts.Store) error { return s.RotateOperator(true) },
		"an account":   func(s *accounts.Store) error { return s.RotateAccount(accounts.Readers, time.Minute) },
		"the gateway":  func(s *accounts.Store) error { return s.RotateAccount(accounts.Core, 0) },
		"invitations":  func(s *accounts.Store) error { return s.RotateAccount(accounts.Joiners, 0) },
		"all":          func(s *accounts.Store) error { return s.RotateAll(true, 0) },
	} {
		if err := rotate(locked); !errors.Is(err, accounts.ErrSealed) {
			t.Errorf("%s without a passphrase: %v", name, err)
		}
		if err := rotate(wrong); !errors.Is(err, accounts.ErrPassphrase) {
			t.Errorf("%s with a wrong one: %v", name, err)
		}
	}
	if now := actsOf(t, store); !slices.Equal(now, acts) {
		t.Errorf("what was refused is on record: %v", now)
	}
	open := openStore(t, folder, asks(passphrase, nil))
	noError(t, open.RotateAll(true, 0))
	compile(t, open, scopes())
	if lie := openSeeds(t, folder); len(lie) > 0 {
		t.Errorf("%v were made open", lie)
	}
}
