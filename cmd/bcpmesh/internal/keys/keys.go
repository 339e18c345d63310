package keys

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// KeysCommand returns the command keys.
func KeysCommand(p *cli.Program) *cobra.Command {
	return cli.Group("keys", "Encrypt or replace the keys of the mesh",
		`Encrypt the keys of the mesh with a passphrase, or replace them, whether the mesh runs
or not. A copy of a sealed folder, or of its backup, lets nobody act in the mesh
without the passphrase; messages in it can still be read.`,
		"  bcpmesh keys seal",
		keysSealCommand(p), keysRotateCommand(p))
}

func keysSealCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var undo bool
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Encrypt the keys with a passphrase, or store them unencrypted again",
		Long: `Encrypt the private keys of the mesh with a passphrase of 12 characters or more: those
of the operator, the accounts and the agents' signing keys, and those that sign
checkpoints and certificates. From then on, it is asked for once by bcpmesh up when it
starts, by commands that make credentials, for others or for themselves, and by those
that read the journal of a stopped mesh. If BCPMESH_PASSPHRASE_FILE names a file, its
first line is used instead.

A running mesh keeps running, but follows later key changes only after a restart. If
the passphrase is lost, so are the keys. The unencrypted keys may still be found on
the disk by whoever searches it. --undo stores the keys without a passphrase again:
whoever may read the state folder has them then.`,
		Example: "  bcpmesh keys seal",
		Args:    cli.Arguments(0),
		RunE: func(*cobra.Command, []string) error {
			folder, store, err := where.KeyStore()
			if err != nil {
				return err
			}
			if undo {
				return unseal(p, folder, store)
			}
			if err := meshdir.SealKeys(store); err != nil {
				return err
			}
			serves := folder.Serves()
			if !serves {
				err = mesh.RemoveCommandCreds(folder.State)
				serves = errors.Is(err, server.ErrInUse)
			}
			switch {
			case serves:
				p.Out.Talkf("the mesh keeps running; to follow later key changes it needs the passphrase: restart it. Until it stops, the credentials of the agents that it starts stay in the clear, in run/")
			case err != nil:
				return cli.Failf("the keys are sealed; the credentials that a killed mesh left in run/ are not removed: %s", cli.FileReason(err))
			}
			return showSealed(p, folder, true)
		},
	}
	where.AddTo(cmd)
	cmd.Flags().BoolVar(&undo, "undo", false, "store the keys unencrypted again")
	return cmd
}

func unseal(p *cli.Program, folder meshdir.Folder, store *accounts.Store) error {
	if sealed, err := store.Sealed(); err != nil || !sealed {
		return errors.Join(err, cli.Failf("the keys are not sealed"))
	}
	passphrase, err := meshdir.ReadPassphrase("passphrase of the keys: ")
	if err != nil {
		return err
	}
	if err := store.Unseal(passphrase); err != nil {
		return cli.Failf("%s", err)
	}
	return showSealed(p, folder, false)
}

func showSealed(p *cli.Program, folder meshdir.Folder, sealed bool) error {
	if p.Out.JSON {
		return p.Out.Value(struct {
			State  string `json:"state"`
			Sealed bool   `json:"sealed"`
		}{folder.State, sealed})
	}
	word := "sealed"
	if !sealed {
		word = "open"
	}
	p.Out.Printf("the keys in %s are %s\n", cli.Plain(folder.State), word)
	return nil
}
