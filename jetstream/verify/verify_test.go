package verify_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// An export verifies with the public key alone and says what is in it; its
// checkpoint is the root that golang.org/x/mod/sumdb/tlog computes.
//
// covers P11.2
func TestExportVerifies(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	for _, n := range []int{1, 2, 3, 7, 8, 100, 5000} {
		decisions := chainOf(t, n)
		file := export(t, decisions, jetstream.ExportOptions{Key: key})
		s, err := check(file, verify.Options{Keys: []string{key.Public}})
		stopIf(t, err != nil, "%d decisions: %v", n, err)
		failIf(t, s.First != 1 || s.Last != uint64(n) || !s.From.Equal(beginning) || !s.To.Equal(beginning.Add(time.Duration(n-1)*time.Second)),
			"%d decisions: the summary says %d to %d, %v to %v", n, s.First, s.Last, s.From, s.To)
		if want := rootOf(t, decisions); s.Checkpoint != (verify.Checkpoint{Origin: "bcpmesh/test", Size: uint64(n), Root: want}) {
			t.Errorf("%d decisions: the checkpoint is %v", n, s.Checkpoint)
		}
		if n < 5000 {
			continue
		}
		failIf(t, len(s.Kinds) != 20 || s.Kinds[1] != 250, "kinds: %v", s.Kinds)
		want := []verify.Channel{{Controller: "main", Reader: "mailer", Decisions: 1667}, {Controller: "main", Reader: "researcher", Decisions: 1667}}
		diff := cmp.Diff(want, s.Channels)
		failIf(t, diff != "", "channels:\n%s", diff)
	}
}

// rootOf computes the root with the library alone.
func rootOf(t testing.TB, decisions [][]byte) verify.Hash {
	t.Helper()
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			hashes[i] = stored[index]
		}
		return hashes, nil
	})
	for i, d := range decisions {
		hashes := must(tlog.StoredHashes(int64(i), d, reader))(t)
		stored = append(stored, hashes...)
	}
	root := must(tlog.TreeHash(int64(len(decisions)), reader))(t)
	return verify.Hash(root)
}

// A range is tied to the checkpoint, wherever it begins and ends.
//
// covers P11.2
func TestRanges(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	decisions := chainOf(t, 3000)
	at := func(n int) time.Time { return beginning.Add(time.Duration(n-1) * time.Second) } // of decision n
	for _, r := range [][2]int{{1, 1}, {1, 2}, {2, 2}, {2, 3}, {3, 4}, {1, 2999}, {1024, 2048}, {1025, 2048}, {1365, 1366}, {2999, 3000}, {3000, 3000}, {1, 3000}} {
		file := export(t, decisions, jetstream.ExportOptions{Key: key, Since: at(r[0]), Until: at(r[1] + 1)})
		s, err := check(file, verify.Options{Keys: []string{key.Public}})
		if err != nil || s.First != uint64(r[0]) || s.Last != uint64(r[1]) {
			t.Errorf("decisions %d to %d: %d to %d, %v", r[0], r[1], s.First, s.Last, err)
			continue
		}
		want := rootOf(t, decisions[:r[1]])
		failIf(t, s.Checkpoint.Root != want, "decisions %d to %d: another root", r[0], r[1])
		if r[0] != 1365 && r[1] != 3 {
			continue
		}
		// The hashes of what stands in front are as good as the decisions.
		p := takeApart(t, file)
		for i := range len(p.frames[0].payload) {
			head := slices.Clone(p.frames[0].payload)
			head[i] ^= 1
			expectFault(t, p.with(0, head), verify.Options{Keys: []string{key.Public}})
		}
	}
	for name, o := range map[string]jetstream.ExportOptions{
		"behind the last":     {Key: key, Since: at(3001)},
		"in front of the 1st": {Key: key, Until: at(1)},
		"nothing":             {Key: key, Since: at(7), Until: at(7)},
	} {
		_, err := jetstream.Export(t.Context(), nil, recordsOf(decisions), o)
		failIf(t, !errors.Is(err, jetstream.ErrNoDecisions), "%s: %v", name, err)
	}
}

