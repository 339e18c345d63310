package keys

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

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
	cmd := cli.Command("seal", func(_ context.Context, _ []string) error {
		folder, store, err := where.KeyStore()
		if err != nil {
			return err
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
		return p.Out.Show(struct {
			State  string `json:"state"`
			Sealed bool   `json:"sealed"`
		}{folder.State, true}, func() { p.Out.Printf("the keys in %s are sealed\n", cli.Plain(folder.State)) })
	})
	where.AddTo(cmd)
	return cmd
}

func keysRotateCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	overlap := cli.DurationFlag{Value: defaultKeyOverlap}
	cmd := cli.Command("rotate", func(ctx context.Context, _ []string) error {
		folder, store, err := where.KeyStore()
		if err != nil {
			return err
		}
		shortened, err := store.RotateAccounts(overlap.Value)
		if err != nil {
			return err
		}
		running, err := follow(ctx, p, folder, store)
		if err != nil {
			return err
		}
		ending, until := []string{}, time.Now().Add(overlap.Value)
		for _, u := range shortened {
			if !u.Own {
				ending = append(ending, u.PublicKey)
			}
		}
		return p.Out.Show(struct {
			Ending  []string  `json:"ending"` // public keys of files that end with the overlap
			Until   time.Time `json:"until"`
			Applied bool      `json:"applied"` // by a running mesh
		}{ending, until.UTC().Truncate(time.Second), running}, func() {
			p.Out.Printf("all accounts have new signing keys\n")
			if len(ending) > 0 {
				p.Out.Talkf("%s refused from %s on: bcpmesh creds issue makes others", cli.Count(len(ending), "file"), cli.Moment(until))
			}
			if running {
				p.Out.Talkf("the mesh has applied it")
			} else {
				p.Out.Talkf("it takes effect at the next start: no mesh runs here")
			}
		})
	})
	where.AddTo(cmd)
	cmd.Flags().Var(&overlap, "expires", "how long to accept what the old ones signed")
	return cmd
}

// defaultKeyOverlap is how long what a replaced key has signed is still taken: long
// enough to replace files by hand.
const defaultKeyOverlap = 24 * time.Hour
