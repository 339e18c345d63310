package mesh

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// TruncateOptions say how to truncate a journal.
type TruncateOptions struct {
	BackupOptions
	// Keep is called once the backup is written: it stores it durably, and returns
	// its path. It is required, but for a backup that is truncated.
	Keep func() (file string, err error)
	// Step, if set, is called before each step with its description. An error
	// stops the truncation there and changes nothing.
	Step func(step string) error
}

var (
	errDamagedJournal = errors.New("a damaged journal is not truncated")
	errClusterJournal = errors.New("the journal of a cluster is not truncated in place: each of its nodes would cut at another moment. Truncate that of a folder made from a backup of it")
)

// Truncate writes a backup as [Source.Backup] does, and removes from the journal what is
// in it. A mesh that runs goes on meanwhile: first it announces where the journal may
// begin, then the base that replaces what is in front of that is proven, the backup is
// written and read back, and a record names both. The journal is cut last. If it is
// interrupted before that, even by kill or power cut, nothing is cut, and it can be
// truncated again. The manifest is that of the backup, which ends where the journal begins.
func (s *Source) Truncate(ctx context.Context, w io.Writer, o TruncateOptions) (jetstream.Manifest, error) {
	t := truncation{s: s, o: o}
	err := t.run(ctx, w)
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("truncate: %w", err)
	}
	return t.made, nil
}

type truncation struct {
	s *Source
	o TruncateOptions

	files  fileContents
	behind jetstream.Snapshot // the base of the truncated journal
	base   jetstream.BaseFile
	made   jetstream.Manifest
	record bcp.Truncation
}

func (t *truncation) run(ctx context.Context, w io.Writer) (err error) {
	switch {
	case t.o.Salvage:
		return errDamagedJournal
	case t.s.backed != nil || t.s.operator == nil && !t.s.folder():
		return errClusterJournal
	}
	if err := t.step("announcing it"); err != nil {
		return err
	}
	// What was signed until now is in front of the place.
	if t.files, err = t.s.readFiles(t.o.BackupOptions); err != nil {
		return err
	}
	truncate, err := t.truncater(ctx)
	if err != nil {
		return err
	}
	place, err := truncate(ctx, bcp.Truncation{})
	if err == nil {
		err = t.step("reading the journal")
	}
	if err == nil {
		err = t.prove(ctx, place)
	}
	if err == nil {
		err = t.step("writing the backup")
	}
	if err == nil {
		t.made, err = t.s.backup(ctx, w, t.o.BackupOptions, &upTo{place.Sequence, t.base, t.files})
	}
	if err == nil && (t.made.Records != place.Sequence || t.made.Decisions != place.Decision || t.made.Head != place.Head) {
		err = fmt.Errorf("the backup ends with decision %d, but the snapshot is of decision %d", t.made.Decisions, place.Decision)
	}
	if err == nil {
		err = t.check()
	}
	if err == nil {
		_, err = truncate(ctx, t.record)
	}
	return err
}

func (t *truncation) step(what string) error {
	if t.o.Step == nil {
		return nil
	}
	return t.o.Step(what)
}

