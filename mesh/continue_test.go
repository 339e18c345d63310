package mesh_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// What is exported before and behind truncations is one history: each file
// continues the one before, of the mesh that goes on, of one that its newest
// backup makes, and of the whole journal that all backups make.
//
// covers P11.2, A-CHAIN
func TestExportsOverTruncations(t *testing.T) {
	t.Parallel()
	m := busy(t)
	m.Stop(t)
	var archives []string
	var since []verify.Checkpoint
	last := uint64(0)
	for _, name := range []string{"first.tar.gz", "second.tar.gz"} {
		part := exported(t, m, since...)
		failIf(t, part.First != last+1 && len(since) > 0,
			"in front of %s: decisions %d to %d, behind %d", name, part.First, part.Last, last)
		since, last = []verify.Checkpoint{part.Checkpoint}, part.Last
		forgetCheckpoint(t, m.State) // as a mesh that was killed
		file, _ := archive(t, m, name)
		archives = append(archives, file)
		if cut := exported(t, m, since...); cut.First != last+1 || cut.Last != last+2 { // announced and done
			t.Errorf("behind %s: decisions %d to %d, behind %d", name, cut.First, cut.Last, last)
		}
		m.Start(t)
		more(t, m)
		booksAgree(t, m)
		m.Stop(t)
		if r, err := reconcileFolder(t.Context(), m.State, m.Definition, "test"); err != nil || len(r.Differences) > 0 || r.Decisions <= last {
			t.Errorf("behind %s the books do not agree: %+v %v", name, r, err)
		}
		c, _ := signed(t, m.State)
		failIf(t, c.Size <= last+2, "behind %s a checkpoint of %d decisions was signed", name, c.Size)
	}
	end := exported(t, m, since...)
	if c := redecide(t, m, m.Definition, nil); c.count[state.ComparedDiffers]+c.count[state.ComparedFollows]+c.count[state.ComparedErased] > 0 || c.count[state.ComparedSame] == 0 {
		t.Errorf("what follows the cut is decided otherwise: %v %v", c.count, c.differs)
	}
	newest, _ := backupTo(t, m, "newest.tar.gz")
	original := m.State
	for name, files := range map[string][]string{"the newest": {newest}, "all": {archives[0], archives[1], newest}, "the first": archives[:1]} {
		state, made, err := restored(t, files...)
		stopIf(t, err != nil, "%s: %v", name, err)
		m.State = state
		m.Start(t)
		m.Stop(t)
		var compare []verify.Checkpoint
		if name != "the first" {
			compare = append(since, end.Checkpoint)
		}
		part := exported(t, m, compare...)
		failIf(t, part.First != made.Begins.Decision+1 || part.Last <= made.Decisions,
			"%s: decisions %d to %d", name, part.First, part.Last)
		proveNewest(t, m, part)
	}
	m.State = original
	damagedHashes(t, m, archives[1])
}

// forgetCheckpoint removes the newest.
func forgetCheckpoint(t *testing.T, state string) {
	t.Helper()
	name := filepath.Join(state, "tree", "checkpoints")
	content, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, content[:bytes.LastIndexByte(bytes.TrimSuffix(content, []byte("\n")), '\n')+1], 0o600)
	}
	noError(t, err)
}

// booksAgree has a mesh that runs reconcile.
func booksAgree(t *testing.T, m *meshtest.Mesh) {
	t.Helper()
	operator := m.Connect(t, bcp.Operator, bcp.RoleOperator)
	defer operator.Close()
	reply, err := operator.Conn.Request(subjects.Control(bcp.ControlReconcile), []byte("{}"), meshtest.Patience)
	var r status.Reconciliation
	if err == nil {
		err = json.Unmarshal(reply.Data, &r)
	}
	failIf(t, err != nil || len(r.Differences) > 0 || r.Decisions == 0, "the books do not agree: %+v %v", r, err)
}

// proveNewest proves the decision that is the first of an export.
func proveNewest(t *testing.T, m *meshtest.Mesh, part verify.Summary) {
	t.Helper()
	var first []byte
	noError(t, readSealed(t.Context(), m.State, m.Definition, func(records jetstream.Records, _ *jetstream.SealingKeys) error {
		return records(t.Context(), 0, 0, func(r jetstream.Record) error {
			if first == nil {
				first = r.Decisions[0]
			}
			return nil
		})
	}))
	proof := must(mesh.Tree(m.State).Prove(part.First, first))
	_, key := signed(t, m.State)
	p, err := verify.Proof(proof, []string{key})
	failIf(t, err != nil || p.Decision != part.First, "decision %d: %v", p.Decision, err)
}

