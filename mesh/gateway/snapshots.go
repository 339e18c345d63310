package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// A snapshot spares the next start most of the journal. While the gateway
// serves, a snapshot is made from the journal, not from the live state, by a
// goroutine with its own connection: deciding never waits for it, and damage of
// the journal is found while the mesh still runs.

const (
	// defaultSnapshotEvery is how many decisions a start has to read at most,
	// apart from those of snapshotPause.
	defaultSnapshotEvery = 100_000
	// snapshotPause is the least time between two.
	snapshotPause = time.Minute
)

// replayed is a state and its origin.
type replayed struct {
	state *state.State
	read  uint64 // decisions read after the snapshot
}

// replay makes the state of a journal under some definitions: from the newest
// valid snapshot, or from the beginning of the journal. The journal decides: a
// snapshot that it does not continue is skipped. It calls each, if set, with the
// decisions that it reads; after a skipped snapshot again with the same ones.
func (g *Gateway) replay(ctx context.Context, journal *jetstream.Journal, config state.Config, each func(*bcp.Decision)) (replayed, error) {
	begins, err := journal.Begin(ctx)
	if err != nil {
		return replayed{}, err
	}
	newest, err := g.config.Bases.Newest()
	var base jetstream.Snapshot
	if err == nil && begins.Truncated() {
		base, _, err = g.config.Bases.Read(ctx, begins) // also proven if a snapshot replaces it
	}
	if err != nil {
		return replayed{}, err
	}
	r, ahead, err := g.replaySnapshot(ctx, journal, config, each)
	if err == nil && r.state == nil {
		var first *state.State
		if begins.Truncated() {
			first, err = g.restore(ctx, config, base.Checkpoint)
		} else {
			first, err = state.New(config)
		}
		if err == nil {
			r, err = g.replayBehind(ctx, journal, begins.Position, first, each)
		}
	}
	if ahead = max(ahead, newest); err == nil && r.state.Last() < ahead {
		err = fmt.Errorf("%w: it ends at decision %d, and a snapshot was made of %d", jetstream.ErrLost, r.state.Last(), ahead)
	}
	return r, err
}

// replaySnapshot returns no state if no snapshot is valid. ahead is a snapshot
// beyond the end of the journal.
func (g *Gateway) replaySnapshot(ctx context.Context, journal *jetstream.Journal, config state.Config, each func(*bcp.Decision)) (r replayed, ahead uint64, err error) {
	snapshots, log := g.config.Snapshots, g.log
	if snapshots == nil {
		return replayed{}, 0, nil
	}
	names, err := snapshots.List()
	if err != nil {
		log.Warn("reading the snapshots", "error", err)
	}
	for _, name := range names {
		snapshot, err := snapshots.Read(name)
		if err == nil {
			r, err = g.replayFrom(ctx, journal, snapshot, config, each)
		}
		switch {
		case err == nil:
			return r, ahead, nil
		case ctx.Err() != nil, jetstream.Unanswered(err): // not the snapshot's fault
			return replayed{}, 0, err
		case errors.Is(err, jetstream.ErrPosition), errors.Is(err, jetstream.ErrKeyLost): // with the journal perhaps
			ahead = max(ahead, snapshot.Decision)
		}
		log.Warn("a snapshot is passed over", "snapshot", name, "reason", err)
	}
	return replayed{}, ahead, nil
}

