package audit

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	tlogwitness "github.com/bcpmesh/bcpmesh/jetstream/witness"
	"github.com/bcpmesh/bcpmesh/mesh"
)

func auditKeyCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	cmd := &cobra.Command{
		Use:  "key",
		Args: cli.Arguments(0),
		RunE: func(*cobra.Command, []string) error {
			folder, err := where.Folder()
			if err != nil {
				return err
			}
			store, err := accounts.Open(folder.State)
			if err != nil {
				return checkpointKeyFailure(err, folder)
			}
			key, err := store.CheckpointPublic()
			if err != nil {
				return checkpointKeyFailure(err, folder)
			}
			if p.Out.JSON {
				return p.Out.Value(publicKey{key})
			}
			p.Out.Printf("%s\n", key)
			return nil
		},
	}
	where.AddTo(cmd)
	return cmd
}

type publicKey struct {
	Key string `json:"key"`
}

// SignedCheckpoint is one as it was signed.
type SignedCheckpoint struct {
	Checkpoint string `json:"checkpoint"`
}

// exportCheckpoint shows the newest, even if it is not cosigned.
func exportCheckpoint(ctx context.Context, p *cli.Program, where meshdir.StateFlags, witnesses *WitnessFlags) error {
	peers, err := witnesses.Peers("audit export")
	if err != nil {
		return err
	}
	signed, err := newestCheckpoint(ctx, where, peers)
	if signed == nil {
		return err
	}
	if p.Out.JSON {
		return errors.Join(err, p.Out.Line(SignedCheckpoint{string(signed)}))
	}
	p.Out.Printf("%s", signed)
	return err
}

// newestCheckpoint is the newest: on a cluster, of what the journal has now. With an error it
// was signed, and not cosigned.
func newestCheckpoint(ctx context.Context, where meshdir.StateFlags, peers []*tlogwitness.Peer) ([]byte, error) {
	folder, err := where.Folder()
	if err != nil {
		return nil, err
	}
	if about, err := folder.Running(); err != nil || !about.Cluster {
		if len(peers) > 0 {
			return nil, cli.Usagef("audit export: --witness is for a mesh on a cluster").WithHint("a mesh in one process does so by itself: bcpmesh up --witness KEY=URL")
		}
		newest, err := mesh.Tree(folder.State).Newest()
		if err != nil {
			return nil, checkpointFailure(err)
		}
		return newest, nil
	}
	j, err := client.OpenSource(ctx, where)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	signed, err := mesh.SignCheckpoint(ctx, folder.State, j.From, meshdir.Unlock())
	if err != nil {
		return nil, signingFailure(err, folder)
	}
	if len(peers) == 0 {
		return signed, nil
	}
	if err := mesh.CosignNewest(ctx, folder.State, peers); err != nil {
		return signed, cosignFailure(err)
	}
	return mesh.Tree(folder.State).Newest()
}

func signingFailure(err error, folder meshdir.Folder) error {
	switch {
	case errors.Is(err, mesh.ErrSigning):
		return cli.Failf("another command is signing checkpoints of this journal").WithHint("try again")
	case errors.Is(err, jetstream.ErrNoCheckpoint):
		return cli.Failf("nothing has been decided yet")
	case errors.Is(err, context.DeadlineExceeded):
		return meshdir.Failure(err)
	}
	return exportFailure(err, folder.State)
}

func checkpointFailure(err error) error {
	if errors.Is(err, jetstream.ErrNoCheckpoint) {
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("the mesh signs one every ten minutes and when it stops, on a cluster \"bcpmesh audit export --checkpoint\" does; an export ends with one")
	}
	return cli.Failf("%s", cli.Plain(err.Error()))
}
