package accounts_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// issue makes creds of researcher, the Reader of these tests.
func issue(t *testing.T, store *accounts.Store, options ...accounts.IssueOption) accounts.Creds {
	t.Helper()
	return must(store.Issue("researcher", bcp.RoleReader, time.Hour, options...))(t)
}

// admitted reports whether the accounts let the creds in.
func admitted(t *testing.T, b accounts.Bundle, creds accounts.Creds) bool {
	t.Helper()
	user, _ := userOf(t, creds)
	claims := claimsOf(t, b, accounts.Readers)
	_, signed := claims.SigningKeys[user.Issuer]
	return signed && !claims.IsClaimRevoked(user)
}

func compileAt(t *testing.T, store *accounts.Store, scopes []subjects.Scope, at time.Time) accounts.Bundle {
	t.Helper()
	return must(accounts.Compile(store, scopes, at))(t)
}

// What was revoked is in the next claims, and in no account but its own. It stays so until it has
// expired for a day, whatever the clock says afterwards and whatever time of issue a token
// of the same key has.
//
// covers A-REVOKED
func TestRevoked(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	first := compile(t, store, scopes())
	ever, creds, other := must(store.Issue("researcher", 0, 0))(t), issue(t, store), issue(t, store)
	fails(t, store.Revoke("UNKNOWN"), nil, "revoked what was never issued")
	for range 2 {
		noError(t, store.Revoke(creds.PublicKey, ever.PublicKey))
	}
	for at, left := range map[time.Time]int{
		time.Now(): 2, now.Add(-time.Hour): 2, creds.Expires.Add(time.Hour): 2, creds.Expires.Add(24*time.Hour - 1): 2, creds.Expires.Add(24 * time.Hour): 1,
	} {
		b := compileAt(t, store, scopes(), at)
		readers := claimsOf(t, b, accounts.Readers)
		failIf(t, admitted(t, b, ever) || left > 1 && admitted(t, b, creds) || !admitted(t, b, other), "at %v: revoked are %v", at, readers.Revocations)
		user, _ := userOf(t, ever)
		user.IssuedAt = time.Now().Add(time.Hour).Unix()
		failIf(t, !readers.IsClaimRevoked(user), "a later token of the same key is let in")
		expect(t, len(readers.Revocations), left, "at %v", at)
		for _, a := range b.Accounts {
			was, _ := first.Account(a.Name)
			failIf(t, (a.Digest != was.Digest) != (a.Name == accounts.Readers) || a.Name != accounts.Readers && len(claimsOf(t, b, a.Name).Revocations) > 0, "%s", a.Name)
		}
	}
}

