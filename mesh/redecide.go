package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// RedecideOptions select the decisions to make again, and with what.
type RedecideOptions struct {
	// Definition has the rules of the new decisions; Version names the program
	// that makes them. Both are required.
	Definition *bcp.Mesh
	Version    string
	// Since is the first moment and Until the one after the last; zero means no
	// limit. Channel, if set, selects one channel; the zero channel stands for
	// decisions that belong to none.
	Since, Until time.Time
	Channel      *bcp.ChannelKey
	// Each is called with every decision of the journal up to Until, in order. The
	// result is zero if the decision is not made again, or not selected. An error
	// stops it.
	Each func(*bcp.Decision, state.Redecision) error
	// Progress, if set, is called with the number of records done and the total.
	Progress func(done, all uint64)
	// Keys say how sealed keys of a state folder are opened.
	Keys []accounts.OpenOption
}

func (o *RedecideOptions) wants(d *bcp.Decision) bool {
	key, _ := d.Channel()
	return !d.At().Before(o.Since) && (o.Channel == nil || *o.Channel == key)
}

// Redecide makes the decisions about recorded messages again and compares them
// (PROTOCOL P11.3). No mesh may run on the state folder: then the error wraps
// [server.ErrInUse]. A truncated journal is decided again from its base on: if the
// definitions need more than the base has, the error wraps [state.ErrDefinitions].
// def are the folder's own definitions, and may be nil. Nothing in the folder is
// changed. The digest is of the program and definitions: decisions with this digest
// as context were made by the same.
func Redecide(ctx context.Context, state string, def *bcp.Mesh, o RedecideOptions) (by bcp.Digest, err error) {
	err = withStreams(ctx, state, def, o.Keys, func(js natsjs.JetStream) (err error) {
		by, err = redecide(ctx, o, recordsUnder(jetstream.JournalRecords(js), jetstream.NewSealingKeys(js)), baseIn(ctx, state))
		return err
	})
	if err != nil {
		return bcp.Digest{}, fmt.Errorf("decide again: %w", err)
	}
	return by, nil
}

// RedecideRunning is [Redecide] for a mesh that runs on a state folder, up to the
// current last record, with readers of its journal and keys.
func RedecideRunning(ctx context.Context, state string, records jetstream.Records, keys jetstream.KeyGiver, o RedecideOptions) (bcp.Digest, error) {
	by, err := redecide(ctx, o, recordsUnder(records, jetstream.GivenSealingKeys(keys)), baseIn(ctx, state))
	if err != nil {
		return bcp.Digest{}, fmt.Errorf("decide again: %w", err)
	}
	return by, nil
}

// DecidedBy returns the digest of definitions and a version: decisions with this
// digest as context were made by the same.
func DecidedBy(def *bcp.Mesh, version string) (bcp.Digest, error) {
	r, err := state.NewRedecider(newStateConfig(def, version))
	if err != nil {
		return bcp.Digest{}, err
	}
	return r.Context(), nil
}

func recordsUnder(records jetstream.Records, keys *jetstream.SealingKeys) recordReader {
	return func(ctx context.Context, next nextRecord) error {
		done := uint64(0)
		return records(ctx, func(decisions [][]byte, left uint64) error {
			done++
			return next(keys, decisions, done, done+left)
		})
	}
}

func baseIn(ctx context.Context, state string) baseReader {
	return func(begin jetstream.Beginning) (jetstream.Snapshot, error) {
		base, _, err := openBases(state).Read(ctx, begin)
		return base, err
	}
}

// RedecideBackup is [Redecide] for the journal in a backup, all of which is
// checked first.
func RedecideBackup(ctx context.Context, from io.ReadSeeker, o RedecideOptions) (by bcp.Digest, err error) {
	var keys *jetstream.SealingKeys // after the journal in the backup of a cluster
	var base jetstream.BaseFile
	m, err := jetstream.ReadBackup(from, jetstream.Restoring{
		File: func(name string, content io.Reader) (err error) {
			if path.Dir(name) == jetstream.BaseFolder {
				base.Name = name
				base.Content, err = io.ReadAll(content)
			}
			return err
		},
		Keys: func(stored []jetstream.StoredKey) (err error) {
			keys, err = jetstream.SealingKeysOf(stored)
			return err
		},
	})
	if err == nil && keys == nil {
		err = fmt.Errorf("%w: it has no sealing keys", jetstream.ErrBackup)
	}
	if err == nil {
		_, err = from.Seek(0, io.SeekStart)
	}
	if err == nil {
		by, err = redecide(ctx, o, func(_ context.Context, next nextRecord) error {
			done := uint64(0)
			_, err := jetstream.ReadBackup(from, jetstream.Restoring{Record: func(decisions [][]byte) error {
				done++
				return next(keys, decisions, done, m.Records)
			}})
			return err
		}, base.Open)
	}
	if err != nil {
		return bcp.Digest{}, fmt.Errorf("decide again: %w", err)
	}
	return by, nil
}

