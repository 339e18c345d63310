package mesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

// treeFolder has the Merkle tree over the journal and its checkpoints, in the state folder.
const treeFolder = "tree"

// checkpointEvery is the time between two checkpoints, if there are new
// decisions. One more is signed when the mesh stops in order.
const checkpointEvery = 10 * time.Minute

// lastExtend is the timeout for reading the journal when the mesh stops, part of
// the timeout for stopping. The next start signs the rest.
const lastExtend = 5 * time.Second

// Tree returns the checkpoints in a state folder.
func Tree(state string) *jetstream.Tree {
	return jetstream.NewTree(filepath.Join(state, treeFolder))
}

// CheckpointKey returns the key of a state folder that signs the checkpoints.
// keys say how to open it if it is sealed.
func CheckpointKey(state string, keys ...accounts.OpenOption) (jetstream.CheckpointKey, error) {
	store, err := accounts.Open(state, keys...)
	if err != nil {
		return jetstream.CheckpointKey{}, err
	}
	return loadCheckpointKey(store)
}

func loadCheckpointKey(store *accounts.Store) (jetstream.CheckpointKey, error) {
	signer, public, err := store.CheckpointKey()
	return jetstream.CheckpointKey{Signer: signer, Public: public}, err
}

// signingPatience is how long a command waits while another one signs.
const signingPatience = 10 * time.Second

// ErrSigning says that another process is extending the tree.
var ErrSigning = errors.New("checkpoints of this journal are being signed")

// SignCheckpoint extends the tree with the journal of a cluster, and returns
// the newest checkpoint; if anything is new, it signs it, since gateways have no key for
// that. Records that the servers return are on their disks. If the journal is not that of
// the newest checkpoint, nothing is signed and the error wraps [jetstream.ErrLost] or
// [jetstream.ErrRewritten].
func SignCheckpoint(ctx context.Context, state string, records jetstream.Records, keys ...accounts.OpenOption) (signed []byte, err error) {
	key, err := CheckpointKey(state, keys...)
	folder := filepath.Join(state, treeFolder)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, signingPatience)
	defer cancel()
	lock := flock.New(filepath.Join(folder, "lock"), flock.SetPermissions(0o600))
	if ok, err := lock.TryLockContext(waiting, signingPatience/100); !ok {
		return nil, fmt.Errorf("sign a checkpoint: %w", errors.Join(ErrSigning, err))
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	tree := jetstream.NewTree(folder)
	next, err := tree.Extend(ctx, records, jetstream.Position{})
	if err == nil {
		err = tree.Sign(next, key)
	}
	if err != nil {
		return nil, err
	}
	return tree.Newest()
}

// checkpoints signs checkpoints of the journal while a mesh runs, over its own
// connection: no decision waits for it.
type checkpoints struct {
	tree      *jetstream.Tree
	key       jetstream.CheckpointKey
	log       hclog.Logger
	witnesses *witnesses
	sync      func() error // has the disk take the journal
	// interrupter makes the requests for extending the tree.
	interrupter jetstream.Interrupter

	signing sync.Mutex // one at a time
	journal jetstream.Records
}

// prepareCheckpoints runs before the server starts, so that witnesses are asked for the
// last time when it has ended.
func (m *Mesh) prepareCheckpoints(marks *gateway.Marks) error {
	key, err := loadCheckpointKey(m.store)
	if err != nil {
		return fmt.Errorf("start the checkpoints: %w", err)
	}
	log := m.config.Logger.Named("checkpoints")
	c := &checkpoints{tree: Tree(m.config.State), key: key, log: log, sync: func() error { return m.server.Sync(jetstream.CommitStream) }}
	c.witnesses = newWitnesses(m.config, c.tree, marks, func(kind bcp.AlertKind) {
		if g := m.recorder.Load(); g != nil {
			g.Alert(kind, nil)
		}
	}, log)
	m.onStop(func() error { c.witnesses.lastWitness(); return nil })
	m.checkpoints = c
	return nil
}

// start begins to sign. It refuses a journal other than that of the newest
// checkpoint.
func (c *checkpoints) start(ctx context.Context, m *Mesh) error {
	conn, err := m.connect()
	if err != nil {
		return err
	}
	js, err := natsjs.New(conn)
	if err != nil {
		return fmt.Errorf("start the checkpoints: %w", err)
	}
	c.journal = jetstream.JournalRecords(js, false)
	err = jetstream.AwaitAnswer(ctx, func() error {
		return c.interrupter.Do(ctx, func(ctx context.Context) error {
			_, err := js.Stream(ctx, jetstream.CommitStream)
			if err == nil {
				err = c.tree.Check(ctx, c.journal)
			}
			if errors.Is(err, natsjs.ErrStreamNotFound) { // just created: the server reopens it
				err = fmt.Errorf("%w: %w", jetstream.ErrUnanswered, err)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	sign := func(ctx context.Context) {
		if err := c.sign(ctx, jetstream.Position{}); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			c.log.Error("no checkpoint was signed", "error", err)
		}
	}
	m.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lastExtend)
		defer cancel()
		sign(ctx)
		return nil
	})
	m.nowAndEvery(checkpointEvery, sign)
	return nil
}

// extendPause is the time between two tries to read what nothing answers.
const extendPause = time.Second

// extend retries if the streams were closed meanwhile.
func (c *checkpoints) extend(ctx context.Context, upTo jetstream.Position) (next jetstream.Unsigned, err error) {
	for {
		err = c.interrupter.Do(ctx, func(ctx context.Context) error {
			next, err = c.tree.Extend(ctx, c.journal, upTo)
			return err
		})
		if !errors.Is(err, jetstream.ErrUnanswered) || !sleep(ctx, extendPause) {
			return next, err
		}
	}
}

// sign signs what the journal has in front of a place, or all of it, once the disk has it.
func (c *checkpoints) sign(ctx context.Context, place jetstream.Position) error {
	c.signing.Lock()
	defer c.signing.Unlock()
	next, err := c.extend(ctx, place)
	if err != nil || next == (jetstream.Unsigned{}) {
		return err
	}
	if err = c.sync(); err == nil {
		err = c.tree.Sign(next, c.key)
		c.witnesses.sign()
	}
	return err
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
