package meshdir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/bcp"
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
func (m Folder) Key(place, of string) (string, error) { return readKey(place, of, m.opened()) }

// MailKey reads the key of a mailbox, which may be a token of OAuth 2.
func (m Folder) MailKey(place string) (string, error) {
	o := m.opened()
	o.Token = true
	return readKey(place, "the key of the mailbox", o)
}

func readKey(place, of string, o wires.Options) (string, error) {
	key, err := wires.ReadKey(place, of, o)
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "wires: "))
	}
	return key, nil
}

// OpenModel opens a model of the definitions, whose turns have at most so many tokens.
func (m Folder) OpenModel(model bcp.Model, tokens int) (llm.Endpoint, error) {
	o := m.opened()
	o.MaxTokens = tokens
	return openModel(model, o)
}

func openModel(model bcp.Model, o wires.Options) (llm.Endpoint, error) {
	o.Replay = replay.NewProvider
	e, err := wires.Open(wires.Spec{Name: model.Name, Provider: model.Provider, Model: model.Model, Key: model.Key, BaseURL: model.BaseURL}, o)
	if err != nil {
		return e, errors.New(strings.TrimPrefix(err.Error(), "wires: "))
	}
	return e, nil
}
