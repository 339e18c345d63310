package meshdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// passphraseVariable names a file whose first line is the passphrase of the keys,
// for use without a terminal.
const passphraseVariable = mesh.PassphraseVariable

// passphraseOfKeys asks once for the passphrase of the keys.
var passphraseOfKeys = sync.OnceValues(func() ([]byte, error) { return ReadPassphrase("passphrase of the keys: ") })

// ReadPassphrase gets the passphrase of the keys: from the file that the
// environment names, or from the terminal.
func ReadPassphrase(question string) ([]byte, error) {
	if name := os.Getenv(passphraseVariable); name != "" {
		content, err := cli.ReadSmall(name)
		if err != nil {
			return nil, cli.Failf("%s %s cannot be read: %s", passphraseVariable, cli.Quoted(name), cli.FileReason(err))
		}
		line, _, _ := bytes.Cut(content, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
	if !cli.IsTerminal(os.Stdin) || !cli.IsTerminal(os.Stderr) {
		return nil, cli.Failf("there is no terminal to ask for the passphrase of the keys").
			WithHint("put it into a file that only you may read, and name that file in %s", passphraseVariable)
	}
	_, _ = fmt.Fprint(os.Stderr, question) // there is nowhere to report an error of stderr
	defer fmt.Fprintln(os.Stderr)
	return term.ReadPassword(int(os.Stdin.Fd()))
}

// Unlock opens sealed keys when they are needed, and asks once for those of one
// state folder.
var Unlock = sync.OnceValue(func() accounts.OpenOption {
	return accounts.Passphrase(passphraseOfKeys)
})

// newPassphrase gets one to seal with; who types it types it twice.
func newPassphrase() ([]byte, error) {
	first, err := ReadPassphrase("passphrase to seal the keys with: ")
	if err != nil || os.Getenv(passphraseVariable) != "" {
		return first, err
	}
	second, err := ReadPassphrase("again: ")
	if err == nil && !bytes.Equal(first, second) {
		err = cli.Failf("the passphrases differ")
	}
	return first, err
}

// SealKeys seals the keys under a new passphrase.
func SealKeys(store *accounts.Store) error {
	passphrase, err := newPassphrase()
	if err != nil {
		return err
	}
	if err := store.Seal(passphrase); err != nil {
		return cli.Failf("%s", err)
	}
	return nil
}

// RequireSealed seals the keys of a mesh that is about to run, where that was asked
// for, and refuses open ones where strangers can reach the machine.
func RequireSealed(state string, ask, reachable bool) error {
	store, err := accounts.Open(state)
	if errors.Is(err, fs.ErrNotExist) && ask {
		store, err = accounts.Create(state)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil // the mesh does not start on them, and says why
	default:
		sealed, err := store.Sealed()
		if err != nil || sealed {
			return err
		}
		if ask {
			return SealKeys(store)
		}
	}
	if reachable {
		return cli.Failf("up listens beyond this machine, and the keys of the mesh are not encrypted").WithHint("add --seal: it encrypts them with a passphrase")
	}
	return nil
}