// covers A-REVOKED
func TestRevokeAllRefusesWhatACopiedKeySigned(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	compile(t, store, scopes())
	creds, restricted := issue(t, store), issue(t, store, accounts.Restricted(accounts.Restriction{Sources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	main := must(store.Issue("main", 0, 0))(t)
	before := compile(t, store, scopes())
	stopIf(t, !admitted(t, before, creds) || !admitted(t, before, restricted), "not even before")
	revoked, err := store.RevokeAll("researcher", 0)
	stopIf(t, err != nil || len(revoked) != 2, "%v, %v", revoked, err)
	again := openStore(t, folder)
	after := compile(t, again, scopes())
	readers := claimsOf(t, after, accounts.Readers)
	for _, c := range []accounts.Creds{creds, restricted} {
		user, _ := userOf(t, c)
		failIf(t, readers.SigningKeys[user.Issuer] != nil, "what the old key signs is let in")
	}
	failIf(t, len(readers.Revocations) > 0, "%d revocations are not needed", len(readers.Revocations))
	user, _ := userOf(t, main)
	failIf(t, claimsOf(t, after, accounts.Controllers).SigningKeys[user.Issuer] == nil, "another agent is out")
	failIf(t, !admitted(t, compile(t, again, scopes()), issue(t, again)), "new creds are refused")
	// An agent that is gone is revoked too: it may come back.
	gone := issue(t, again)
	compile(t, again, nil)
	must(again.RevokeAll("researcher", bcp.RoleReader))(t)
	failIf(t, admitted(t, compile(t, again, scopes()), gone), "it came back with its creds")
	fails(t, errorOf(again.RevokeAll("nobody", 0)), accounts.ErrUnknown, "nobody")
}

// What a file is restricted to stands in the account, in a scope of its own.
//
// covers BCP-19
func TestRestrictionIsInTheAccount(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	compile(t, store, scopes())
	r := accounts.Restriction{Sources: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/16"), netip.MustParsePrefix("::ffff:192.0.2.0/120")}}
	creds := issue(t, store, accounts.Restricted(r))
	same := issue(t, store, accounts.Restricted(r))
	plain := issue(t, store)
	b := compile(t, store, scopes())
	user, _ := userOf(t, creds)
	keys := claimsOf(t, b, accounts.Readers).SigningKeys
	template := func(c accounts.Creds) jwt.UserPermissionLimits {
		u, _ := userOf(t, c)
		return keys[u.Issuer].(*jwt.UserScope).Template
	}
	got, free := template(creds), template(plain)
	equal(t, jwt.CIDRList{"10.1.0.0/16", "192.0.2.0/24"}, got.Src)
	expect(t, cmp.Diff(jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess}, got.AllowedConnectionTypes), "",
		"how")
	other, _ := userOf(t, same)
	failIf(t, other.Issuer != user.Issuer, "the same restriction has two keys")
	got.Src, got.AllowedConnectionTypes = free.Src, free.AllowedConnectionTypes
	diff := cmp.Diff(free, got)
	failIf(t, diff != "" || len(free.Src) > 0, "beside it: %s", diff)
	for name, bad := range map[string]accounts.Restriction{
		"no network": {Sources: []netip.Prefix{{}}},
		"too many":   {Sources: make([]netip.Prefix, 17)},
	} {
		fails(t, errorOf(store.Issue("researcher", 0, 0, accounts.Restricted(bad))), nil, "%s: issued", name)
	}
}

// Each change waits for its record, in order and once, and what commands make for
// themselves is none.
//
// covers P11.1
func TestChangesWaitForTheirRecord(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	compile(t, store, scopes())
	own := issue(t, store, accounts.ForItself)
	creds := issue(t, store)
	next := issue(t, store)
	for range 2 { // the second changes nothing
		noError(t, store.Revoke(next.PublicKey))
	}
	again := openStore(t, folder)
	changes, _, err := again.Pending(now)
	noError(t, err)
	var got []string
	for i, c := range changes {
		failIf(t, c.Number != uint64(i+1) || c.Agent != "researcher" || c.Role != bcp.RoleReader || c.Time == 0, "%+v", c)
		got = append(got, string(c.Act)+" "+c.Key)
	}
	want := []string{"issue " + creds.PublicKey, "issue " + next.PublicKey, "revoke " + next.PublicKey}
	equal(t, want, got)
	noError(t, again.Recorded(2))
	changes, _, err = store.Pending(now)
	failIf(t, err != nil || len(changes) != 1 || changes[0].Number != 3, "%v, %v", changes, err)
	users, err := store.Users()
	failIf(t, err != nil || len(users) != 3 || users[0].PublicKey != own.PublicKey || !users[0].Own, "%v, %v", users, err)
	// They are forgotten a day behind their end, and the others a month.
	compileAt(t, store, scopes(), own.Expires.Add(25*time.Hour))
	users, err = store.Users()
	failIf(t, err != nil || len(users) != 2, "%v, %v", users, err)
	compileAt(t, store, scopes(), own.Expires.Add(31*24*time.Hour))
	users, err = store.Users()
	failIf(t, err != nil || len(users) != 0, "%v, %v", users, err)
}
