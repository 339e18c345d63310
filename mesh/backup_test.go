package mesh_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// busy is a mesh with something of everything in its journal.
func busy(t *testing.T, change ...func(*mesh.Config)) *meshtest.Mesh {
	t.Helper()
	return busyFor(t, 1000, change...)
}

func busyFor(t *testing.T, budget int, change ...func(*mesh.Config)) *meshtest.Mesh {
	t.Helper()
	m := meshtest.Start(t, pair(budget), change...)
	main, mailer := controller(t, m, "main"), reader(t, m, "mailer")
	for range 5 {
		main.Accepted(t, "mailer", askUrgent)
		mailer.Answer(t, mailer.queries.Next(t), isUrgent)
		mailer.result(t)
	}
	main.Accepted(t, "mailer", askWho)
	mailer.queries.Next(t)
	return m
}

// A backup restores to a mesh that goes on, with the same keys, and shows the
// same of itself.
//
// covers P4.5, P11.1, P11.2
func TestBackup(t *testing.T) {
	t.Parallel()
	m := busy(t)
	var file bytes.Buffer
	fails(t, errorOf(backUp(t.Context(), m.State, m.Definition, io.Discard, mesh.BackupOptions{})), server.ErrInUse,
		"while it runs")
	want := picture(t, m)
	m.Stop(t)
	made := must(backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{Version: "test"}))
	holds(t, made.Decisions >= 10 && !made.Head.IsZero() && made.Lost == "", "%+v", made)
	original := m.State
	if _, err := mesh.Restore(t.Context(), []io.ReadSeeker{bytes.NewReader(file.Bytes())}, original, mesh.BackupOptions{}); !errors.Is(err, mesh.ErrNotEmpty) {
		t.Errorf("over what is there: %v", err)
	}
	m.State = filepath.Join(t.TempDir(), "new")
	steps := uint64(0)
	restored, err := mesh.Restore(t.Context(), []io.ReadSeeker{bytes.NewReader(file.Bytes())}, m.State, mesh.BackupOptions{Progress: func(done, _ uint64) { steps = done }})
	stopIf(t, err != nil || restored.Head != made.Head || steps != made.Records, "%+v %v", restored, err)
	m.Start(t)
	_, read, passed := startedFrom(m)
	failIf(t, read != 0 || passed != 0, "the restored snapshot is not used: %d decisions were read", read)
	shows(t, m, want)
	for _, name := range []string{"operator.nk", "account-CORE.nk", "scope-controller-main.nk"} { // creds hold
		before, err := os.ReadFile(filepath.Join(original, "keys", name))
		after, err2 := os.ReadFile(filepath.Join(m.State, "keys", name))
		failIf(t, err != nil || err2 != nil || !bytes.Equal(before, after), "%s is another one: %v %v", name, err, err2)
	}
	mailer := reader(t, m, "mailer")
	mailer.Answer(t, mailer.queries.Next(t), isWho) // the query that was open
	mailer.result(t)
	m.Stop(t)

	// Without keys, the restored mesh has others.
	file.Reset()
	must(backUp(t.Context(), original, nil, &file, mesh.BackupOptions{WithoutKeys: true}))
	m.State = restoredOf(t, file.Bytes())
	m.Start(t)
	shows(t, m, want)
}