// truncater returns what announces a truncation and does it: the running mesh, or the same
// here, for a folder on which none runs.
func (t *truncation) truncater(ctx context.Context) (func(context.Context, bcp.Truncation) (jetstream.Position, error), error) {
	if t.s.operator != nil {
		return t.s.operator.Truncate, nil
	}
	// Limits of an earlier truncation must not cut what is appended, and a full
	// journal must take the record.
	topology := jetstream.Topology{Replicas: 1}
	if err := jetstream.Create(ctx, t.s.js, topology); err != nil {
		return nil, err
	}
	config := newStateConfig(t.s.def, t.o.Version)
	made, sequence, err := t.s.replay(ctx, config, 0, nil)
	if err == nil {
		err = jetstream.CheckEnd(ctx, t.s.js, made.Last())
	}
	if err != nil {
		return nil, err
	}
	known, err := t.s.known()
	if err == nil && made.Last() < known {
		err = fmt.Errorf("%w: it ends at decision %d, and a snapshot was made of %d", jetstream.ErrLost, made.Last(), known)
	}
	if err != nil {
		return nil, err
	}
	journal, err := jetstream.OpenJournal(ctx, t.s.js)
	if err == nil {
		err = Tree(t.s.state).Check(ctx, journal)
	}
	if err == nil {
		err = journal.ReplayBehind(ctx, jetstream.Position{Sequence: sequence, Decision: made.Last(), Head: made.Head()}, nil)
	}
	if err != nil {
		return nil, err
	}
	c := cutter{
		state: t.s.state, js: t.s.js, step: t.step, part: jetstream.TruncatedBytes,
		sync: func() error { return t.s.server.Sync(jetstream.CommitStream) },
		append: func(ctx context.Context, about bcp.Truncation) (before jetstream.Position, err error) {
			before = jetstream.Position{Sequence: journal.Last(), Decision: made.Last(), Head: made.Head()}
			if about.Sequence == 0 {
				about.Sequence = before.Sequence
			}
			m := bcp.Moment{Now: time.Now(), Fresh: rand.Text()}
			_, _ = rand.Read(m.Salt[:])
			d := made.DecideTruncate(m, about)
			record, err := bcp.EncodeDecision(&d)
			if err == nil {
				err = journal.Append(ctx, [][]byte{record})
			}
			if err == nil {
				err = made.Apply(&d, bcp.RecordDigest(record))
			}
			return before, err
		},
		sign: func(ctx context.Context, place jetstream.Position) error {
			key, err := CheckpointKey(t.s.state, t.o.Keys...)
			if err != nil {
				return err
			}
			reading, err := jetstream.OpenJournal(ctx, t.s.js) // not the one that is written to
			if err != nil {
				return err
			}
			next, err := Tree(t.s.state).ExtendTo(ctx, reading, place)
			if err == nil {
				err = Tree(t.s.state).Sign(next, key)
			}
			return err
		},
		projected: jetstream.NewProjector(t.s.js, topology, new(jetstream.Interrupter), nil).Project,
		config:    func() state.Config { return config },
		cut: func(ctx context.Context, some func(context.Context) (bool, error)) error {
			for {
				if all, err := some(ctx); all || err != nil {
					return err
				}
			}
		},
	}
	return c.truncate, nil
}

// prove makes the base: the checkpoint of the state that the journal makes, which must
// restore to the state that makes the same checkpoint.
func (t *truncation) prove(ctx context.Context, place jetstream.Position) (err error) {
	config := newStateConfig(t.s.def, t.o.Version)
	made, sequence, err := t.s.replay(ctx, config, place.Sequence, nil)
	if err != nil {
		return err
	}
	if t.behind, err = provenBase(ctx, t.s.Keys, made, sequence, config); err != nil {
		return err
	}
	if t.behind.Position != place {
		return fmt.Errorf("%w: it ends with record %d, not with %d", jetstream.ErrRecord, sequence, place.Sequence)
	}
	if err := t.step("writing the base"); err != nil {
		return err
	}
	t.base, err = openBases(t.s.state).Write(t.behind)
	return err
}

// provenBase returns the base for a journal that was read up to a sequence: a checkpoint
// that restores to the state that makes the same one, with what was said sealed.
func provenBase(ctx context.Context, keys *jetstream.SealingKeys, made *state.State, sequence uint64, config state.Config) (jetstream.Snapshot, error) {
	checkpoint, err := made.Checkpoint()
	if err != nil {
		return jetstream.Snapshot{}, err
	}
	restored, err := state.Restore(config, checkpoint)
	if err != nil {
		return jetstream.Snapshot{}, err
	}
	if again, err := restored.Checkpoint(); err != nil || !bytes.Equal(again, checkpoint) {
		return jetstream.Snapshot{}, errors.Join(errors.New("restoring the state gives another one"), err)
	}
	if checkpoint, err = keys.SealCheckpoint(ctx, checkpoint); err != nil {
		return jetstream.Snapshot{}, err
	}
	return jetstream.Snapshot{
		Position:   jetstream.Position{Sequence: sequence, Decision: made.Last(), Head: made.Head()},
		Checkpoint: checkpoint,
	}, nil
}

// check reads the stored backup.
func (t *truncation) check() error {
	if err := t.step("checking the backup"); err != nil {
		return err
	}
	name, err := t.o.Keep()
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	sum := sha256.New()
	read, err := jetstream.ReadBackup(io.TeeReader(f, sum), jetstream.Restoring{})
	if err == nil && !reflect.DeepEqual(read, t.made) {
		err = fmt.Errorf("%w: it is not what was written", jetstream.ErrBackup)
	}
	if err == nil {
		_, err = io.Copy(sum, f) // the rest, which the archive's reader did not need
	}
	t.record = bcp.Truncation{Sequence: t.behind.Sequence, Base: sha256.Sum256(t.base.Content), Backup: bcp.Digest(sum.Sum(nil)), File: filepath.Base(name)}
	return err
}

