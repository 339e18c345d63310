package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// A snapshot spares the next start most of the journal. While the gateway
// serves, it is made of the journal and not of the live state, by a goroutine
// with a connection of its own: deciding never waits for it, and what it cannot
// read is found while the mesh still runs.

const (
	// defaultSnapshotEvery is how many decisions a start has to read at most,
	// apart from those of snapshotPause.
	defaultSnapshotEvery = 100_000
	// snapshotPause is the least time between two.
	snapshotPause = time.Minute
)

// replayed is a state, and how it came about.
type replayed struct {
	state *bcp.State
	read  uint64 // decisions that were read behind the snapshot
}

// replay makes the state of a journal under some definitions: from the newest
// snapshot that stands up to everything, or from the whole journal. The journal
// has the last word: a snapshot that it does not continue is passed over.
func replay(ctx context.Context, journal *jetstream.Journal, snapshots *jetstream.Snapshots, config bcp.Config, log hclog.Logger) (replayed, error) {
	var ahead uint64 // of a snapshot that the journal does not reach
	if snapshots != nil {
		names, err := snapshots.List()
		if err != nil {
			log.Warn("reading the snapshots", "error", err)
		}
		for _, name := range names {
			r, err := replayFrom(ctx, journal, snapshots, name, config)
			switch {
			case err == nil:
				return r, nil
			case ctx.Err() != nil:
				return replayed{}, err
			case errors.Is(err, jetstream.ErrPosition):
				ahead = max(ahead, r.state.Last())
				log.Warn("a snapshot is passed over", "snapshot", name, "reason", err)
			case errors.Is(err, bcp.ErrDefinitions):
				log.Info("a snapshot is passed over", "snapshot", name, "reason", err)
			default:
				log.Warn("a snapshot is passed over", "snapshot", name, "reason", err)
			}
		}
	}
	state, err := bcp.NewState(config)
	if err != nil {
		return replayed{}, err
	}
	err = journal.Replay(ctx, applyTo(state))
	if last := state.Last(); err == nil && last < ahead {
		err = fmt.Errorf("%w: it ends at decision %d, and a snapshot was made of %d", jetstream.ErrLost, last, ahead)
	}
	return replayed{state, state.Last()}, err
}

func replayFrom(ctx context.Context, journal *jetstream.Journal, snapshots *jetstream.Snapshots, name string, config bcp.Config) (replayed, error) {
	snapshot, err := snapshots.Read(name)
	if err != nil {
		return replayed{}, err
	}
	state, err := bcp.Restore(config, snapshot.Checkpoint)
	if err != nil {
		return replayed{}, err
	}
	if state.Last() != snapshot.Decision || state.Head() != snapshot.Head {
		return replayed{}, fmt.Errorf("%w: its checkpoint is of decision %d", jetstream.ErrSnapshot, state.Last())
	}
	err = journal.ReplayBehind(ctx, snapshot.Position, applyTo(state))
	return replayed{state, state.Last() - snapshot.Decision}, err
}

func applyTo(state *bcp.State) func([]byte) error {
	return func(record []byte) error {
		d, err := bcp.DecodeDecision(record)
		if err != nil {
			return err
		}
		return state.Apply(&d, bcp.RecordDigest(record))
	}
}

// snapshotDue has a snapshot made where the last is long ago.
func (g *Gateway) snapshotDue() {
	every := g.config.SnapshotEvery
	if every == 0 {
		every = defaultSnapshotEvery
	}
	if g.config.Snapshots == nil || g.unsnapped() < every || time.Since(g.snapped) < g.config.snapshotPause() {
		return
	}
	select {
	case g.snapshots <- g.config.State:
		g.snapped = time.Now()
	default: // one is being made
	}
}

// unsnapped counts the decisions since the newest snapshot.
func (g *Gateway) unsnapped() uint64 {
	last := g.state.Last()
	return last - min(last, g.snappedUpTo.Load())
}

func (c *Config) snapshotPause() time.Duration {
	if c.SnapshotEvery > 0 {
		return 0
	}
	return snapshotPause
}

// makeSnapshots serves snapshotDue until ctx ends.
func (g *Gateway) makeSnapshots(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case config := <-g.snapshots:
			if err := g.makeSnapshot(ctx, config); err != nil && ctx.Err() == nil {
				g.log.Warn("making a snapshot", "error", err)
			}
		}
	}
}

// readJournal opens the journal over a connection of its own, which the caller
// ends: reading all of it leaves the connection of the deciding loop alone.
func (g *Gateway) readJournal(ctx context.Context) (*jetstream.Journal, func(), error) {
	conn, err := g.config.Connect()
	if err != nil {
		return nil, nil, err
	}
	js, err := natsjs.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	journal, err := jetstream.OpenJournal(ctx, js, g.config.Shard)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return journal, conn.Close, nil
}

func (g *Gateway) makeSnapshot(ctx context.Context, config bcp.Config) error {
	begun := time.Now()
	journal, end, err := g.readJournal(ctx)
	if err != nil {
		return err
	}
	defer end()
	r, err := replay(ctx, journal, g.config.Snapshots, config, g.log)
	if err != nil {
		return err
	}
	return g.writeSnapshot(r.state, journal.Last(), begun)
}

func (g *Gateway) writeSnapshot(state *bcp.State, sequence uint64, begun time.Time) error {
	checkpoint, err := state.Checkpoint()
	if err != nil {
		return err
	}
	if err := g.config.Snapshots.Write(jetstream.Snapshot{
		Position:   jetstream.Position{Sequence: sequence, Decision: state.Last(), Head: state.Head()},
		Checkpoint: checkpoint,
	}); err != nil {
		return err
	}
	g.snappedUpTo.Store(state.Last())
	g.log.Info("snapshot made", "decisions", state.Last(), "bytes", len(checkpoint), "took", time.Since(begun).Round(time.Millisecond))
	return nil
}

// lastSnapshot is made of the state when the gateway ends in order: nobody waits
// for a decision any more.
func (g *Gateway) lastSnapshot() {
	if g.config.Snapshots == nil || !g.sound || g.unsnapped() == 0 {
		return
	}
	if err := g.writeSnapshot(g.state, g.journal.Last(), time.Now()); err != nil {
		g.log.Warn("making a snapshot", "error", err)
	}
}

// checkAttempts is how often a journal has to be found damaged: a server that is
// busy may be silent for long.
const checkAttempts = 3

// checkJournal reads what the start from a snapshot did not: the chain of all
// decisions. It ends the gateway where the journal is damaged or was changed,
// as a start without a snapshot would have refused it.
func (g *Gateway) checkJournal(ctx context.Context) {
	var err error
	for range checkAttempts {
		if err = g.checkChain(ctx); err == nil || ctx.Err() != nil || !errors.Is(err, jetstream.ErrRecord) {
			break
		}
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, jetstream.ErrRecord):
		g.log.Error("the journal in front of the snapshot is damaged; the gateway ends", "error", err)
		g.cancel(fmt.Errorf("the journal in front of the snapshot: %w", err))
	default:
		g.log.Warn("checking the journal", "error", err)
	}
}

func (g *Gateway) checkChain(ctx context.Context) error {
	journal, end, err := g.readJournal(ctx)
	if err != nil {
		return err
	}
	defer end()
	var chain jetstream.Chain
	return journal.Replay(ctx, func(decision []byte) error { return chain.Add([][]byte{decision}) })
}
