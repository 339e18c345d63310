package gateway_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// A journal that has agents which are on another shard now is not served under those
// definitions, from a snapshot neither, and not a record is written; a reload to them is
// refused, and what was goes on. Definitions that do not have these agents are served.
//
// covers P1.5, P4.5, P11.1, BCP-34
func TestMovedAgentsAreNotServed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snapshots := jetstream.NewSnapshots(t.TempDir())
	under := func(m *bcp.Mesh) func(*gateway.Config) {
		return func(c *gateway.Config) { c.State.Mesh, c.Snapshots = m, snapshots }
	}
	onShardOne := func(file string) string {
		return strings.Replace(file, "\nbcp_channels", "\nshard: 1\nbcp_channels", 1)
	}
	files := map[string]string{"desk.md": "---\nname: desk\n---\n"}
	gone := meshtest.Parse(t, files)
	files["main.md"], files["mailer.md"] = onShardOne(mainFile), onShardOne(mailerFile)
	moved := meshtest.Parse(t, files).OfShard(0)
	records := func() uint64 {
		t.Helper()
		stream, err := b.js.Stream(t.Context(), jetstream.CommitStream)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, bcp.ErrMoved) || !strings.Contains(err.Error(), "mailer is on shard 1, and in the journal of shard 0 since decision ") || !strings.Contains(err.Error(), "with 1 more; leave it on shard 0") {
			t.Errorf("%s: %v", what, err)
		}
	}

	if err := b.start(t, under(moved)).Stop(); err != nil { // there is nothing of them yet
		t.Fatal(err)
	}
	first := b.start(t, under(b.definition))
	mailer := b.agent(t, "mailer")
	if r := mailer.Request(t, pushAlert, alert("")); r.Fields["success"] != true {
		t.Errorf("result %s", r.JSON)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	before := records()
	for range 2 {
		_, err := b.tryStart(t, under(moved))
		refused("a start", err)
	}
	if n := records(); n != before {
		t.Errorf("%d records were written", n-before)
	}

	again := b.start(t, under(b.definition))
	switched := false
	err := again.Reload(t.Context(), state.Config{Mesh: moved, Constraints: constraint.Compile, Version: "test", Definitions: bcp.Digest{1}}, nil,
		func() error { switched = true; return nil })
	refused("a reload", err)
	if switched {
		t.Error("the server's permissions are others")
	}
	if r := mailer.Request(t, pushAlert, alert("")); r.Fields["success"] != true {
		t.Errorf("result %s", r.JSON)
	}
	if d := again.wait(t, 1, of(bcp.KindPush))[0]; d.Balance.Settled != 2*bcp.Bit {
		t.Errorf("%s were spent", d.Balance.Settled)
	}
	if err := again.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := b.start(t, under(gone)).Stop(); err != nil { // and leaves a snapshot that names them
		t.Error(err)
	}
	_, err = b.tryStart(t, under(moved))
	refused("behind definitions without them", err)
	if j := b.journal(t); j.Kinds[uint64(bcp.KindReload)] > 0 || j.Kinds[uint64(bcp.KindStart)] != 4 {
		t.Errorf("the journal has %v", j.Kinds)
	}
}
