package client

import (
	"context"
	"iter"
	"os"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

// Journal is the journal of a mesh: read over the mesh if it runs, also on a cluster,
// and from the state folder if it is stopped.
type Journal struct {
	Folder meshdir.Folder
	Client *Client // the operator's, nil where the mesh rests
}

// OpenJournal opens the journal of a mesh.
func OpenJournal(ctx context.Context, where meshdir.StateFlags) (*Journal, error) {
	folder, err := where.Folder()
	if err != nil {
		return nil, err
	}
	j := &Journal{Folder: folder}
	if folder.Serves() {
		j.Client, err = ConnectOperator(ctx, where)
		return j, err
	}
	if _, err := os.Stat(home.Streams(folder.State)); err != nil {
		if meshdir.WasExported(folder.State) {
			return nil, cli.Failf("there is no journal in %s, and the address of its cluster is not known", cli.Quoted(folder.State)).WithHint("bcpmesh accounts push saves it for the commands that have the keys")
		}
		return nil, cli.Failf("there is no journal in %s", cli.Quoted(folder.State)).WithHint("no mesh has run there; --state names another folder")
	}
	return j, nil
}

// Close disconnects.
func (j *Journal) Close() {
	if j.Client != nil {
		j.Client.Close()
	}
}

// Read calls read with the records of a journal, and the keys that open them.
func (j *Journal) Read(ctx context.Context, read func(jetstream.Records, *jetstream.SealingKeys) error) error {
	if j.Client == nil {
		return mesh.ReadSealed(ctx, j.Folder.State, j.Folder.Definition(), read, meshdir.Unlock())
	}
	o := j.Client.Operator()
	// Whoever looks at the checkpoints says that they cannot be read.
	least, _ := mesh.Tree(j.Folder.State).Reaches()
	return read(OperatorRecords(o, least), jetstream.GivenSealingKeys(o.Key))
}

// OperatorRecords are the records of a journal as the operator reads them, which is known
// to have one with the sequence least.
func OperatorRecords(o *agents.Operator, least uint64) jetstream.Records {
	return func(ctx context.Context, each func([][]byte, uint64) error) error {
		return eachRecord(ctx, o.Journal, 0, least, func(r *agents.Record, decisions [][]byte) error { return each(decisions, r.Pending) })
	}
}

// OperatorRecordsFrom are the records of a journal as the operator reads them.
func OperatorRecordsFrom(o *agents.Operator) jetstream.RecordsFrom {
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
				return meshdir.Failure(err)
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
			return meshdir.Failure(ctx.Err())
		case <-time.After(copyPause):
		}
	}
}
