package main

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// journals are those of the shards of a mesh that are meant: read over the mesh where it
// runs, also on a cluster, and from the state folder where it rests.
type journals struct {
	folder meshFolder
	client *client // the operator's, nil where the mesh rests
	shards []int
}

func openJournals(ctx context.Context, where stateFlags, shard shardFlag) (*journals, error) {
	folder, err := where.folder()
	if err != nil {
		return nil, err
	}
	j := &journals{folder: folder}
	if folder.serves() {
		who := clientFlags{where: where, shard: shard}
		if j.client, err = who.connect(ctx, bcp.RoleOperator); err != nil {
			return nil, err
		}
		j.shards = j.client.shards
		return j, nil
	}
	if _, err := os.Stat(filepath.Join(folder.state, "jetstream")); err != nil {
		if wasExported(folder.state) {
			return nil, failf("there is no journal in %s, and nothing says where its cluster is", quoted(folder.state)).withHint("bcpmesh accounts push tells the commands beside the keys")
		}
		return nil, failf("there is no journal in %s", quoted(folder.state)).withHint("the mesh never ran there; --state names another folder")
	}
	j.shards, err = shard.among(1)
	return j, err
}

func (j *journals) close() {
	if j.client != nil {
		j.client.Close()
	}
}

// one returns the only shard that is meant, or that has to do with an agent.
func (j *journals) one(about bcp.AgentName) (int, error) {
	shards := j.shards
	if j.client != nil {
		shards = j.client.on(about)
	}
	if len(shards) > 1 {
		return 0, usagef("the mesh has %d shards, each with a journal of its own", len(shards)).withHint("say which is meant: --shard")
	}
	return shards[0], nil
}

// read calls read with the records of a journal, and the keys that open them.
func (j *journals) read(ctx context.Context, shard int, read func(jetstream.Records, *jetstream.SealingKeys) error) error {
	if j.client == nil {
		return mesh.ReadSealed(ctx, j.folder.state, j.folder.definition(), read, unlock())
	}
	o := j.client.operator(shard)
	// Whoever looks at the checkpoints says that they cannot be read.
	least, _ := mesh.Tree(j.folder.state, shard).Reaches()
	return read(operatorRecords(o, least), jetstream.GivenSealingKeys(o.Key))
}

// operatorRecords are the records of a journal as the operator reads them, which is known
// to have one with the sequence least.
func operatorRecords(o *agents.Operator, least uint64) jetstream.Records {
	return func(ctx context.Context, each func([][]byte, uint64) error) error {
		return eachRecord(ctx, o.Journal, 0, least, func(r *agents.Record, decisions [][]byte) error { return each(decisions, r.Pending) })
	}
}

// operatorRecordsFrom are the records of a journal as the operator reads them.
func operatorRecordsFrom(o *agents.Operator) jetstream.RecordsFrom {
	return func(ctx context.Context, from, least uint64, each func(uint64, [][]byte) error) error {
		return eachRecord(ctx, o.Journal, from, least, func(r *agents.Record, decisions [][]byte) error { return each(r.Sequence, decisions) })
	}
}

const (
	// A server of a cluster that answers may be behind the others: what the journal is
	// known to have is waited for so long, and asked for so often.
	copyPatience = 15 * time.Second
	copyPause    = 250 * time.Millisecond
)

// recordsSince reads a journal from a sequence on, up to what the server has that answers.
type recordsSince func(ctx context.Context, from uint64) iter.Seq2[agents.Record, error]

func eachRecord(ctx context.Context, since recordsSince, from, least uint64, each func(*agents.Record, [][]byte) error) error {
	for patience := time.Now().Add(copyPatience); ; {
		for r, err := range since(ctx, from) {
			if err != nil {
				return outcomeOf(err)
			}
			decisions, err := jetstream.DecodeRecord(r.Data)
			if err == nil {
				err = each(&r, decisions)
			}
			if err != nil {
				return err
			}
			from = r.Sequence + 1
		}
		if from > least || time.Now().After(patience) {
			return nil
		}
		select {
		case <-ctx.Done():
			return outcomeOf(ctx.Err())
		case <-time.After(copyPause):
		}
	}
}
