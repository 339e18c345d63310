package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
)

func auditKeyCommand(p *program) *cobra.Command {
	var where stateFlags
	var shard shardFlag
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Show the public key that verifies exports",
		Long: `Show the public key of the checkpoints, in the form of golang.org/x/mod/sumdb/note:
name, hash and key. Give it to whoever verifies exports, on another way than the
exports. The key is made once and stays; a lost one cannot be made again. Each shard of
a mesh on a cluster has one of its own, whose name says the shard.`,
		Example: `  bcpmesh audit key
  bcpmesh audit key > office.key && bcpmesh audit verify office.bcpaudit --key office.key`,
		Args: arguments(0),
		RunE: func(*cobra.Command, []string) error {
			folder, err := where.folder()
			if err != nil {
				return err
			}
			store, err := accounts.Open(folder.state)
			if err != nil {
				return checkpointKeyFailure(err, folder)
			}
			shards, _, err := shard.of(folder, nil, store, wasExported(folder.state))
			if err != nil {
				return err
			}
			of, err := (&journals{shards: shards}).one("")
			if err != nil {
				return err
			}
			key, err := store.CheckpointPublic(of)
			if err != nil {
				return checkpointKeyFailure(err, folder)
			}
			if p.out.json {
				return p.out.value(sharded[publicKey]{Of: publicKey{key}, Shard: of})
			}
			p.out.printf("%s\n", key)
			return nil
		},
	}
	where.addTo(cmd)
	shard.addTo(cmd, ofJournal)
	return cmd
}

type publicKey struct {
	Key string `json:"key"`
}

// signedCheckpoint is one as it was signed.
type signedCheckpoint struct {
	Checkpoint string `json:"checkpoint"`
}

func auditCheckpointCommand(p *program) *cobra.Command {
	var where stateFlags
	var shard shardFlag
	var wait durationFlag
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Show the newest signed checkpoint; on a cluster, sign it",
		Long: `Show the newest checkpoint that was recorded in the state folder, as it was signed
(C2SP tlog-checkpoint). One is signed every ten minutes in which something was
decided, and when the mesh ends in order. Keep them elsewhere: "bcpmesh audit verify
--since" shows that a later export continues them.

The gateways of a cluster have no key that signs. There, this command does: it reads
what each shard's journal has behind its newest checkpoint, and signs where that is
anything. A journal that is not the one of the newest checkpoint is refused. Have it
run every ten minutes (docs/production.md).`,
		Example: `  bcpmesh audit checkpoint > monday.checkpoint
  bcpmesh audit verify friday.bcpaudit --key office.key --since monday.checkpoint
  bcpmesh audit checkpoint --json >> office.checkpoints  # all shards of a cluster`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			newest, missing := checkpoints(ctx, where, shard)
			for i := range newest {
				if i > 0 && !p.out.json {
					p.out.printf("\n")
				}
				if err := p.showCheckpoint(&newest[i]); err != nil {
					return err
				}
			}
			return errors.Join(missing, p.out.flush())
		},
	}
	where.addTo(cmd)
	shard.addTo(cmd, ofPeople)
	waitFlag(cmd, &wait, 10*time.Minute, "on a cluster: how long it may take")
	return cmd
}

// checkpoints are the newest of the shards that are meant: on a cluster, of what their
// journals have now.
func checkpoints(ctx context.Context, where stateFlags, shard shardFlag) ([]sharded[signedCheckpoint], error) {
	folder, err := where.folder()
	if err != nil {
		return nil, err
	}
	if about, err := folder.running(); err != nil || !about.Cluster {
		if _, err := shard.among(1); err != nil {
			return nil, err
		}
		newest, err := mesh.Tree(folder.state, 0).Newest()
		if err != nil {
			return nil, checkpointFailure(err)
		}
		return alone([]signedCheckpoint{{string(newest)}}), nil
	}
	j, err := openJournals(ctx, where, shard)
	if err != nil {
		return nil, err
	}
	defer j.close()
	return onShards(ctx, j.shards, func(ctx context.Context, shard int) (signedCheckpoint, error) {
		signed, err := mesh.SignCheckpoint(ctx, folder.state, shard, operatorRecordsFrom(j.client.operator(shard)), unlock())
		if err != nil {
			err = signingFailure(err, folder)
		}
		return signedCheckpoint{string(signed)}, err
	})
}

func signingFailure(err error, folder meshFolder) error {
	switch {
	case errors.Is(err, mesh.ErrSigning):
		return failf("another command signs checkpoints of this journal").withHint("try again")
	case errors.Is(err, jetstream.ErrNoCheckpoint):
		return failf("nothing was decided yet")
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeOf(err)
	}
	return exportFailure(err, folder.state)
}

func (p *program) showCheckpoint(of *sharded[signedCheckpoint]) error {
	if p.out.json {
		return p.out.line(of)
	}
	if of.several {
		p.out.heading("shard " + of.cell())
	}
	p.out.printf("%s", of.Of.Checkpoint)
	return nil
}

func checkpointFailure(err error) error {
	if errors.Is(err, jetstream.ErrNoCheckpoint) {
		return failf("%s", plain(err.Error())).withHint("the mesh signs one every ten minutes and when it ends, on a cluster \"bcpmesh audit checkpoint\"; an export ends with one")
	}
	return failf("%s", plain(err.Error()))
}
