package mesh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
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
	case t.s.operator == nil && !t.s.folder():
		return errClusterJournal
	}
	if err := t.step("announcing it"); err != nil {
		return err
	}
	// What was signed until now is in front of the place.
	if t.files, err = t.s.readFiles(t.o.BackupOptions); err != nil {
		return err
	}
	truncate := func(ctx context.Context, about bcp.Truncation) (jetstream.Position, error) {
		return t.s.operator.Truncate(ctx, about)
	}
	if t.s.folder() {
		m, err := t.closed(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Stop(context.WithoutCancel(ctx))) }()
		truncate = m.truncate
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

// closed serves the folder of a source, on which no mesh runs, for a truncation alone: its
// server is on a private address, and its gateway refuses everything and decides nothing by
// itself: an export made before the cut continues behind it. Nobody is notified, and a full journal
// takes the record.
func (t *truncation) closed(ctx context.Context) (*Mesh, error) {
	s, def := t.s, *t.s.def
	def.Replicas, def.MaxDisk, def.Notify = 1, 0, nil
	m := newMesh(Config{Definition: &def, State: s.state, Version: t.o.Version, Logger: hclog.NewNullLogger()})
	m.definition.Store(s.def)
	m.store, m.server, m.bus, m.truncating = s.store, s.server, s.server, t.step
	m.disk = func() (free, size int64, err error) { return 0, 0, nil } // else it would be told
	err := m.prepareCheckpoints(nil)
	if err == nil {
		err = m.serve(ctx, gateway.Config{Acts: map[string]gateway.Act{}, Continues: true, Closed: func() gateway.Closing { return gateway.ClosedToAll }})
	}
	if err != nil {
		return nil, errors.Join(err, m.Stop(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// prove makes the base: the checkpoint of the state that the journal makes, which must
// restore to the state that makes the same checkpoint.
func (t *truncation) prove(ctx context.Context, place jetstream.Position) (err error) {
	config := newStateConfig(t.s.def, t.o.Version)
	made, sequence, err := t.s.replay(ctx, config, place.Sequence)
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

// truncate announces a truncation if t is zero, and else does it.
func (m *Mesh) truncate(ctx context.Context, t bcp.Truncation) (place jetstream.Position, err error) {
	m.reloading.Lock() // the definitions stay
	defer m.reloading.Unlock()
	if t == (bcp.Truncation{}) {
		return m.announce(ctx)
	}
	// The base stands for all that is cut off: it must be what the record names, of
	// the announced place, and such as the next start can begin with.
	begin, err := jetstream.Announced(ctx, m.js, t.Sequence+1)
	if err == nil && !begin.Truncated() {
		err = fmt.Errorf("%w: there is nothing in front of record %d", jetstream.ErrRecord, t.Sequence+1)
	}
	if err != nil {
		return place, err
	}
	begin.Truncation = t
	base, _, err := openBases(m.config.State).Read(ctx, begin)
	var checkpoint []byte
	if err == nil {
		checkpoint, err = jetstream.NewSealingKeys(m.js).OpenCheckpoint(ctx, base.Checkpoint)
	}
	if err == nil {
		_, err = state.Restore(m.stateConfig(m.Definition()), checkpoint)
	}
	if err != nil {
		return place, err
	}
	if signed, err := Tree(m.config.State).Reaches(); err != nil || signed < begin.Sequence {
		return place, errors.Join(fmt.Errorf("%w: record %d has no checkpoint", jetstream.ErrTree, begin.Sequence), err)
	}
	for _, one := range []struct {
		step string
		do   func() error
	}{
		{"bringing the projections up to date", func() error { return m.Projected(ctx, begin.Decision) }},
		// The record is on disk before anything is cut off.
		{"recording the truncation", func() error { _, err := m.gateway.RecordTruncation(ctx, t); return err }},
		{"writing that to disk", m.checkpoints.sync},
		{"cutting the journal", func() error {
			return m.gateway.Cut(ctx, func(ctx context.Context) (bool, error) {
				return jetstream.Truncate(ctx, m.js, begin.Position, m.truncatedAtOnce, func() error { return m.truncating("lifting the limit") })
			})
		}},
		{"removing older bases", func() error { return openBases(m.config.State).Keep(begin.Position) }},
	} {
		if err = m.truncating(one.step); err == nil {
			err = one.do()
		}
		if err != nil {
			return place, err
		}
	}
	return begin.Position, nil
}

// announce records that the journal may begin with this record, and has the tree cover
// what is in front of it: from the journal nobody can make that again.
func (m *Mesh) announce(ctx context.Context) (place jetstream.Position, err error) {
	if place, err = m.gateway.RecordTruncation(ctx, bcp.Truncation{}); err == nil {
		err = m.truncating("signing a checkpoint")
	}
	if err == nil {
		err = m.checkpoints.sync()
	}
	if err == nil {
		err = m.checkpoints.sign(ctx, place)
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
