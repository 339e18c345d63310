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
	"sync"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

// TruncateOptions say how to truncate a journal.
type TruncateOptions struct {
	BackupOptions
	// Keep is called once the backup is written: it stores it durably, and returns
	// its path. It is required.
	Keep func() (file string, err error)
	// Step, if set, is called before each step with its description. An error
	// stops the truncation there and changes nothing.
	Step func(step string) error
}

var errSalvage = errors.New("a damaged journal is not truncated")

// Truncate writes a backup as [Backup] does, and removes from the journal what is
// in it. It cuts last, when the base that replaces it was proven, the backup was
// read back, and a record names both. If it is interrupted before that, even by
// kill or power cut, the mesh starts and can be truncated again. The manifest is
// that of the backup, which ends with the journal's base.
func Truncate(ctx context.Context, state string, def *bcp.Mesh, w io.Writer, o TruncateOptions) (jetstream.Manifest, error) {
	t := truncation{state: state, def: def, o: o}
	err := t.run(ctx, w)
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("truncate: %w", err)
	}
	return t.made, nil
}

type truncation struct {
	state string
	def   *bcp.Mesh
	o     TruncateOptions

	behind jetstream.Snapshot // the base of the truncated journal
	tree   jetstream.Unsigned
	base   jetstream.BaseFile
	made   jetstream.Manifest
	record bcp.Truncation
}

func (t *truncation) run(ctx context.Context, w io.Writer) error {
	if t.o.Salvage {
		return errSalvage
	}
	if _, err := accounts.Open(t.state); err != nil {
		return err
	}
	err := withStreams(ctx, t.state, t.def, t.o.Keys, func(js natsjs.JetStream) error { return t.prove(ctx, js) })
	if err == nil {
		err = t.sign()
	}
	if err == nil {
		err = withStreams(ctx, t.state, t.def, t.o.Keys, func(js natsjs.JetStream) error { return t.backUp(ctx, js, w) })
	}
	if err == nil {
		err = t.check()
	}
	if err == nil {
		err = t.step("recording the truncation")
	}
	// The record is on disk before anything is cut off, and everything is cut off
	// before anything is appended.
	if err == nil {
		err = withStreams(ctx, t.state, t.def, t.o.Keys, func(js natsjs.JetStream) error { return t.append(ctx, js) })
	}
	if err == nil {
		err = syncAll(t.state)
	}
	if err == nil {
		err = t.step("cutting the journal")
	}
	if err == nil {
		err = withStreams(ctx, t.state, t.def, t.o.Keys, func(js natsjs.JetStream) error {
			if err := jetstream.Truncate(ctx, js, t.behind.Position); err != nil {
				return err
			}
			return t.step("writing that to disk")
		})
	}
	if err == nil {
		err = syncAll(t.state)
	}
	if err == nil {
		err = t.step("removing older bases")
	}
	if err == nil {
		err = openBases(t.state).Keep(t.behind.Position)
	}
	return err
}

func (t *truncation) step(what string) error {
	if t.o.Step == nil {
		return nil
	}
	return t.o.Step(what)
}

// prove makes the base: the journal's checkpoint, which must restore to the state
// that makes the same checkpoint.
func (t *truncation) prove(ctx context.Context, js natsjs.JetStream) error {
	if err := t.step("reading the journal"); err != nil {
		return err
	}
	// Limits of an earlier truncation must not cut what is appended, and a full
	// journal must take the record.
	topology := newTopology(t.def)
	topology.MaxDisk = 0
	if err := jetstream.Create(ctx, js, topology); err != nil {
		return err
	}
	journal, err := jetstream.OpenJournal(ctx, js)
	if err != nil {
		return err
	}
	config := newStateConfig(t.def, t.o.Version)
	state, err := gateway.Replay(ctx, journal, openBases(t.state), jetstream.NewSealingKeys(js), config)
	if err != nil {
		return err
	}
	if err := jetstream.CheckEnd(ctx, js, state.Last()); err != nil {
		return err
	}
	if t.behind, err = provenBase(state, journal.Last(), config); err != nil {
		return err
	}
	if err := t.step("extending the tree"); err != nil {
		return err
	}
	if t.tree, err = Tree(t.state).Extend(ctx, journal); err != nil {
		return err
	}
	if err := t.step("bringing the projections up to date"); err != nil {
		return err
	}
	if err := project(ctx, js, topology, state.Last()); err != nil {
		return err
	}
	if err := t.step("writing the base"); err != nil {
		return err
	}
	t.base, err = openBases(t.state).Write(t.behind)
	return err
}

