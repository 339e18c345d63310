package accounts_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// The record of a store is written as often as something changes: for the refusals of an
// invitation that the audit shows, and for who joins. Refusals beyond those, of an
// invitation that is used, cancelled, unknown or was never proved, leave it as it is, and
// so does the holder that asks for its credentials again.
//
// covers P7.5
func TestJoinsThatChangeNothingWriteNothing(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	compile(t, store, scopes())
	agent := scopes()[0]
	invite := func() accounts.Token {
		t.Helper()
		return must(store.Invite(agent.Agent, agent.Role, time.Hour, time.Hour, accounts.Restriction{}, false))(t)
	}
	writes := func(f func()) bool {
		t.Helper()
		before := must(store.Stamp())(t)
		f()
		after := must(store.Stamp())(t)
		return !before.Same(after)
	}
	join := func(invitation string, want error) func() {
		own := must(nkeys.CreateUser())(t)
		key := must(own.PublicKey())(t)
		proof := must(own.Sign(bcp.JoinStatement(invitation, key, bcp.Digest{})))(t)
		return func() {
			_, token, err := store.Join(invitation, key, bcp.Digest{}, proof)
			failIf(t, !errors.Is(err, want) || (token == "") != (err != nil), "%v, want %v", err, want)
		}
	}

	used, cancelled, unproved := invite(), invite(), invite()
	first := join(used.PublicKey, nil)
	failIf(t, !writes(first) || writes(first), "who joins is not written once")
	noError(t, store.Revoke(cancelled.PublicKey))
	wrong := func() {
		_, _, err := store.Join(unproved.PublicKey, publicKey(t, nkeys.CreateUser), bcp.Digest{}, []byte("proof"))
		failIf(t, !errors.Is(err, accounts.ErrNotInvited), "%v", err)
	}
	for name, refused := range map[string]func(){
		"used": join(used.PublicKey, accounts.ErrNotInvited), "cancelled": join(cancelled.PublicKey, accounts.ErrNotInvited), "unproved": wrong,
	} {
		const shown = 10
		for n := range shown + 3 {
			expect(t, writes(refused), n < shown, "%s: refusal %d is written", name, n+1)
		}
	}
	failIf(t, writes(join(publicKey(t, nkeys.CreateUser), accounts.ErrNotInvited)),
		"a refusal of an unknown invitation is written")
	failIf(t, writes(first), "who has joined and asks again is written")
}

// Who is invited with a passkey joins with one, whose hash the key that they made has
// signed; it is an approver's, and it stays what it was.
//
// covers P7.3, P7.5, A-SELFAPP
func TestWhoJoinsIsBoundToAPasskey(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	compile(t, store, scopes())
	passkey, other, none := bcp.Digest{1}, bcp.Digest{2}, bcp.Digest{}
	invite := func(role bcp.Role, bound bool) string {
		t.Helper()
		token := must(store.Invite("alice", role, time.Hour, 0, accounts.Restriction{}, bound))(t)
		return token.PublicKey
	}
	own := must(nkeys.CreateUser())(t)
	key := must(own.PublicKey())(t)
	join := func(invitation string, signed, sent bcp.Digest) (accounts.User, string, error) {
		t.Helper()
		proof := must(own.Sign(bcp.JoinStatement(invitation, key, signed)))(t)
		return store.Join(invitation, key, sent, proof)
	}
	bound, auditor := invite(bcp.RoleApprover, true), invite(bcp.RoleAuditor, false)
	for name, c := range map[string]struct {
		invitation   string
		signed, sent bcp.Digest
	}{
		"without one":                  {bound, none, none},
		"with another than was signed": {bound, other, passkey},
		"with one that nobody signed":  {bound, none, passkey},
		"without the one that was":     {bound, passkey, none},
		"as an auditor":                {auditor, passkey, passkey},
	} {
		u, token, err := join(c.invitation, c.signed, c.sent)
		failIf(t, !errors.Is(err, accounts.ErrNotInvited) || token != "", "%s: %+v, %v", name, u, err)
	}
	for range 2 { // the answer may be lost
		u, token, err := join(bound, passkey, passkey)
		stopIf(t, err != nil || u.Passkey != passkey, "%+v, %v", u, err)
		claims, err := jwt.DecodeUserClaims(token)
		failIf(t, err != nil || len(claims.Tags) != 1 || claims.Tags[0] != "passkey:01"+strings.Repeat("00", 31),
			"tags %q, %v", claims.Tags, err)
	}
	for _, changed := range []bcp.Digest{other, none} {
		u, _, err := join(bound, changed, changed)
		failIf(t, !errors.Is(err, accounts.ErrNotInvited), "again with %x: %+v, %v", changed[:1], u, err)
	}
	failIf(t, errorOf(store.Invite("alice", bcp.RoleAuditor, time.Hour, 0, accounts.Restriction{}, true)) == nil,
		"an auditor is invited with a passkey")
	pending, _, err := store.Pending(time.Now())
	if err != nil || !slices.ContainsFunc(pending, func(c accounts.Change) bool {
		return c.Act == bcp.CredentialJoined && slices.Equal(c.Limits, []string{"passkey 01" + strings.Repeat("00", 31)})
	}) {
		t.Errorf("the audit does not show it: %+v, %v", pending, err)
	}
}

// Two people compare passkeys by words, of which each bit of the first 96 changes one.
//
// covers P7.5
func TestPasskeyWords(t *testing.T) {
	t.Parallel()
	d := bcp.Digest{127, 0, 0, 1, 63, 84, 220, 193, 63, 118, 7, 35}
	expect(t, accounts.PasskeyWords(d), "lusab babad gutih tugad gutuk bisog", "got")
	for bit := range 96 {
		changed := d
		changed[bit/8] ^= 1 << (bit % 8)
		failIf(t, accounts.PasskeyWords(changed) == accounts.PasskeyWords(d), "bit %d is in no word", bit)
	}
}