// expectFault wants one that names one of the decisions, if any are given; 0 is
// that of none.
func expectFault(t *testing.T, file []byte, o verify.Options, decisions ...int) {
	t.Helper()
	_, err := check(file, o)
	var fault *verify.Fault
	if !errors.As(err, &fault) {
		t.Errorf("want a fault, got %v", err)
		return
	}
	failIf(t, len(decisions) > 0 && !slices.Contains(decisions, int(fault.Decision)),
		"want a fault at one of %d, got: %v", decisions, fault)
}

// A file that continues an earlier checkpoint says so, and one with another
// history is found out, though its own chain is whole.
//
// covers P11.2, A-CHAIN
func TestSince(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	decisions, other := chainOf(t, 1500), chainOf(t, 1500)
	keys := []string{key.Public}
	at := func(n int) time.Time { return beginning.Add(time.Duration(n-1) * time.Second) }
	checkpoint := func(decisions [][]byte, n int) verify.Checkpoint {
		s := must(check(export(t, decisions[:n], jetstream.ExportOptions{Key: key}), verify.Options{Keys: keys}))(t)
		opened, err := verify.OpenCheckpoint(s.Signed, keys)
		stopIf(t, err != nil || opened != s.Checkpoint, "the checkpoint is not one by itself: %v", err)
		return opened
	}
	whole := export(t, decisions, jetstream.ExportOptions{Key: key})
	part := export(t, decisions, jetstream.ExportOptions{Key: key, Since: at(1001), Until: at(1401)})
	for _, n := range []int{1, 2, 499, 1000, 1001, 1024, 1399, 1400} {
		since := checkpoint(decisions, n)
		for name, file := range map[string][]byte{"whole": whole, "part": part} {
			if name == "part" && n < 1000 {
				continue
			}
			_, err := check(file, verify.Options{Keys: keys, Since: []verify.Checkpoint{since}})
			failIf(t, err != nil, "%s since %d: %v", name, n, err)
			expectFault(t, file, verify.Options{Keys: keys, Since: []verify.Checkpoint{checkpoint(other, n)}}, 0)
		}
	}
	several := []verify.Checkpoint{checkpoint(decisions, 1400), checkpoint(decisions, 3), checkpoint(decisions, 1000)}
	must(check(whole, verify.Options{Keys: keys, Since: several}))(t)
	for _, n := range []int{999, 1401} { // of which the part says nothing
		_, err := check(part, verify.Options{Keys: keys, Since: []verify.Checkpoint{checkpoint(decisions, n)}})
		var fault *verify.Fault
		failIf(t, err == nil || errors.As(err, &fault), "since %d, of which the file says nothing: %v", n, err)
	}
}

// Without one of the caller's keys nothing verifies, whatever the file says of
// itself.
//
// covers P11.2
func TestKeys(t *testing.T) {
	t.Parallel()
	key, other := newKey(t), newKey(t)
	file := export(t, chainOf(t, 100), jetstream.ExportOptions{Key: key})
	must(check(file, verify.Options{Keys: []string{other.Public, key.Public}}))(t)
	for _, keys := range [][]string{nil, {}, {""}, {"no key"}, {key.Public + "x"}} {
		_, err := check(file, verify.Options{Keys: keys})
		failIf(t, err == nil, "verified with the keys %q", keys)
	}
	expectFault(t, file, verify.Options{Keys: []string{other.Public}}, 0)
	// The name of the log is that of the key.
	p := takeApart(t, file)
	s := must(check(file, verify.Options{Keys: []string{key.Public}}))(t)
	text := fmt.Sprintf("bcpmesh/another\n100\n%s\n", base64.StdEncoding.EncodeToString(s.Checkpoint.Root[:]))
	renamed := must(note.Sign(&note.Note{Text: text}, key.Signer))(t)
	last := len(p.frames) - 1
	expectFault(t, p.with(last, slices.Concat(p.frames[last].payload[:32], renamed)), verify.Options{Keys: []string{key.Public}}, 0)
	// With the other's key in the head, the signature is still another's.
	forged := takeApart(t, export(t, chainOf(t, 1), jetstream.ExportOptions{Key: other}))
	expectFault(t, p.with(0, forged.frames[0].payload), verify.Options{Keys: []string{other.Public}}, 0)
}