const (
	// openTogether is how many decisions one goroutine opens, and openAhead the
	// number of such goroutines.
	openTogether = 256
	openAhead    = 8
)

// opening is a part of the journal that is being decoded and opened.
type opening struct {
	records   [][]byte
	done, all uint64
	recorded  []state.Recorded
	err       error
	ready     chan struct{}
}

// recordReader calls next with each record of a journal: its sealing keys, its
// decisions, the number of records done and the total.
type (
	recordReader func(ctx context.Context, next nextRecord) error
	nextRecord   func(keys *jetstream.SealingKeys, decisions [][]byte, done, all uint64) error
	// baseReader returns the base of a truncated journal.
	baseReader func(jetstream.Beginning) (jetstream.Snapshot, error)
)

var errUntil = errors.New("the rest is not asked for")

// redecide decides in the order of the journal, while the following records are opened.
func redecide(ctx context.Context, o RedecideOptions, read recordReader, base baseReader) (by bcp.Digest, err error) {
	redecider, err := state.NewRedecider(newStateConfig(o.Definition, o.Version))
	if err != nil {
		return by, err
	}
	first := true
	ctx, cancel := context.WithCancelCause(ctx)
	parts := make(chan *opening, openAhead)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(errUntil)
	var readErr error // before parts is closed
	work.Go(func() {
		defer close(parts)
		readErr = readParts(ctx, parts, &work, read)
	})
	for part := range parts {
		<-part.ready
		if part.err != nil {
			return by, part.err
		}
		for i := range part.recorded {
			rec := &part.recorded[i]
			if first && rec.Decision.Seq > 1 {
				if redecider, err = redeciderBehind(&rec.Decision, o, base); err != nil {
					return by, err
				}
			}
			first = false
			if !o.Until.IsZero() && !rec.Decision.At().Before(o.Until) {
				return redecider.Context(), nil
			}
			result, err := redecider.Next(rec, o.wants(&rec.Decision))
			if err == nil {
				err = o.Each(&rec.Decision, result)
			}
			if err != nil {
				return by, err
			}
		}
		if o.Progress != nil {
			o.Progress(part.done, part.all)
		}
	}
	return redecider.Context(), readErr
}

// redeciderBehind returns the redecider of a truncated journal, whose first
// decision is d.
func redeciderBehind(d *bcp.Decision, o RedecideOptions, base baseReader) (*state.Redecider, error) {
	begin, err := jetstream.BeginningWith(d)
	if err != nil {
		return nil, err
	}
	snapshot, err := base(begin)
	if err != nil {
		return nil, err
	}
	redecider, err := state.NewRedeciderBehind(newStateConfig(o.Definition, o.Version), snapshot.Checkpoint)
	if err != nil {
		err = fmt.Errorf("%w; the journal was truncated after decision %d", err, begin.Decision)
	}
	return redecider, err
}

// readParts sends the journal in parts, each opened by its own goroutine.
func readParts(ctx context.Context, parts chan<- *opening, work *sync.WaitGroup, read recordReader) error {
	part := &opening{}
	var keys *jetstream.SealingKeys
	send := func() error {
		p, with := part, keys
		p.ready = make(chan struct{})
		part = &opening{}
		work.Go(func() {
			defer close(p.ready)
			p.open(ctx, with)
		})
		select {
		case parts <- p:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := read(ctx, func(k *jetstream.SealingKeys, decisions [][]byte, done, all uint64) error {
		keys = k
		part.records, part.done, part.all = append(part.records, decisions...), done, all
		if len(part.records) < openTogether {
			return ctx.Err()
		}
		return send()
	})
	if err == nil && len(part.records) > 0 {
		err = send()
	}
	return err
}

func (p *opening) open(ctx context.Context, keys *jetstream.SealingKeys) {
	p.recorded = make([]state.Recorded, len(p.records))
	for i, record := range p.records {
		if p.recorded[i], p.err = keys.Recorded(ctx, record); p.err != nil {
			return
		}
	}
}