// Whatever byte of a backup is another, and wherever it is cut: nothing is
// restored, and nothing is left behind.
//
// covers P11.2, A-CHAIN
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	m := busy(t)
	m.Stop(t)
	var file bytes.Buffer
	must(backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{}))
	good := file.Bytes()
	parent := t.TempDir()
	refused := func(name string, b []byte) {
		t.Helper()
		_, err := mesh.Restore(t.Context(), []io.ReadSeeker{bytes.NewReader(b)}, filepath.Join(parent, "new"), mesh.BackupOptions{})
		failIf(t, !errors.Is(err, jetstream.ErrBackup), "%s: %v", name, err)
	}
	refused("empty", nil)
	refused("no end", good[:len(good)-1])
	zip := must(gzip.NewReader(bytes.NewReader(good)))
	plain := must(io.ReadAll(zip))
	packed := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		must(w.Write(b))
		noError(t, w.Close())
		return out.Bytes()
	}
	for _, part := range []string{"journal/", "keys/", "snapshots/", "manifest.json", "manifest.sha256"} {
		at := bytes.Index(plain, []byte(part))
		stopIf(t, at < 0, "no %s in it", part)
		changed := bytes.Clone(plain)
		changed[at+512+20] ^= 1 // behind its header
		refused("changed in "+part, packed(changed))
		refused("cut in "+part, packed(plain[:at+512+30]))
		away := bytes.Clone(plain)
		copy(away[at:], "../")
		refused("outside: "+part, packed(away))
	}
	entries, err := os.ReadDir(parent)
	failIf(t, err != nil || len(entries) > 0, "left behind: %v", entries)
}

// A journal whose newest record is damaged does not start; a salvaging backup
// keeps what is good, says what is lost, and restores to a mesh that starts. One that has
// lost its beginning leaves nothing to salvage.
//
// covers P11.1, P11.2, A-CRASH
func TestSalvage(t *testing.T) {
	t.Parallel()
	m := busy(t)
	before := len(m.Decisions())
	m.Stop(t)
	js, end := m.Streams(t)
	ctx := within(t, meshtest.Patience)
	for _, b := range [][]byte{[]byte("no record"), []byte("another")} {
		must(js.Publish(ctx, subjects.Commit(), b, natsjs.WithRetryAttempts(0)))
	}
	end()
	if err := m.TryStart(t); !errors.Is(err, jetstream.ErrRecord) {
		t.Fatalf("a damaged journal: %v", err)
	}
	m.Mesh = nil
	fails(t, errorOf(backUp(t.Context(), m.State, m.Definition, io.Discard, mesh.BackupOptions{})), jetstream.ErrRecord,
		"a backup of it")
	var file bytes.Buffer
	made, err := backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{Salvage: true})
	stopIf(t, err != nil || made.Lost == "" || int(made.Decisions) < before,
		"%d decisions of %d: %+v %v", made.Decisions, before, made.Lost, err)
	m.State = restoredOf(t, file.Bytes())
	m.Start(t)
	got := m.Decisions()
	failIf(t, got[len(got)-1].Seq != made.Decisions+1, "it goes on with %d behind %d", got[len(got)-1].Seq, made.Decisions)
	m.Stop(t)
	noError(t, os.Remove(filepath.Join(streamFolder(t, m.State, jetstream.CommitStream), "msgs", "1.blk")))
	fails(t, errorOf(backUp(t.Context(), m.State, m.Definition, io.Discard, mesh.BackupOptions{Salvage: true})), jetstream.ErrNothingToSalvage,
		"of a journal that has lost its beginning")
}

// streamFolder is where a mesh keeps a stream.
func streamFolder(t *testing.T, state, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, "jetstream", "jetstream", "*", "streams", name))
	stopIf(t, err != nil || len(found) != 1, "%s is in %v: %v", name, found, err)
	return found[0]
}

