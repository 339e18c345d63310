package accounts_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// now is a fixed time of compilation.
var now = time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) (*accounts.Store, string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "state")
	store := must(accounts.Create(folder))(t)
	return store, folder
}

// scopes are of a Controller, a Reader without pushes, an agent that is both,
// and a person that is both.
func scopes() []subjects.Scope {
	return subjects.Permissions(&bcp.Mesh{
		Approvers: []bcp.AgentName{"alice"}, Auditors: []bcp.AgentName{"alice"},
		Agents: []bcp.Agent{
			{Name: "main", Controller: true},
			{Name: "relay", Controller: true, Reader: true},
			{Name: "researcher", Reader: true},
		},
		Channels: []bcp.Channel{
			{ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "researcher"}, QueryTTL: time.Hour},
			{
				ChannelKey:    bcp.ChannelKey{Controller: "main", Reader: "relay"},
				Subscriptions: []bcp.Subscription{{ID: "digest"}},
			},
		},
	})
}

func compile(t *testing.T, store *accounts.Store, scopes []subjects.Scope) accounts.Bundle {
	t.Helper()
	return must(accounts.Compile(store, scopes, now))(t)
}

func claimsOf(t *testing.T, b accounts.Bundle, name string) *jwt.AccountClaims {
	t.Helper()
	account, ok := b.Account(name)
	stopIf(t, !ok, "no account %s", name)
	return must(jwt.DecodeAccountClaims(account.JWT))(t)
}

// userOf reads the user that a creds file lets in, and its seed.
func userOf(t *testing.T, c accounts.Creds) (*jwt.UserClaims, nkeys.KeyPair) {
	t.Helper()
	token := must(jwt.ParseDecoratedJWT(c.Text()))(t)
	claims := must(jwt.DecodeUserClaims(token))(t)
	pair := must(jwt.ParseDecoratedUserNKey(c.Text()))(t)
	return claims, pair
}

// keyOf reads a private key of a store.
func keyOf(t *testing.T, folder, name string) nkeys.KeyPair {
	t.Helper()
	seed := must(os.ReadFile(filepath.Join(folder, "keys", name+".nk")))(t)
	return must(nkeys.FromSeed(seed))(t)
}

// operatorOf is the key that signs accounts.
func operatorOf(t *testing.T, folder string) nkeys.KeyPair {
	return keyOf(t, folder, "operator-signing")
}

func publicKey(t *testing.T, create func() (nkeys.KeyPair, error)) string {
	t.Helper()
	pair := must(create())(t)
	return must(pair.PublicKey())(t)
}

func accountKeyOf(b accounts.Bundle, name string) string {
	a, _ := b.Account(name)
	return a.PublicKey
}

// openStore opens a store that is there.
func openStore(t testing.TB, folder string, options ...accounts.OpenOption) *accounts.Store {
	t.Helper()
	return must(accounts.Open(folder, options...))(t)
}

var noError, failIf, stopIf, fails = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Fails

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }

// equal compares what is wanted with what there is.
func equal(t rapid.TB, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Error(diff)
	}
}

// errorOf is the error of a call whose value does not matter.
func errorOf[T any](_ T, err error) error { return err }

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
