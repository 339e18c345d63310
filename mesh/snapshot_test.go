package mesh_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// snapshotFiles lists the snapshots of a mesh, newest first.
func snapshotFiles(t *testing.T, m *meshtest.Mesh) []string {
	t.Helper()
	files := must(filepath.Glob(filepath.Join(m.State, "snapshots", "*.snapshot")))
	slices.Sort(files)
	slices.Reverse(files)
	return files
}

// startedFrom returns what the log says of the newest start.
func startedFrom(m *meshtest.Mesh) (decisions, read int, passedOver int) {
	lines := strings.Split(strings.TrimSpace(m.Log()), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if at := strings.Index(lines[i], "journal replayed: decisions="); at >= 0 {
			_, _ = fmt.Sscanf(lines[i][at:], "journal replayed: decisions=%d read=%d", &decisions, &read)
			for i--; i >= 0 && strings.Contains(lines[i], "a snapshot is passed over"); i-- {
				passedOver++
			}
			break
		}
	}
	return decisions, read, passedOver
}

// A start reads what stands behind the newest snapshot. Damaged ones are passed
// over, and without any the journal makes the same state.
//
// covers P4.5, P9.1, P11.1, P11.2, A-CRASH
func TestStartFromSnapshot(t *testing.T) {
	t.Parallel()
	e := startEdited(t, pair(1000))
	m := e.Mesh
	for n := range 4 { // four clean stops
		main, mailer := controller(t, m, "main"), reader(t, m, "mailer")
		for range 3 {
			main.Accepted(t, "mailer", askUrgent)
			mailer.queries.Next(t)
		}
		if m.Restart(t); n == 0 && len(snapshotFiles(t, m)) != 1 {
			t.Fatalf("%v", snapshotFiles(t, m))
		}
	}
	files := snapshotFiles(t, m)
	stopIf(t, len(files) != 3, "%v", files)
	decisions, read, passed := startedFrom(m)
	stopIf(t, read != 0 || passed != 0 || decisions < 12,
		"%d of %d decisions were read, %d snapshots passed over", read, decisions, passed)
	want := picture(t, m)
	damage := func(name string, how func([]byte) []byte) {
		t.Helper()
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, how(b), 0o600)
		}
		noError(t, err)
	}
	restart := func(change func()) {
		t.Helper()
		m.Stop(t)
		// What the clean end made goes; the files of before stay as they are.
		for _, name := range snapshotFiles(t, m) {
			if !slices.Contains(files, name) {
				noError(t, os.Remove(name))
			}
		}
		change()
		m.Start(t)
	}
	saved := map[string][]byte{}
	for _, name := range files {
		b := must(os.ReadFile(name))
		saved[name] = b
	}
	putBack := func() {
		for name, b := range saved {
			noError(t, os.WriteFile(name, b, 0o600))
		}
	}
	for _, c := range []struct {
		name   string
		damage func()
		passed int
		whole  bool
	}{
		{"the newest is cut", func() { damage(files[0], func(b []byte) []byte { return b[:len(b)/2] }) }, 1, false},
		{"two are changed", func() {
			for _, name := range files[:2] {
				damage(name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
			}
		}, 2, false},
		{"all are empty", func() {
			for _, name := range files {
				damage(name, func([]byte) []byte { return nil })
			}
		}, 3, true},
		{"none is there", func() { _ = os.RemoveAll(filepath.Join(m.State, "snapshots")) }, 0, true},
	} {
		restart(func() {
			noError(t, os.MkdirAll(filepath.Join(m.State, "snapshots"), 0o700))
			putBack()
			c.damage()
		})
		decisions, read, passed := startedFrom(m)
		failIf(t, passed != c.passed || (read == decisions) != c.whole || read == 0,
			"%s: %d of %d decisions were read, %d snapshots passed over", c.name, read, decisions, passed)
		shows(t, m, want, c.name)
	}
}

// While a mesh serves, snapshots are made of its journal; a crash then loses
// nothing, and reads little.
//
// covers P4.5, P9.1, P11.1, A-CRASH
func TestSnapshotsWhileServing(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100000), func(c *mesh.Config) { c.SnapshotEvery = 20 })
	main, mailer := controller(t, m, "main"), reader(t, m, "mailer")
	deadline := time.Now().Add(meshtest.Patience)
	for len(snapshotFiles(t, m)) < 2 {
		main.Accepted(t, "mailer", askUrgent)
		mailer.Answer(t, mailer.queries.Next(t), isUrgent)
		mailer.result(t)
		stopIf(t, time.Now().After(deadline), "no snapshot is made")
	}
	names := snapshotFiles(t, m)
	m.Stop(t)
	for _, name := range snapshotFiles(t, m) { // as if it had crashed
		if !slices.Contains(names, name) {
			noError(t, os.Remove(name))
		}
	}
	m.Start(t)
	decisions, read, passed := startedFrom(m)
	failIf(t, len(snapshotFiles(t, m)) > 0 && (read == decisions || passed > 0),
		"%d of %d decisions were read, %d snapshots passed over", read, decisions, passed)
	got := picture(t, m)
	m.Stop(t)
	noError(t, os.RemoveAll(filepath.Join(m.State, "snapshots")))
	m.Start(t)
	want := picture(t, m)
	failIf(t, got != want, "from a snapshot\n%s\nfrom the journal\n%s", got, want)
}
