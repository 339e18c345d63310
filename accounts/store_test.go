package accounts_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// covers P7.5
func TestCreateMakesPrivateFilesOnce(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	compile(t, store, scopes())
	must(store.Issue("main", 0, 0))(t)
	count := 0
	err := filepath.WalkDir(filepath.Join(folder, "keys"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = fs.ModeDir | 0o700
		}
		failIf(t, info.Mode() != want, "%s has mode %v, want %v", d.Name(), info.Mode(), want)
		count++
		return nil
	})
	// The folder, lock, state, the operator's JWT, 7 + 6 keys, and a key for each scope.
	want := 4 + 13 + len(scopes())
	failIf(t, err != nil || count != want, "%d files, want %d: %v", count, want, err)
	fails(t, errorOf(accounts.Create(folder)), fs.ErrExist, "a second store was made over the first")
	entries, err := os.ReadDir(folder)
	failIf(t, err != nil || len(entries) != 1, "left behind: %v, %v", entries, err)
	fails(t, errorOf(accounts.Open(t.TempDir())), fs.ErrNotExist, "opened nothing")
}

// covers P7.5
func TestOpenRefusesWhatOthersCouldReadOrReplace(t *testing.T) {
	t.Parallel()
	const key = "account-READERS.nk"
	for name, spoil := range map[string]func(keys string) error{
		"group may read a key":     func(k string) error { return os.Chmod(filepath.Join(k, key), 0o640) },
		"world may read a key":     func(k string) error { return os.Chmod(filepath.Join(k, key), 0o604) },
		"world may read the state": func(k string) error { return os.Chmod(filepath.Join(k, "state.json"), 0o644) },
		"group may list the keys":  func(k string) error { return os.Chmod(k, 0o750) },
		"a key is a link": func(k string) error {
			return errors.Join(os.Rename(filepath.Join(k, key), filepath.Join(k, "..", key)), os.Symlink(filepath.Join("..", key), filepath.Join(k, key)))
		},
		"the folder is a link": func(k string) error {
			return errors.Join(os.Rename(k, k+"2"), os.Symlink("keys2", k))
		},
		"a key is a folder": func(k string) error {
			return errors.Join(os.Remove(filepath.Join(k, key)), os.Mkdir(filepath.Join(k, key), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, folder := newStore(t)
			noError(t, spoil(filepath.Join(folder, "keys")))
			fails(t, errorOf(accounts.Open(folder)), accounts.ErrUnsafe, "opened")
			fails(t, errorOf(accounts.Compile(store, scopes(), now)), accounts.ErrUnsafe, "compiled")
		})
	}
	for name, spoil := range map[string]func(path string) error{
		"missing":   os.Remove,
		"truncated": func(p string) error { return os.Truncate(p, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, folder := newStore(t)
			noError(t, spoil(filepath.Join(folder, "keys", key)))
			fails(t, errorOf(accounts.Open(folder)), nil, "opened a store without a key")
		})
	}
}

// covers P7.5
func TestStoreIsSharedByProcesses(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	compile(t, store, scopes())
	const workers, each = 4, 5
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			// Locks exclude each other by open file, as between processes.
			other, err := accounts.Open(folder)
			if err != nil {
				t.Error(err)
				return
			}
			for range each {
				_, err := other.Issue("main", bcp.RoleController, time.Hour)
				failIf(t, err != nil, "%v", err)
				_, err = accounts.Compile(other, scopes(), now)
				failIf(t, err != nil, "%v", err)
				_, err = other.Users()
				failIf(t, err != nil, "%v", err)
			}
		})
	}
	group.Wait()
	users, err := store.Users()
	failIf(t, err != nil || len(users) != workers*each, "%d users on record, want %d: %v", len(users), workers*each, err)
	// A compilation each, and the first: none was of the same second.
	got, want := claimsOf(t, compile(t, store, nil), accounts.Core).IssuedAt, now.Unix()+workers*each+1
	failIf(t, got != want, "issued at %d, want %d", got, want)
}

// The operator's key can be kept elsewhere: it is needed once, and whatever would
// need it again says so.
//
// covers BCP-19, A-JWTSELF
func TestOperatorKeyMayBeAway(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	name := func(file string) string { return filepath.Join(folder, "keys", file) }
	noError(t, os.Rename(name("operator.nk"), filepath.Join(t.TempDir(), "operator.nk")))
	fails(t, errorOf(accounts.Compile(store, scopes(), now)), accounts.ErrOperatorAway, "without a root of trust")
	store, folder = newStore(t)
	before := compile(t, store, scopes())
	identity := must(store.OperatorKey())(t)
	away := filepath.Join(t.TempDir(), "operator.nk")
	noError(t, os.Rename(name("operator.nk"), away))
	again := openStore(t, folder)
	after := compile(t, again, scopes())
	if key, err := again.OperatorKey(); err != nil || key != identity || after.Operator != before.Operator {
		t.Errorf("%s is the operator, not %s: %v", key, identity, err)
	}
	must(again.Issue("main", 0, 0))(t)
	// Another root of trust needs the key: of other accounts, or by somebody else.
	_, foreign := newStore(t)
	other := openStore(t, foreign)
	theirs := compile(t, other, nil).Operator
	noError(t, os.WriteFile(name("operator.jwt"), []byte(theirs), 0o600))
	fails(t, errorOf(accounts.Compile(again, scopes(), now)), accounts.ErrOperatorAway, "with the root of another mesh")
	noError(t, os.WriteFile(name("operator.jwt"), []byte(before.Operator+"x"), 0o600))
	fails(t, errorOf(accounts.Compile(again, scopes(), now)), nil, "with a root that nobody has signed")
	noError(t, os.Rename(away, name("operator.nk")))
	noError(t, os.Remove(name("operator.jwt")))
	back := compile(t, again, scopes())
	failIf(t, back.Operator == theirs, "it is another's mesh")
}