// restore makes the state of a checkpoint, with what was said sealed.
func (g *Gateway) restore(ctx context.Context, config state.Config, checkpoint []byte) (*state.State, error) {
	checkpoint, err := g.keys.OpenCheckpoint(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	return state.Restore(config, checkpoint)
}

// replayBehind makes the state of a position go on to the end of the journal.
func (g *Gateway) replayBehind(ctx context.Context, journal *jetstream.Journal, from jetstream.Position, s *state.State, each func(*bcp.Decision)) (replayed, error) {
	err := journal.ReplayBehind(ctx, from, applyTo(ctx, g.keys, s, each))
	return replayed{s, s.Last() - from.Decision}, err
}

// errUnseen is for a snapshot that may have decisions of this gateway that it does not
// know to be stored.
var errUnseen = errors.New("it has decisions that were not acknowledged")

func (g *Gateway) replayFrom(ctx context.Context, journal *jetstream.Journal, snapshot jetstream.Snapshot, config state.Config, each func(*bcp.Decision)) (replayed, error) {
	state, err := g.restore(ctx, config, snapshot.Checkpoint)
	if err != nil {
		return replayed{}, err
	}
	if state.Last() != snapshot.Decision || state.Head() != snapshot.Head {
		return replayed{}, fmt.Errorf("%w: its checkpoint is of decision %d", jetstream.ErrSnapshot, state.Last())
	}
	if each != nil && g.observed > 0 && snapshot.Decision > g.observed {
		return replayed{}, errUnseen
	}
	return g.replayBehind(ctx, journal, snapshot.Position, state, each)
}

func applyTo(ctx context.Context, keys *jetstream.SealingKeys, state *state.State, each func(*bcp.Decision)) func([]byte) error {
	return func(record []byte) error {
		var d bcp.Decision
		next := state.Last() + 1
		err := safely(func() (err error) {
			if d, err = keys.Decode(ctx, record); err != nil {
				return err
			}
			return state.Apply(&d, bcp.RecordDigest(record))
		})
		if errors.Is(err, ErrPanic) {
			return fmt.Errorf("decision %d of the journal cannot be read by this version: %w", next, err)
		}
		if err == nil && each != nil {
			each(&d)
		}
		return err
	}
}

// snapshotDue starts a snapshot if the last is too old, and none is being made.
func (g *Gateway) snapshotDue(ctx context.Context) {
	every := g.config.SnapshotEvery
	if every == 0 {
		every = defaultSnapshotEvery
	}
	if g.config.Snapshots == nil || g.unsnapped() < every || time.Since(g.snapped) < g.config.snapshotPause() || !g.snapshotting.TryLock() {
		return
	}
	g.snapped = time.Now()
	config := g.config.State
	g.beside.Go(func() {
		defer g.snapshotting.Unlock()
		if err := safely(func() error { return g.makeSnapshot(ctx, config) }); err != nil && ctx.Err() == nil {
			g.log.Warn("making a snapshot", "error", err)
		}
	})
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

// ownStreams connects to the streams, until the caller calls end: reading all of the journal
// does not affect the connection of the deciding loop. Until then nothing is cut off it.
func (g *Gateway) ownStreams() (js natsjs.JetStream, end func(), err error) {
	g.reading.RLock()
	conn, err := g.config.Connect()
	if err != nil {
		g.reading.RUnlock()
		return nil, nil, err
	}
	end = func() {
		conn.Close()
		g.reading.RUnlock()
	}
	if js, err = natsjs.New(conn); err != nil {
		end()
	}
	return js, end, err
}

// readJournal opens the journal over [Gateway.ownStreams].
func (g *Gateway) readJournal(ctx context.Context) (journal *jetstream.Journal, end func(), err error) {
	js, end, err := g.ownStreams()
	if err != nil {
		return nil, nil, err
	}
	if journal, err = jetstream.OpenJournal(ctx, js); err != nil {
		end()
	}
	return journal, end, err
}

// makeSnapshot makes one while the caller holds snapshotting, so that a snapshot from
// before an erasure cannot be written after it.
func (g *Gateway) makeSnapshot(ctx context.Context, config state.Config) error {
	begun := time.Now()
	journal, end, err := g.readJournal(ctx)
	if err != nil {
		return err
	}
	defer end()
	r, err := g.replay(ctx, journal, config, nil)
	if err != nil {
		return err
	}
	return g.writeSnapshot(ctx, r.state, journal.Last(), begun)
}

func (g *Gateway) writeSnapshot(ctx context.Context, state *state.State, sequence uint64, begun time.Time) error {
	checkpoint, err := state.Checkpoint()
	if err == nil {
		checkpoint, err = g.keys.SealCheckpoint(ctx, checkpoint)
	}
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

// lastSnapshot makes one from the state when the gateway stops in order: nobody
// waits for a decision any more.
func (g *Gateway) lastSnapshot() {
	if g.config.Snapshots == nil || !g.sound || g.unsnapped() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := safely(func() error { return g.writeSnapshot(ctx, g.state, g.journal.Last(), time.Now()) }); err != nil {
		g.log.Warn("making a snapshot", "error", err)
	}
}

const (
	// checkAttempts is how often a journal must be found damaged: a busy server may
	// not answer for long.
	checkAttempts = 3
	// checkPause is the pause after a failed read.
	checkPause = time.Second
	// checkFirst is how long a start from a snapshot checks the rest of the journal
	// before anybody is served. What is left is checked while serving.
	checkFirst = time.Second
)

// checkBefore is checkJournal before anybody is served, limited to a moment. It reports
// whether that was all. On a cluster nobody waits for it: a gateway takes over.
func (g *Gateway) checkBefore(ctx context.Context) (all bool, err error) {
	if g.config.Cluster {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkFirst)
	defer cancel()
	err = g.checkChain(ctx)
	if errors.Is(err, jetstream.ErrRecord) {
		return false, err
	}
	return err == nil, nil // an error says nothing about the journal
}

// checkJournal reads what the start from a snapshot did not: the chain of all
// decisions. If the journal is damaged or was changed, it stops the gateway, since a
// start without a snapshot would have refused it: nothing more is released.
func (g *Gateway) checkJournal(ctx context.Context) {
	for ctx.Err() == nil {
		err := g.checkChain(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case errors.Is(err, jetstream.ErrRecord):
			g.damage.Store(&err)
			g.cancel(err)
			return
		}
		g.log.Warn("checking the journal; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(checkPause):
		}
	}
}

// alertTimeout bounds telling people of a damage.
const alertTimeout = 2 * time.Second

// endDamaged logs what was released before the damage was known, and returns that with
// the damage.
func (g *Gateway) endDamaged(damage error) error {
	g.sound = false
	released := "nothing was released since it began to serve"
	count := 0
	if g.released > g.began.decision {
		count = int(g.released - g.began.decision)
		released = fmt.Sprintf("decisions %d to %d were released since it began to serve at %s",
			g.began.decision+1, g.released, g.began.at.UTC().Format(time.RFC3339))
	}
	err := fmt.Errorf("%w; the damage was found while the gateway served: %s", damage, released)
	g.log.Error("the journal is damaged; the gateway ends", "error", err)
	g.alertUnrecorded(bcp.Alert{Type: bcp.TypeAlert, Alert: bcp.AlertDamaged, Seq: g.released, Time: g.clock(), Count: count})
	ctx, cancel := context.WithTimeout(context.Background(), alertTimeout)
	defer cancel()
	if err := g.Flush(ctx); err != nil {
		g.log.Warn("telling people of it", "error", err)
	}
	return err
}

// checkChain reads the chain of the decisions. Damage is found in each of some attempts.
func (g *Gateway) checkChain(ctx context.Context) (err error) {
	for range checkAttempts {
		if err = g.readChain(ctx); !errors.Is(err, jetstream.ErrRecord) {
			return err
		}
	}
	return fmt.Errorf("the journal in front of the snapshot: %w", err)
}

func (g *Gateway) readChain(ctx context.Context) error {
	journal, end, err := g.readJournal(ctx)
	if err != nil {
		return err
	}
	defer end()
	var chain jetstream.Chain
	return journal.Replay(ctx, func(decision []byte) error { return chain.Add([][]byte{decision}) })
}
