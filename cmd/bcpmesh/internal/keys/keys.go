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
	return cli.Group("keys", keysSealCommand(p), keysRotateCommand(p))
}

func keysSealCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var undo bool
	cmd := &cobra.Command{
		Use:  "seal",
		Args: cli.Arguments(0),
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