// provenBase returns the base for a journal that was read up to a sequence: a checkpoint
// that restores to the state that makes the same one.
func provenBase(made *state.State, sequence uint64, config state.Config) (jetstream.Snapshot, error) {
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
	return jetstream.Snapshot{
		Position:   jetstream.Position{Sequence: sequence, Decision: made.Last(), Head: made.Head()},
		Checkpoint: checkpoint,
	}, nil
}

// truncationRecord returns the record with which the journal of a state will begin.
func truncationRecord(state *state.State, t bcp.Truncation) ([]byte, error) {
	m := bcp.Moment{Now: time.Now(), Fresh: rand.Text()}
	_, _ = rand.Read(m.Salt[:])
	d := state.DecideTruncate(m, t)
	return bcp.EncodeDecision(&d)
}

// sign signs a checkpoint of everything that is cut off: the tree continues
// from there.
func (t *truncation) sign() error {
	if err := t.step("signing a checkpoint"); err != nil {
		return err
	}
	key, err := CheckpointKey(t.state, t.o.Keys...)
	if err == nil {
		err = syncAll(t.state)
	}
	if err == nil {
		err = Tree(t.state).Sign(t.tree, key)
	}
	return err
}

// projectTimeout is the timeout for projections to catch up.
const projectTimeout = 10 * time.Minute

// project makes the projections show what will be cut off.
func project(ctx context.Context, js natsjs.JetStream, topology jetstream.Topology, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, projectTimeout)
	var running sync.WaitGroup
	running.Go(func() { jetstream.NewProjector(js, topology, new(jetstream.Interrupter), nil).Run(ctx) })
	err := jetstream.Projected(ctx, js, last)
	cancel()
	running.Wait()
	return err
}

// backUp writes the backup, with the new base in case that is damaged later.
func (t *truncation) backUp(ctx context.Context, js natsjs.JetStream, w io.Writer) error {
	if err := t.step("writing the backup"); err != nil {
		return err
	}
	out := jetstream.NewBackupWriter(w, t.o.Version, time.Now())
	if !t.o.WithoutKeys {
		if err := putKeys(out, t.state); err != nil {
			return err
		}
	}
	err := out.Put(t.base.Name, t.base.Content)
	if err == nil {
		t.made, err = putJournal(ctx, out, js, t.state, t.o.BackupOptions, true)
	}
	if err == nil && (t.made.Records != t.behind.Sequence || t.made.Decisions != t.behind.Decision || t.made.Head != t.behind.Head) {
		err = fmt.Errorf("the backup ends with decision %d, but the snapshot is of decision %d", t.made.Decisions, t.behind.Decision)
	}
	return err
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

var errWentOn = errors.New("a mesh ran meanwhile: the journal went on")

// append writes the record with which the journal will begin.
func (t *truncation) append(ctx context.Context, js natsjs.JetStream) error {
	journal, err := jetstream.OpenJournal(ctx, js)
	if err != nil {
		return err
	}
	if err := journal.ReplayBehind(ctx, t.behind.Position, func([]byte) error { return errWentOn }); err != nil {
		return err
	}
	state, err := state.Restore(newStateConfig(t.def, t.o.Version), t.behind.Checkpoint)
	if err != nil {
		return err
	}
	record, err := truncationRecord(state, t.record)
	if err != nil {
		return err
	}
	return journal.Append(ctx, [][]byte{record})
}