// forged is a backup with more files in it, that its manifest names.
func forged(t *testing.T, backup []byte, more map[string]io.Reader, sizes map[string]int64) []byte {
	t.Helper()
	zip := must(gzip.NewReader(bytes.NewReader(backup)))
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	from, to := tar.NewReader(zip), tar.NewWriter(zipped)
	put := func(name string, size int64, content io.Reader) (sum [sha256.Size]byte) {
		h := sha256.New()
		noError(t, to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, Typeflag: tar.TypeReg}))
		must(io.Copy(io.MultiWriter(to, h), content))
		return [sha256.Size]byte(h.Sum(nil))
	}
	var files []jetstream.BackupFile
	for name, content := range more {
		files = append(files, jetstream.BackupFile{Name: name, Size: sizes[name], SHA256: put(name, sizes[name], content)})
	}
	for {
		header := must(from.Next())
		content := must(io.ReadAll(from))
		if header.Name == "manifest.json" {
			var m jetstream.Manifest
			noError(t, json.Unmarshal(content, &m))
			m.Files = append(files, m.Files...)
			content = must(json.Marshal(m))
			put(header.Name, int64(len(content)), bytes.NewReader(content))
			line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), header.Name)
			put("manifest.sha256", int64(len(line)), bytes.NewReader([]byte(line)))
			noError(t, errors.Join(to.Close(), zipped.Close()))
			return out.Bytes()
		}
		put(header.Name, header.Size, bytes.NewReader(content))
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// A restore writes no file that a backup does not have, whatever the manifest names, and
// where it refuses, nothing is left; and what is packed small takes no memory.
//
// covers P4.5
func TestForgedBackup(t *testing.T) {
	// Alone: what others allocate would count.
	m := busy(t)
	m.Stop(t)
	// A writer that was killed may have left an old key, in the clear.
	noError(t, os.WriteFile(filepath.Join(m.State, "keys", disk.DraftPrefix+"1"), []byte("secret"), 0o600))
	var file bytes.Buffer
	must(backUp(t.Context(), m.State, m.Definition, &file, mesh.BackupOptions{}))
	must(jetstream.ReadBackup(bytes.NewReader(file.Bytes()), jetstream.Restoring{File: func(name string, _ io.Reader) error {
		holds(t, !strings.Contains(name, disk.DraftPrefix), "a backup has %s", name)
		return nil
	}}))
	restore := func(content []byte) (dir string, err error) {
		dir = t.TempDir()
		_, err = mesh.Restore(t.Context(), []io.ReadSeeker{bytes.NewReader(content)}, filepath.Join(dir, "of", "a", "state"), mesh.BackupOptions{})
		return dir, err
	}
	must(restore(forged(t, file.Bytes(), nil, nil)))
	for _, name := range []string{
		"x", "server.lock", "web/kim.passkey", "run/agent.sh", "keys/more/x", "tree/x", "tree/more/hashes", "tree", "snapshots/x", "snapshots/1.snapshot", "base/x",
		"snapshots/more/00000000000000000001.snapshot", "jetstream/x", "accounts/x.jwt", "operator.jwt", "notify/x", "tls/x",
		"keys/x", "keys/.nk", "keys/" + disk.DraftPrefix + "1", "keys/a\nb.nk", "keys/\u202ea.nk", "keys/state.json.nk/..", "tree/../keys/a.nk",
	} {
		dir, err := restore(forged(t, file.Bytes(), map[string]io.Reader{name: bytes.NewReader([]byte("x"))}, map[string]int64{name: 1}))
		fails(t, err, jetstream.ErrBackup, "%s", name)
		left, err := os.ReadDir(dir)
		failIf(t, err != nil || len(left) > 0, "%s: %v is left, %v", name, left, err)
	}
	// What it fails to write leaves nothing either.
	dir, err := restore(forged(t, file.Bytes(), map[string]io.Reader{"snapshots/00000000000000000001.snapshot": bytes.NewReader(nil), "keys": bytes.NewReader(nil)}, nil))
	left, readErr := os.ReadDir(dir)
	failIf(t, err == nil || readErr != nil || len(left) > 0, "%v: %v is left, %v", err, left, readErr)

	const large, name = 256 << 20, "snapshots/00000000000000000001.snapshot"
	bomb := forged(t, file.Bytes(), map[string]io.Reader{name: io.LimitReader(zeros{}, large)}, map[string]int64{name: large})
	bomb[len(bomb)-1]++ // so that it is read to its end, and refused
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fails(t, errorOf(restore(bomb)), jetstream.ErrBackup, "the error")
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > large/2 {
		t.Errorf("%d bytes of a backup of %d took %d MiB", large, len(bomb), (after.TotalAlloc-before.TotalAlloc)>>20)
	}
}

// restoredOf makes a state folder of a backup.
func restoredOf(t *testing.T, backup []byte) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "restored")
	must(mesh.Restore(t.Context(), []io.ReadSeeker{bytes.NewReader(backup)}, state, mesh.BackupOptions{}))
	return state
}
