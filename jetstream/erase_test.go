package jetstream_test

import (
	"bytes"
	"math"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// The first decision at or behind a time is found in any record, to the
// nanosecond.
//
// covers P11.5
func TestFirstAt(t *testing.T) {
	t.Parallel()
	js := streams(t)
	at := func(at time.Time) uint64 {
		t.Helper()
		n, err := jetstream.FirstAt(within(t), js, at)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := at(time.Unix(0, 0)); n != math.MaxUint64 {
		t.Errorf("of no decisions %d is the first", n)
	}
	m := newMaker(t)
	j, _ := open(t, js)
	var all [][]byte
	for _, size := range []int{1, 3, 2, 7, 1} {
		batch := m.some(size)
		all = append(all, batch...)
		if err := j.Append(within(t), batch); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range all {
		d, err := bcp.DecodeDecision(b)
		if err != nil {
			t.Fatal(err)
		}
		behind := uint64(i + 2)
		if i == len(all)-1 {
			behind = math.MaxUint64
		}
		if first, next := at(d.At()), at(d.At().Add(1)); first != uint64(i+1) || next != behind {
			t.Errorf("decision %d: %d, and behind it %d", i+1, first, next)
		}
	}
}

// Validated messages of decisions in front of one are overwritten, and no others;
// what the projector does afterwards brings none back.
//
// covers P11.5
func TestEraseValidated(t *testing.T) {
	t.Parallel()
	js := streams(t)
	m := newMaker(t)
	j, _ := open(t, js)
	if err := j.Append(within(t), m.some(40)); err != nil {
		t.Fatal(err)
	}
	stop := run(t, js)
	projected(t, js, 40)
	all := meshtest.ReadStream(t, js, jetstream.ValidatedStream)
	limit, err := strconv.ParseUint(all[5].Header.Get("Bcp-Decision"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		channel bcp.ChannelKey
		before  uint64
		erased  int
	}{{bcp.ChannelKey{Controller: "main", Reader: "other"}, limit, 0}, {channel, limit, 5}, {channel, limit, 0}, {channel, limit + 1, 1}} {
		if n, err := jetstream.EraseValidated(within(t), js, c.channel, c.before); err != nil || n != c.erased {
			t.Errorf("before %d: %d, %v", c.before, n, err)
		}
	}
	stop()
	run(t, js)
	if err := j.Append(within(t), m.some(4)); err != nil {
		t.Fatal(err)
	}
	projected(t, js, 44)
	left := meshtest.ReadStream(t, js, jetstream.ValidatedStream)
	if len(left) != len(all)-6+1 || !bytes.Equal(left[0].Data, all[6].Data) {
		t.Errorf("%d of %d are left", len(left), len(all))
	}
}

// covers P11.5
func TestRemoveSnapshotsBefore(t *testing.T) {
	t.Parallel()
	snapshots := jetstream.NewSnapshots(filepath.Join(t.TempDir(), "snapshots"))
	for _, n := range []uint64{8, 9, 10} {
		if err := snapshots.Write(jetstream.Snapshot{Position: jetstream.Position{Decision: n}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		before uint64
		left   int
	}{{8, 3}, {9, 2}, {11, 0}} {
		err := snapshots.RemoveBefore(c.before)
		names, also := snapshots.List()
		if err != nil || also != nil || len(names) != c.left {
			t.Errorf("before %d: %v, %v, %v", c.before, names, err, also)
		}
	}
}
