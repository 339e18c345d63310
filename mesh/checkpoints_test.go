package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// signed is the newest checkpoint of a state folder, and the key that opens it.
func signed(t *testing.T, state string) (verify.Checkpoint, string) {
	t.Helper()
	key := must(mesh.CheckpointKey(state))
	text := must(mesh.Tree(state).Newest())
	c := must(verify.OpenCheckpoint(text, []string{key.Public}))
	return c, key.Public
}

// exported exports a mesh that rests and verifies what came of it.
func exported(t *testing.T, m *meshtest.Mesh, since ...verify.Checkpoint) verify.Summary {
	t.Helper()
	key := must(mesh.CheckpointKey(m.State))
	var file bytes.Buffer
	noError(t, readSealed(t.Context(), m.State, m.Definition, func(records jetstream.Records, _ *jetstream.SealingKeys) error {
		_, err := jetstream.Export(t.Context(), &file, records, jetstream.ExportOptions{Key: key, Tree: mesh.Tree(m.State)})
		return err
	}))
	return must(verify.File(&file, verify.Options{Keys: []string{key.Public}, Since: since}))
}

// A mesh signs a checkpoint when it ends, each continues the one before, also over
// a backup; a salvaged journal, which has lost what was signed, gets another key.
//
// covers P11.2, A-CHAIN
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	m := busy(t)
	decided := func() uint64 { d := m.Decisions(); return d[len(d)-1].Seq }
	m.Stop(t)
	first, key := signed(t, m.State)
	failIf(t, first.Size < decided(), "the checkpoint is of %d decisions, and %d were made", first.Size, decided())
	expect(t, exported(t, m).Checkpoint, first, "the export ends with")
	m.Start(t)
	m.Stop(t)
	second, _ := signed(t, m.State)
	holds(t, second.Size > first.Size, "the second checkpoint is of %d decisions, the first of %d", second.Size, first.Size)

	var file bytes.Buffer
	must(backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{}))
	m.State = restoredOf(t, file.Bytes())
	info, err := os.Stat(filepath.Join(m.State, "keys", "checkpoint.key"))
	failIf(t, err != nil || info.Mode().Perm() != 0o600, "the restored key: %v %v", info, err)
	m.Start(t)
	m.Stop(t)
	third, same := signed(t, m.State)
	failIf(t, same != key || third.Size <= second.Size,
		"after a restore: %d decisions behind %d, the same key: %t", third.Size, second.Size, same == key)
	expect(t, exported(t, m, first, second, third).Checkpoint, third, "the export ends with")
	must(backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{}))
	for _, o := range []mesh.BackupOptions{{WithoutKeys: true}, {Salvage: true}} {
		file.Reset()
		if o.Salvage {
			damageEnd(t, m)
		}
		must(backUp(t.Context(), m.State, m.Definition, &file, o))
		state := restoredOf(t, file.Bytes())
		fails(t, errorOf(mesh.Tree(state).Newest()), jetstream.ErrNoCheckpoint, "%+v: the checkpoints came along", o)
		other, err := mesh.CheckpointKey(state)
		failIf(t, err != nil || other.Public == key, "%+v: the key came along: %v", o, err)
	}
}

// damageEnd puts behind the journal what is no record.
func damageEnd(t *testing.T, m *meshtest.Mesh) {
	t.Helper()
	js, end := m.Streams(t)
	defer end()
	ctx := within(t, meshtest.Patience)
	must(js.Publish(ctx, subjects.Commit(), []byte("no record"), natsjs.WithRetryAttempts(0)))
}

// A journal of which the chain is whole, but which is not the one that was
// signed, does not start, nor is it exported.
//
// covers P11.2, A-CHAIN
func TestRewrittenJournal(t *testing.T) {
	t.Parallel()
	m, other := busy(t), busy(t)
	m.Stop(t)
	other.Stop(t)
	// The other mesh's history in the place of ours.
	for _, name := range []string{"checkpoints", "hashes"} {
		content, err := os.ReadFile(filepath.Join(m.State, "tree", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(other.State, "tree", name), content, 0o600)
		}
		noError(t, err)
	}
	if err := other.TryStart(t); !errors.Is(err, jetstream.ErrRewritten) && !errors.Is(err, jetstream.ErrLost) {
		t.Errorf("it starts: %v", err)
	}
	other.Mesh = nil
	key := must(mesh.CheckpointKey(other.State))
	err := readSealed(t.Context(), other.State, other.Definition, func(records jetstream.Records, _ *jetstream.SealingKeys) error {
		_, err := jetstream.Export(t.Context(), new(bytes.Buffer), records, jetstream.ExportOptions{Key: key, Tree: mesh.Tree(other.State)})
		return err
	})
	failIf(t, !errors.Is(err, jetstream.ErrRewritten) && !errors.Is(err, jetstream.ErrLost), "it is exported: %v", err)
}

// Commands that sign at the same time sign once, one behind the other; one that finds
// another at it for too long signs nothing.
//
// covers P11.2
func TestSignCheckpointsTogether(t *testing.T) {
	t.Parallel()
	m := busy(t)
	m.Stop(t)
	var journal [][][]byte
	err := readSealed(t.Context(), m.State, m.Definition, func(records jetstream.Records, _ *jetstream.SealingKeys) error {
		return records(t.Context(), 0, 0, func(r jetstream.Record) error {
			journal = append(journal, r.Decisions)
			return nil
		})
	})
	stopIf(t, err != nil || len(journal) < 2, "%v %v", len(journal), err)
	state := t.TempDir()
	must(accounts.Create(state))
	sign := func(ctx context.Context, records int) ([]byte, error) {
		return mesh.SignCheckpoint(ctx, state, func(_ context.Context, from, _ uint64, each func(jetstream.Record) error) error {
			for n := max(1, from); n <= uint64(records); n++ {
				if err := each(jetstream.Record{Sequence: n, Decisions: journal[n-1]}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	fails(t, errorOf(sign(t.Context(), 0)), jetstream.ErrNoCheckpoint, "of nothing")
	for lines, records := range []int{len(journal) / 2, len(journal)} {
		var signing sync.WaitGroup
		for range 8 {
			signing.Go(func() {
				_, err := sign(t.Context(), records)
				failIf(t, err != nil, "%v", err)
			})
		}
		signing.Wait()
		content, err := os.ReadFile(filepath.Join(state, "tree", "checkpoints"))
		n := bytes.Count(content, []byte("\n"))
		failIf(t, err != nil || n != lines+1, "%d checkpoints, want %d: %v", n, lines+1, err)
	}
	fails(t, errorOf(sign(t.Context(), len(journal)-1)), jetstream.ErrLost, "a journal that lost its last record")

	lock := flock.New(filepath.Join(state, "tree", "lock"))
	ok, err := lock.TryLock()
	stopIf(t, !ok, "%v", err)
	ctx := within(t, 10*time.Millisecond)
	fails(t, errorOf(sign(ctx, len(journal))), mesh.ErrSigning, "while another signs")
	noError(t, lock.Close())
	fails(t, errorOf(mesh.SignCheckpoint(t.Context(), t.TempDir(), nil)), nil, "signed without keys")
}
