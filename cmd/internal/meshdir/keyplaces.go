package meshdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// lookedFor has keys looked for and not read: nothing of a folder that somebody only looks at is run.
func (m Folder) lookedFor() wires.Options {
	there := []byte("there")
	return wires.Options{
		Env: os.LookupEnv, Folder: m.Dir, Unseal: func([]byte) ([]byte, error) { return there, nil },
		Run: func(words []string) ([]byte, error) {
			_, err := process.LookUp(words[0], os.Environ())
			return there, err
		},
	}
}

// opened has keys read.
func (m Folder) opened() wires.Options {
	return wires.Options{
		Env: os.LookupEnv, Folder: m.Dir, Run: m.printed,
		Unseal: func(sealed []byte) ([]byte, error) {
			passphrase, err := passphraseOfKeys()
			if err != nil {
				return nil, err
			}
			key, err := accounts.OpenSealed(sealed, passphrase)
			if err != nil && !errors.Is(err, accounts.ErrPassphrase) { // which quotes what is in the file
				err = errors.New("it is not sealed by age with a passphrase")
			}
			return key, err
		},
	}
}

// keyPatience is how long a command may take that prints a key.
const keyPatience = 30 * time.Second

// printed runs a command in the folder, and returns what it prints.
func (m Folder) printed(words []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keyPatience)
	defer cancel()
	path, err := process.LookUp(words[0], os.Environ())
	if err != nil {
		return nil, errors.New("there is no such program in PATH")
	}
	cmd := exec.CommandContext(ctx, path, words[1:]...)
	cmd.Dir, cmd.WaitDelay = m.Dir, time.Second
	key, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it has not ended after %s", keyPatience)
	case err != nil:
		return nil, errors.New("it failed, or cannot be started") // what it says may have the key
	}
	return key, nil
}

// Key reads a key from where the definitions say that it is. The error says what it is of.
func (m Folder) Key(place, of string) (string, error) { return wires.ReadKey(place, of, m.opened()) }

// MailKey reads the key of a mailbox, which may be a token of OAuth 2.
func (m Folder) MailKey(place string) (string, error) {
	o := m.opened()
	o.Token = true
	return wires.ReadKey(place, "the key of the mailbox", o)
}

// OpenModel opens a model of the definitions, whose turns have at most so many tokens.
func (m Folder) OpenModel(model bcp.Model, tokens int) (llm.Endpoint, error) {
	o := m.opened()
	o.MaxTokens = tokens
	return wires.Open(model, o)
}

// passphraseOfKeys asks once for the passphrase of the keys.
var passphraseOfKeys = sync.OnceValues(func() ([]byte, error) { return readPassphrase("passphrase of the keys: ") })

// readPassphrase gets the passphrase of the keys: from the first line of the file that the environment names, for use without a
// terminal, or from the terminal.
func readPassphrase(question string) ([]byte, error) {
	if name := os.Getenv(mesh.PassphraseVariable); name != "" {
		content, err := cli.ReadSmall(name)
		if err != nil {
			return nil, cli.Failf("%s %s cannot be read: %s", mesh.PassphraseVariable, cli.Quoted(name), cli.FileReason(err))
		}
		line, _, _ := bytes.Cut(content, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
	if !cli.IsTerminal(os.Stdin) || !cli.IsTerminal(os.Stderr) {
		return nil, cli.Failf("there is no terminal to ask for the passphrase of the keys").
			WithHint("put it into a file that only you may read, and name that file in %s", mesh.PassphraseVariable)
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
	first, err := readPassphrase("passphrase to seal the keys with: ")
	if err != nil || os.Getenv(mesh.PassphraseVariable) != "" {
		return first, err
	}
	second, err := readPassphrase("again: ")
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
	return store.Seal(passphrase)
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
