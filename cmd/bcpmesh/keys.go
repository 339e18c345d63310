package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bcpmesh/bcpmesh/accounts"
)

// passphraseVariable names a file whose first line is the passphrase of the keys,
// for where nobody is there to type it.
const passphraseVariable = "BCPMESH_PASSPHRASE_FILE"

// readPassphrase gets the passphrase of the keys: from the file that the
// environment names, or from whoever sits at the terminal.
func readPassphrase(question string) ([]byte, error) {
	if name := os.Getenv(passphraseVariable); name != "" {
		content, err := readSmall(name)
		if err != nil {
			return nil, failf("%s %s cannot be read: %s", passphraseVariable, quoted(name), reasonOf(err))
		}
		line, _, _ := bytes.Cut(content, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
	if !isTerminal(os.Stdin) || !isTerminal(os.Stderr) {
		return nil, failf("nobody is there to ask for the passphrase of the keys").
			withHint("put it into a file that only you may read, and name that in %s", passphraseVariable)
	}
	_, _ = fmt.Fprint(os.Stderr, question) // there is nowhere to report an error of stderr
	defer fmt.Fprintln(os.Stderr)
	return term.ReadPassword(int(os.Stdin.Fd()))
}

// unlock opens sealed keys when they are needed, and asks once for those of one
// state folder.
var unlock = sync.OnceValue(func() accounts.OpenOption {
	return accounts.Passphrase(func() ([]byte, error) { return readPassphrase("passphrase of the keys: ") })
})

// newPassphrase gets one to seal with; who types it types it twice.
func newPassphrase() ([]byte, error) {
	first, err := readPassphrase("passphrase to seal the keys with: ")
	if err != nil || os.Getenv(passphraseVariable) != "" {
		return first, err
	}
	second, err := readPassphrase("again: ")
	if err == nil && !bytes.Equal(first, second) {
		err = failf("the two are not the same")
	}
	return first, err
}

func keysCommand(p *program) *cobra.Command {
	return group("keys", "Seal the keys of the mesh with a passphrase, and replace them",
		`Seal the keys of the mesh, in its state folder, with a passphrase, and unseal them.
Whoever has a copy of a sealed folder, or of its backup, can act as nobody without
it. What was said can still be read there: encrypt the disk against that.
Replace keys, while the mesh runs or rests.`,
		`  bcpmesh keys seal
  bcpmesh keys unseal --dir ./office
  bcpmesh keys rotate operator`,
		keysSealCommand(p), keysUnsealCommand(p), keysRotateCommand(p))
}

func keysSealCommand(p *program) *cobra.Command {
	var where stateFlags
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Put the keys under a passphrase",
		Long: `Put the private keys of the mesh under a passphrase of 12 characters or more: those
of the operator, the accounts and the agents' signing keys, and those that sign
checkpoints and certificates. Whatever needs one asks for it from then on, once:
bcpmesh up when it starts, commands that make credentials, for others or for
themselves, and those that read the journal of a mesh that rests. Where nobody is
there to ask, it is the first line of the file that BCPMESH_PASSPHRASE_FILE names.

A running mesh goes on; to follow later changes of keys it has to be started again.
If the passphrase is lost, so are the keys. What was on the
disk before may still be found there by whoever searches it.`,
		Example: "  bcpmesh keys seal\n  BCPMESH_PASSPHRASE_FILE=/run/secrets/mesh bcpmesh keys seal",
		Args:    arguments(0),
		RunE: func(*cobra.Command, []string) error {
			folder, store, err := where.keyStore()
			if err != nil {
				return err
			}
			if err := sealKeys(store); err != nil {
				return err
			}
			if folder.serves() {
				p.out.talkf("the mesh that runs here goes on; to follow later changes of keys it needs the passphrase: start it again")
			}
			return p.showSealed(folder, true)
		},
	}
	where.addTo(cmd)
	return cmd
}

func keysUnsealCommand(p *program) *cobra.Command {
	var where stateFlags
	cmd := &cobra.Command{
		Use:     "unseal",
		Short:   "Take the keys from under their passphrase",
		Long:    "Take the private keys of the mesh from under their passphrase: whoever may read the\nstate folder has them then.",
		Example: "  bcpmesh keys unseal",
		Args:    arguments(0),
		RunE: func(*cobra.Command, []string) error {
			folder, store, err := where.keyStore()
			if err != nil {
				return err
			}
			if sealed, err := store.Sealed(); err != nil || !sealed {
				return errors.Join(err, failf("the keys are not sealed"))
			}
			passphrase, err := readPassphrase("passphrase of the keys: ")
			if err != nil {
				return err
			}
			if err := store.Unseal(passphrase); err != nil {
				return failf("%s", err)
			}
			return p.showSealed(folder, false)
		},
	}
	where.addTo(cmd)
	return cmd
}

func sealKeys(store *accounts.Store) error {
	passphrase, err := newPassphrase()
	if err != nil {
		return err
	}
	if err := store.Seal(passphrase); err != nil {
		return failf("%s", err)
	}
	return nil
}

func (p *program) showSealed(folder meshFolder, sealed bool) error {
	if p.out.json {
		return p.out.value(struct {
			State  string `json:"state"`
			Sealed bool   `json:"sealed"`
		}{folder.state, sealed})
	}
	word := "sealed"
	if !sealed {
		word = "open"
	}
	p.out.printf("the keys in %s are %s\n", plain(folder.state), word)
	return nil
}

// requireSealed seals the keys of a mesh that is about to run, where that was asked
// for, and refuses open ones where strangers can reach the machine.
func requireSealed(state string, ask, reachable bool) error {
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
			return sealKeys(store)
		}
	}
	if reachable {
		return failf("up listens beyond this machine, and the keys of the mesh lie open").withHint("add --seal: it puts them under a passphrase")
	}
	return nil
}
