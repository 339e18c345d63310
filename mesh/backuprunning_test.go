package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// A mesh that decides is backed up as it was when that began, whatever it decides
// meanwhile: the same chain, budgets and keys, which can be decided again. So is one with a
// truncated journal. The mesh itself goes on.
//
// covers P4.5, P11.1, P11.2, P11.3
func TestBackupRunning(t *testing.T) {
	t.Parallel()
	m := busy(t)
	for _, truncated := range []bool{false, true} {
		if truncated {
			m.Stop(t)
			archive(t, m, "before.tar.gz")
			m.Start(t)
		}
		o, mailer := operator(t, m), reader(t, m, "mailer")
		mailer.Push(t, "main", "notes", `{"note":"two words"}`, "")
		m.Settle(t)
		want := picture(t, m)
		before := len(m.Decisions())
		var file bytes.Buffer
		first := true
		made, err := mesh.Dial(m.State, m.Definition, operatorOf(o)).Backup(t.Context(), &file, mesh.BackupOptions{Version: "test", Progress: func(done, all uint64) {
			if first {
				mailer.Push(t, "main", "notes", `{"note":"three more words"}`, "")
			}
			first = false
		}})
		noError(t, err)
		m.Settle(t)
		decisions := m.Decisions()
		stopIf(t, len(decisions) <= before, "nothing was decided meanwhile")
		behind := decisions[before] // the first that is not in it
		failIf(t, behind.Seq != made.Decisions+1 || behind.Prev != made.Head,
			"truncated %t: it ends with decision %d, and %d came behind", truncated, made.Decisions, behind.Seq)
		m.Stop(t)
		original := m.State
		m.State = restoredOf(t, file.Bytes())
		again := redecide(t, m, m.Definition, nil)
		failIf(t, len(again.differs) > 0 || again.count[state.ComparedSame] == 0,
			"truncated %t: decided again %v, differs %v", truncated, again.count, again.differs)
		m.Start(t)
		shows(t, m, want, truncated)
		m.Stop(t)
		m.State = original // where it goes on with what it has decided meanwhile
		m.Start(t)
	}
	m.Stop(t)
}

// What was erased stays so in a backup that is made while the mesh runs, and a key that
// nobody has destroyed is not left out.
//
// covers P11.5
func TestBackupRunningKeepsErasures(t *testing.T) {
	t.Parallel()
	m := busy(t)
	m.Settle(t)
	journal := operatorOf(operator(t, m))
	var file bytes.Buffer
	journal.Key = func(context.Context, string) (bcp.GivenKey, error) { return bcp.GivenKey{}, nil }
	_, err := mesh.Dial(m.State, m.Definition, journal).Backup(t.Context(), &file, mesh.BackupOptions{})
	failIf(t, !errors.Is(err, jetstream.ErrKeyLost), "without keys: %v", err)
	file.Reset()
	journal.Key = func(context.Context, string) (bcp.GivenKey, error) { return bcp.GivenKey{Destroyed: true}, nil }
	must(mesh.Dial(m.State, m.Definition, journal).Backup(t.Context(), &file, mesh.BackupOptions{}))
	state := restoredOf(t, file.Bytes())
	erased := 0
	if err := readSealed(t.Context(), state, m.Definition, func(records jetstream.Records, keys *jetstream.SealingKeys) error {
		return records(t.Context(), 0, 0, func(r jetstream.Record) error {
			for _, record := range r.Decisions {
				d, err := keys.Decode(t.Context(), record)
				if err != nil {
					return err
				}
				failIf(t, len(d.Sealed) > 0 && !d.Private.Erased, "decision %d can be opened", d.Seq)
				if d.Private.Erased {
					erased++
				}
			}
			return nil
		})
	}); err != nil || erased == 0 {
		t.Errorf("%d decisions were erased: %v", erased, err)
	}
}
