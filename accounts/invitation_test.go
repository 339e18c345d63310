package accounts_test

import (
	"errors"
	"testing"
	"time"

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
		token, err := store.Invite(agent.Agent, agent.Role, time.Hour, time.Hour, accounts.Restriction{})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	writes := func(f func()) bool {
		t.Helper()
		before, err := store.Stamp()
		if err != nil {
			t.Fatal(err)
		}
		f()
		after, err := store.Stamp()
		if err != nil {
			t.Fatal(err)
		}
		return !before.Same(after)
	}
	join := func(invitation string, want error) func() {
		own, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		key, err := own.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		proof, err := own.Sign(bcp.JoinStatement(invitation, key))
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if _, token, err := store.Join(invitation, key, proof); !errors.Is(err, want) || (token == "") != (err != nil) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}

	used, cancelled, unproved := invite(), invite(), invite()
	first := join(used.PublicKey, nil)
	if !writes(first) || writes(first) {
		t.Error("who joins is not written once")
	}
	if err := store.Revoke(cancelled.PublicKey); err != nil {
		t.Fatal(err)
	}
	wrong := func() {
		if _, _, err := store.Join(unproved.PublicKey, publicKey(t, nkeys.CreateUser), []byte("proof")); !errors.Is(err, accounts.ErrNotInvited) {
			t.Error(err)
		}
	}
	for name, refused := range map[string]func(){
		"used": join(used.PublicKey, accounts.ErrNotInvited), "cancelled": join(cancelled.PublicKey, accounts.ErrNotInvited), "unproved": wrong,
	} {
		const shown = 10
		for n := range shown + 3 {
			if wrote := writes(refused); wrote != (n < shown) {
				t.Errorf("%s: refusal %d is written: %v", name, n+1, wrote)
			}
		}
	}
	if writes(join(publicKey(t, nkeys.CreateUser), accounts.ErrNotInvited)) {
		t.Error("a refusal of an unknown invitation is written")
	}
	if writes(first) {
		t.Error("who has joined and asks again is written")
	}
}