// cutter truncates a journal for whoever writes it: a running mesh, or a command on a
// folder without one.
type cutter struct {
	state string // the folder
	js    natsjs.JetStream
	step  func(string) error
	part  uint64       // bytes that are cut off at once
	sync  func() error // has the disk take the journal
	// append records a truncation, and returns where the record before it ends.
	append func(context.Context, bcp.Truncation) (jetstream.Position, error)
	// sign extends the tree up to a place, and signs it.
	sign      func(context.Context, jetstream.Position) error
	projected func(ctx context.Context, last uint64) error
	config    func() state.Config
	// cut calls some until that says that all is cut off. Nothing is appended meanwhile.
	cut func(ctx context.Context, some func(context.Context) (all bool, err error)) error
}

// truncate announces a truncation if t is zero, and else does it.
func (c *cutter) truncate(ctx context.Context, t bcp.Truncation) (place jetstream.Position, err error) {
	if t == (bcp.Truncation{}) {
		return c.announce(ctx)
	}
	// The base stands for all that is cut off: it must be what the record names, of
	// the announced place, and such as the next start can begin with.
	begin, err := jetstream.Announced(ctx, c.js, t.Sequence+1)
	if err == nil && !begin.Truncated() {
		err = fmt.Errorf("%w: there is nothing in front of record %d", jetstream.ErrRecord, t.Sequence+1)
	}
	if err != nil {
		return place, err
	}
	begin.Truncation = t
	base, _, err := openBases(c.state).Read(ctx, begin)
	var checkpoint []byte
	if err == nil {
		checkpoint, err = jetstream.NewSealingKeys(c.js).OpenCheckpoint(ctx, base.Checkpoint)
	}
	if err == nil {
		_, err = state.Restore(c.config(), checkpoint)
	}
	if err != nil {
		return place, err
	}
	if signed, err := Tree(c.state).Reaches(); err != nil || signed < begin.Sequence {
		return place, errors.Join(fmt.Errorf("%w: record %d has no checkpoint", jetstream.ErrTree, begin.Sequence), err)
	}
	for _, one := range []struct {
		step string
		do   func() error
	}{
		{"bringing the projections up to date", func() error { return c.projected(ctx, begin.Decision) }},
		// The record is on disk before anything is cut off.
		{"recording the truncation", func() error { _, err := c.append(ctx, t); return err }},
		{"writing that to disk", c.sync},
		{"cutting the journal", func() error {
			return c.cut(ctx, func(ctx context.Context) (bool, error) {
				return jetstream.Truncate(ctx, c.js, begin.Position, c.part, c.limited)
			})
		}},
		{"removing older bases", func() error { return openBases(c.state).Keep(begin.Position) }},
	} {
		if err = c.step(one.step); err == nil {
			err = one.do()
		}
		if err != nil {
			return place, err
		}
	}
	return begin.Position, nil
}

func (c *cutter) limited() error { return c.step("lifting the limit") }

// announce records that the journal may begin with this record, and has the tree cover
// what is in front of it: from the journal nobody can make that again.
func (c *cutter) announce(ctx context.Context) (place jetstream.Position, err error) {
	if place, err = c.append(ctx, bcp.Truncation{}); err == nil {
		err = c.step("signing a checkpoint")
	}
	if err == nil {
		err = c.sync()
	}
	if err == nil {
		err = c.sign(ctx, place)
	}
	return place, err
}

// truncated is the answer to a request about a truncation.
type truncated struct {
	jetstream.Position `json:",inline"`
	Failed             string `json:"failed,omitempty"`
}

// truncateAsked announces a truncation or does it, on the operator's request.
func (m *Mesh) truncateAsked(ctx context.Context, body []byte) (any, error) {
	c, ok := bcp.ParseControl(body)
	if !ok || c.Truncate == nil || c != (bcp.Control{Truncate: c.Truncate}) {
		return bcp.RefusalOf(bcp.Malformed), nil
	}
	position, err := m.truncate(ctx, *c.Truncate)
	if err != nil {
		m.config.Logger.Error("truncating the journal", "error", err)
		return truncated{position, err.Error()}, nil
	}
	return truncated{Position: position}, nil
}

func (m *Mesh) truncate(ctx context.Context, t bcp.Truncation) (jetstream.Position, error) {
	m.reloading.Lock() // the definitions stay
	defer m.reloading.Unlock()
	c := cutter{
		state: m.config.State, js: m.js, step: m.truncating, part: m.truncatedAtOnce, sync: func() error { return m.server.Sync(jetstream.CommitStream) },
		append: m.gateway.RecordTruncation, sign: m.checkpoints.sign, projected: m.Projected,
		config: func() state.Config { return m.stateConfig(m.definition.Load()) }, cut: m.gateway.Cut,
	}
	return c.truncate(ctx, t)
}