// damagedHashes takes away what a truncated journal's tree cannot be made again
// of: everything that needs it names the backup that has it.
func damagedHashes(t *testing.T, m *meshtest.Mesh, file string) {
	t.Helper()
	hashes := filepath.Join(m.State, "tree", "hashes")
	good := must(os.ReadFile(hashes))
	changed := make([]byte, len(good))
	for name, content := range map[string][]byte{"gone": nil, "cut": good[:32], "changed": changed} {
		noError(t, os.WriteFile(hashes, content, 0o600))
		key := must(mesh.CheckpointKey(m.State))
		export := mesh.Use(t.Context(), m.State, m.Definition, func(s *mesh.Source) error {
			_, err := s.Export(t.Context(), io.Discard, jetstream.ExportOptions{Key: key})
			return err
		})
		_, backup := backUp(t.Context(), m.State, m.Definition, io.Discard, mesh.BackupOptions{})
		_, truncation := truncate(t.Context(), m.State, m.Definition, filepath.Join(t.TempDir(), "x"), nil)
		for what, err := range map[string]error{"export": export, "backup": backup, "truncation": truncation} {
			failIf(t, !errors.Is(err, jetstream.ErrHashes) || !strings.Contains(err.Error(), filepath.Base(file)),
				"%s, %s: %v", name, what, err)
		}
		m.Start(t) // without checkpoints, until they are back
		m.Stop(t)
	}
	out, err := exec.CommandContext(t.Context(), "tar", "-xzf", file, "-C", m.State, "tree/hashes").CombinedOutput()
	stopIf(t, err != nil, "%v: %s", err, out)
	before, _ := signed(t, m.State)
	m.Start(t)
	m.Stop(t)
	after, _ := signed(t, m.State)
	failIf(t, after.Size <= before.Size, "a checkpoint of %d decisions is followed by one of %d", before.Size, after.Size)
	exported(t, m, before)
}

// A journal of which the end is gone is whole as far as it goes, and no backup is
// made of it as if it were all: what was shown of it, or signed, tells.
//
// covers P11.1, P11.2, A-CRASH
func TestBackupOfALostEnd(t *testing.T) {
	t.Parallel()
	m := busy(t)
	m.Stop(t)
	folder := streamFolder(t, m.State, jetstream.CommitStream)
	before := filepath.Join(t.TempDir(), "before")
	noError(t, os.CopyFS(before, os.DirFS(folder)))
	m.Start(t)
	more(t, m)
	m.Stop(t)
	noError(t, errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(before))))
	refused := func(what string) {
		t.Helper()
		fails(t, errorOf(backUp(t.Context(), m.State, m.Definition, io.Discard, mesh.BackupOptions{})), jetstream.ErrLost,
			"%s", what)
	}
	refused("shown, signed and in a snapshot")
	fails(t, m.TryStart(t), jetstream.ErrLost, "it starts")
	m.Mesh = nil
	away := t.TempDir()
	move := func(name, from, to string) {
		t.Helper()
		noError(t, os.Rename(filepath.Join(from, name), filepath.Join(to, name)))
	}
	move("snapshots", m.State, away)
	move("tree", m.State, away)
	refused("shown")
	move("tree", away, m.State)
	for _, name := range jetstream.Projections() {
		noError(t, os.RemoveAll(filepath.Join(filepath.Dir(folder), name)))
	}
	js, end := m.Streams(t)
	noError(t, jetstream.Create(t.Context(), js, jetstream.Topology{Replicas: 1}))
	end()
	refused("signed")
	move("snapshots", away, m.State)
	var file bytes.Buffer
	made, err := backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{Salvage: true})
	stopIf(t, err != nil || made.Lost == "", "salvaged: %+v %v", made, err)
	m.State = restoredOf(t, file.Bytes())
	m.Start(t)
	got := m.Decisions()
	failIf(t, got[len(got)-1].Seq <= made.Decisions, "it goes on with %d behind %d", got[len(got)-1].Seq, made.Decisions)
}
