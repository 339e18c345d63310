package accounts_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	system, _ := b.Account(accounts.System)
	stopIf(t, err != nil || len(operator.SigningKeys) != 1 || operator.Issuer != operator.Subject || !operator.StrictSigningKeyUsage || operator.SystemAccount != system.PublicKey,
		"%+v: %v", operator, err)
	for _, a := range b.Accounts {
		expect(t, claimsOf(t, b, a.Name).Issuer, operator.SigningKeys[0], "%s is signed by", a.Name)
	}
	return operator.Subject, operator.SigningKeys[0]
}

// replaceOperatorKey puts another key into the store, as whoever has the folder can, and
// returns its public key.
func replaceOperatorKey(t *testing.T, folder, name string) string {
	t.Helper()
	pair := must(nkeys.CreateOperator())(t)
	seed := must(pair.Seed())(t)
	noError(t, os.WriteFile(filepath.Join(folder, "keys", name+".nk"), seed, 0o600))
	return must(pair.PublicKey())(t)
}

// Whose key is in the store is the operator: what its keys had signed before says the same
// under the others, and whoever puts them there is on record.
//
// covers P7.5, P11.1, BCP-19
func TestOperatorIsReplaced(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	before := compile(t, store, scopes())
	creds := issue(t, store)
	identity, _ := trusts(t, before)

	public := replaceOperatorKey(t, folder, "operator-signing")
	second := compile(t, store, scopes())
	if is, signs := trusts(t, second); is != identity || signs != public || !admitted(t, second, creds) {
		t.Errorf("the operator is %s, was %s; it signs with %s, and has %s", is, identity, signs, public)
	}
	place, away := filepath.Join(folder, "keys", "operator.nk"), filepath.Join(folder, "operator.nk")
	noError(t, os.Rename(place, away))
	_, kept := trusts(t, compile(t, store, scopes()))
	failIf(t, kept != public, "without the operator's key %s signs", kept)
	public = replaceOperatorKey(t, folder, "operator-signing")
	fails(t, errorOf(accounts.Compile(store, scopes(), time.Now())), accounts.ErrOperatorAway,
		"without the operator's key, which would have to sign")
	other := replaceOperatorKey(t, folder, "operator")
	third := compile(t, store, scopes())
	if is, signs := trusts(t, third); is != other || signs != public || !admitted(t, third, creds) {
		t.Errorf("the operator is %s, put there was %s; it signs with %s", is, other, signs)
	}
	noError(t, os.Rename(away, place))
	got, _ := trusts(t, compile(t, store, scopes()))
	failIf(t, got != identity, "the key in the store is %s, and the operator %s", identity, got)
	want := []bcp.CredentialAct{bcp.CredentialIssued, bcp.CredentialOperator, bcp.CredentialIdentity, bcp.CredentialOperator, bcp.CredentialIdentity}
	if got := actsOf(t, store); !slices.Equal(got, want) {
		t.Errorf("the audit shows %v, want %v", got, want)
	}
}

// What the keys of accounts have signed is let in until the overlap ends, and refused
// from then on. Invitations end with it too. The logins of this process are the
// operator's matter. In an overlap there is no second one; without one, all credentials
// end at once.
//
// covers A-REVOKED, A-JWTSELF, P7.5, P11.1
func TestKeysOfAccountsAreReplaced(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	first := compile(t, store, scopes())
	old := issue(t, store)
	token := must(store.Invite("researcher", 0, time.Hour, 0, accounts.Restriction{}, false))(t)
	start := time.Now()
	fails(t, errorOf(store.RotateAccounts(-time.Second)), nil, "an overlap of less than nothing")
	must(store.RotateAccounts(time.Minute))(t)
	over := time.Now().Add(time.Minute + time.Second) // however long it took
	next := issue(t, store)
	meanwhile, behind := compileAt(t, store, scopes(), start), compileAt(t, store, scopes(), over)
	failIf(t, !admitted(t, meanwhile, old) || !admitted(t, meanwhile, next), "in the overlap somebody is refused")
	failIf(t, admitted(t, behind, old) || !admitted(t, behind, next),
		"behind the overlap the old ones are let in, or the new ones refused")
	oldUser, _ := userOf(t, old)
	user, _ := userOf(t, next)
	failIf(t, claimsOf(t, behind, accounts.Readers).SigningKeys[oldUser.Issuer] != nil || user.Issuer == oldUser.Issuer,
		"the old key signs on")
	agent, role, ok := meanwhile.ScopeOf(oldUser.Issuer)
	failIf(t, !ok || agent != "researcher" || role != bcp.RoleReader, "nobody knows the old key")
	scope := claimsOf(t, meanwhile, accounts.Readers).SigningKeys
	expect(t, cmp.Diff(scope[user.Issuer].(*jwt.UserScope).Template, scope[oldUser.Issuer].(*jwt.UserScope).Template), "",
		"the two may do other things")
	join := claimsOf(t, first, accounts.Joiners).SigningKeys.Keys()[0]
	if during, after := claimsOf(t, meanwhile, accounts.Joiners).SigningKeys, claimsOf(t, behind, accounts.Joiners).SigningKeys; during[join] == nil || len(during) != 2 || after[join] != nil || len(after) != 1 {
		t.Errorf("invitations: %d keys in the overlap, %d behind", len(during), len(after))
	}
	for at, want := range map[time.Time]int{start: 1, over: 0} {
		if open, err := store.Invitations(at); err != nil || len(open) != want || want > 0 && open[0].PublicKey != token.PublicKey {
			t.Errorf("%d invitations at %v: %v", len(open), at, err)
		}
	}
	expect(t, first.Gateway.Signer.PublicKey(), meanwhile.Gateway.Signer.PublicKey(), "a login of this process is another one")
	must(store.RotateAccounts(time.Minute))(t)
	last, acts := issue(t, store), actsOf(t, store)
	// An account has no room for a third key of everybody.
	fails(t, errorOf(store.RotateAccounts(time.Minute)), accounts.ErrOverlap, "in the overlap")
	equal(t, acts, actsOf(t, store)) // what was refused is not on record
	must(store.RotateAccounts(0))(t)
	b := compileAt(t, store, scopes(), time.Now())
	failIf(t, admitted(t, b, next) || admitted(t, b, last), "without an overlap there is one")
}
