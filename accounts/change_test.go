package accounts_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/accounts"
)

// A stamp tells every change of the record, and two stores of one folder have the
// same; the zero stamp is like no other.
//
// covers P7.5
func TestStampTellsChanges(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	compile(t, store, scopes())
	other := openStore(t, folder)
	stamp := func(s *accounts.Store) accounts.Stamp {
		t.Helper()
		return must(s.Stamp())(t)
	}
	before := stamp(store)
	if !before.Same(stamp(other)) || before.Same(accounts.Stamp{}) || (accounts.Stamp{}).Same(accounts.Stamp{}) {
		t.Error("stamps of one record differ, or the zero stamp is one")
	}
	creds := issue(t, other)
	issued := stamp(store)
	noError(t, other.Revoke(creds.PublicKey))
	if before.Same(issued) || issued.Same(stamp(store)) {
		t.Error("a change is not told")
	}
}
