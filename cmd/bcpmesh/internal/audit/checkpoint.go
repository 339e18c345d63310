package audit

import (
	"context"
	"errors"
	"time"

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
	var shard client.ShardFlag
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Show the public key that verifies exports",
		Long: `Show the public key of the checkpoints, in the format of golang.org/x/mod/sumdb/note:
name, hash and key. Give it to those who verify exports, over another channel than the
exports. The key is created once and stays; a lost one cannot be recreated. On a
cluster, each shard has its own key, with the shard in its name.`,
		Example: `  bcpmesh audit key
  bcpmesh audit key > office.key && bcpmesh audit verify office.bcpaudit --key office.key`,
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
			shards, _, err := shard.Of(folder, nil, store, meshdir.WasExported(folder.State))
			if err != nil {
				return err
			}
			of, err := (&client.Journals{Shards: shards}).One("")
			if err != nil {
				return err
			}
			key, err := store.CheckpointPublic(of)
			if err != nil {
				return checkpointKeyFailure(err, folder)
			}
			if p.Out.JSON {
				return p.Out.Value(client.Sharded[publicKey]{Of: publicKey{key}, Shard: of})
			}
			p.Out.Printf("%s\n", key)
			return nil
		},
	}
	where.AddTo(cmd)
	shard.AddTo(cmd, client.OfJournal)
	return cmd
}

type publicKey struct {
	Key string `json:"key"`
}

// SignedCheckpoint is one as it was signed.
type SignedCheckpoint struct {
	Checkpoint string `json:"checkpoint"`
}

func auditCheckpointCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var shard client.ShardFlag
	var wait cli.DurationFlag
	var witnesses WitnessFlags
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Show the newest signed checkpoint; on a cluster, sign it",
		Long: `Show the newest checkpoint that was recorded in the state folder, verbatim (C2SP
tlog-checkpoint), with the cosignatures of witnesses. The mesh signs one every ten
minutes if something was decided, and at a clean shutdown. Keep copies elsewhere:
"bcpmesh audit verify --since" shows that a later export continues them.

The gateways of a cluster have no signing key. There, this command signs: it reads
each shard's journal after its newest checkpoint, and signs if there is anything new.
A journal that does not match the newest checkpoint is refused. Run it every ten
minutes (docs/production.md), with the witnesses that cosign.`,
		Example: `  bcpmesh audit checkpoint > monday.checkpoint
  bcpmesh audit verify friday.bcpaudit --key office.key --since monday.checkpoint
  bcpmesh audit checkpoint --json >> office.checkpoints  # all shards of a cluster`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
			defer cancel()
			peers, err := witnesses.Peers("audit checkpoint")
			if err != nil {
				return err
			}
			newest, missing := checkpoints(ctx, where, shard, peers)
			for i := range newest {
				if i > 0 && !p.Out.JSON {
					p.Out.Printf("\n")
				}
				if err := showCheckpoint(p, &newest[i]); err != nil {
					return err
				}
			}
			return errors.Join(missing, p.Out.Flush())
		},
	}
	where.AddTo(cmd)
	shard.AddTo(cmd, client.OfPeople)
	cli.WaitFlag(cmd, &wait, 10*time.Minute, "on a cluster: how long it may take")
	witnesses.AddTo(cmd)
	return cmd
}

// checkpoints are the newest of the shards that are meant: on a cluster, of what their
// journals have now.
func checkpoints(ctx context.Context, where meshdir.StateFlags, shard client.ShardFlag, peers []*tlogwitness.Peer) ([]client.Sharded[SignedCheckpoint], error) {
	folder, err := where.Folder()
	if err != nil {
		return nil, err
	}
	if about, err := folder.Running(); err != nil || !about.Cluster {
		if _, err := shard.Among(1); err != nil {
			return nil, err
		}
		if len(peers) > 0 {
			return nil, cli.Usagef("audit checkpoint: --witness is for a mesh on a cluster").WithHint("a mesh in one process does so by itself: bcpmesh up --witness KEY=URL")
		}
		newest, err := mesh.Tree(folder.State, 0).Newest()
		if err != nil {
			return nil, checkpointFailure(err)
		}
		return client.Alone([]SignedCheckpoint{{string(newest)}}), nil
	}
	j, err := client.OpenJournals(ctx, where, shard)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	return client.OnShards(ctx, j.Shards, func(ctx context.Context, shard int) (SignedCheckpoint, error) {
		signed, err := mesh.SignCheckpoint(ctx, folder.State, shard, client.OperatorRecordsFrom(j.Client.Operator(shard)), meshdir.Unlock())
		if err != nil {
			return SignedCheckpoint{}, signingFailure(err, folder)
		}
		if len(peers) > 0 {
			if err := mesh.CosignNewest(ctx, folder.State, shard, peers); err != nil {
				return SignedCheckpoint{string(signed)}, cosignFailure(err)
			}
			signed, err = mesh.Tree(folder.State, shard).Newest()
		}
		return SignedCheckpoint{string(signed)}, err
	})
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

func showCheckpoint(p *cli.Program, of *client.Sharded[SignedCheckpoint]) error {
	if p.Out.JSON {
		return p.Out.Line(of)
	}
	if of.Several {
		p.Out.Heading("shard " + of.Cell())
	}
	p.Out.Printf("%s", of.Of.Checkpoint)
	return nil
}

func checkpointFailure(err error) error {
	if errors.Is(err, jetstream.ErrNoCheckpoint) {
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("the mesh signs one every ten minutes and when it stops, on a cluster \"bcpmesh audit checkpoint\" does; an export ends with one")
	}
	return cli.Failf("%s", cli.Plain(err.Error()))
}
