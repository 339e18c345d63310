package gateway

import (
	"context"
	"errors"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Follow makes snapshots of a journal that another gateway writes, until ctx ends, so
// that a takeover has little to read: at once, and then every minute if there is more
// to read. It needs State, Connect, Snapshots and Logger of config. It keeps one
// snapshot, so that erased content is in none that is older.
func Follow(ctx context.Context, config Config) {
	var seen uint64
	for {
		var err error
		if err = safely(func() (err error) { seen, err = follow(ctx, config, seen); return err }); err != nil && ctx.Err() == nil {
			config.Logger.Warn("following the journal", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(config.snapshotPause(), leastFollow)):
		}
	}
}

// leastFollow is the minimum time between two snapshots of Follow.
const leastFollow = time.Second

// follow makes a snapshot if the journal has more than seen, and returns what it has
// seen.
func follow(ctx context.Context, config Config, seen uint64) (uint64, error) {
	g := &Gateway{config: config, log: config.Logger}
	js, end, err := g.ownStreams()
	if err != nil {
		return seen, err
	}
	defer end()
	stream, err := js.Stream(ctx, jetstream.CommitStream)
	if errors.Is(err, natsjs.ErrStreamNotFound) { // nobody has served yet
		return seen, nil
	}
	if err != nil || stream.CachedInfo().State.LastSeq == seen {
		return seen, err
	}
	// The keys are read again each time: some may be destroyed.
	g.keys = jetstream.NewSealingKeys(js)
	journal, err := jetstream.OpenJournal(ctx, js)
	if err != nil {
		return seen, err
	}
	begun := time.Now()
	r, err := g.replay(ctx, journal, config.State, nil)
	if err != nil {
		return seen, err
	}
	if r.read > 0 {
		if err := g.writeSnapshot(ctx, r.state, journal.Last(), begun); err != nil {
			return seen, err
		}
	}
	return journal.Last(), config.Snapshots.RemoveBefore(r.state.Last())
}
