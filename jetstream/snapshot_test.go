package jetstream_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// A snapshot comes back as it was written, or not at all.
//
// covers P11.2, P11.5, A-CHAIN, A-CRASH
func TestSnapshots(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "snapshots")
	snapshots := jetstream.NewSnapshots(dir)
	if names, err := snapshots.List(); err != nil || len(names) > 0 {
		t.Fatalf("no folder: %v %v", names, err)
	}
	made := func(n uint64) jetstream.Snapshot {
		return jetstream.Snapshot{Position: jetstream.Position{Sequence: n, Decision: 10 * n, Head: bcp.Digest{byte(n)}}, Checkpoint: bytes.Repeat([]byte{byte(n)}, 100)}
	}
	noError(t, os.MkdirAll(dir, 0o700))
	noError(t, os.WriteFile(filepath.Join(dir, ".new-1"), []byte("of a crash"), 0o600))
	for n := uint64(1); n <= 12; n++ {
		noError(t, snapshots.Write(made(n)))
	}
	names, err := snapshots.List()
	stopIf(t, err != nil || len(names) != 3, "%v %v", names, err)
	for i, name := range names {
		got, err := snapshots.Read(name)
		if want := made(uint64(12 - i)); err != nil || got.Position != want.Position || !bytes.Equal(got.Checkpoint, want.Checkpoint) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	failIf(t, err != nil || len(entries) != 3, "the folder has %v", entries)
	name := filepath.Join(dir, names[0])
	whole := must(os.ReadFile(name))(t)
	info, err := os.Stat(name)
	failIf(t, err != nil || info.Mode().Perm() != 0o600, "others may read it: %v", info.Mode())
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		for _, b := range [][]byte{damaged, whole[:i]} {
			noError(t, os.WriteFile(name, b, 0o600))
			fails(t, errorOf(snapshots.Read(names[0])), jetstream.ErrSnapshot, "byte %d", i)
		}
	}
	// The journal lost its end and went on: what says to be newer is gone.
	noError(t, snapshots.Write(made(5)))
	names, _ = snapshots.List()
	failIf(t, len(names) != 1, "%v", names)
	for _, n := range []uint64{8, 9, 10} {
		noError(t, snapshots.Write(made(n)))
	}
	for i, before := range []uint64{80, 81, 110} {
		noError(t, snapshots.RemoveBefore(before))
		names, err := snapshots.List()
		failIf(t, err != nil || len(names) != []int{3, 2, 0}[i], "before %d: %v, %v", before, names, err)
	}
}

// Behind a position stand exactly the decisions that followed it; a position
// that the journal does not have is refused.
//
// covers P4.5, P11.2
func TestReplayBehind(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	var written [][]byte
	var at []jetstream.Position
	for n := range 5 {
		batch := m.some(n + 1)
		noError(t, j.Append(within(t), batch))
		written = append(written, batch...)
		at = append(at, jetstream.Position{Sequence: j.Last(), Decision: uint64(len(written)), Head: bcp.RecordDigest(written[len(written)-1])})
	}
	for _, p := range at {
		var read [][]byte
		j, err := jetstream.OpenJournal(within(t), js)
		if err == nil {
			err = j.ReplayBehind(within(t), p, func(b []byte) error { read = append(read, b); return nil })
		}
		failIf(t, err != nil || len(read) != len(written)-int(p.Decision) || len(read) > 0 && !bytes.Equal(read[0], written[p.Decision]) || j.Last() != 5,
			"behind %d: %d decisions, %v", p.Decision, len(read), err)
		p.Head[0]++
		fails(t, j.ReplayBehind(within(t), p, func([]byte) error { return nil }), jetstream.ErrPosition, "another head")
	}
	err := j.ReplayBehind(within(t), jetstream.Position{Sequence: 6, Head: at[4].Head}, func([]byte) error { return nil })
	failIf(t, !errors.Is(err, jetstream.ErrPosition), "behind the end: %v", err)
	noError(t, j.Append(within(t), m.some(1)))
}
