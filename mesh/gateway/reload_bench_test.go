package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// manyChannels are the definitions of a mesh in which each of n Controllers has a
// channel to each of n Readers. One budget is the edit.
func manyChannels(b testing.TB, n, budget int) *bcp.Mesh {
	files := map[string]string{"main.md": mainFile, "mailer.md": mailerFile}
	for i := range n {
		var controller, reader strings.Builder
		fmt.Fprintf(&controller, "---\nname: c%d\nbcp_channels:\n", i)
		fmt.Fprintf(&reader, "---\nname: r%d\nbcp_channels:\n", i)
		for k := range n {
			bits := 1000
			if i == 0 && k == 0 {
				bits = budget
			}
			fmt.Fprintf(&controller, "  - {peer: r%d, role: controller, max_category: 2, budget_bits: %d, subscriptions: [{id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}]}\n", k, bits)
			fmt.Fprintf(&reader, "  - {peer: c%d, role: reader}\n", k)
		}
		files[fmt.Sprintf("c%d.md", i)] = controller.String() + "---\n"
		files[fmt.Sprintf("r%d.md", i)] = reader.String() + "---\n"
	}
	return meshtest.Parse(b, files)
}

// BenchmarkReload is a reload of 10,000 channels with one edit, behind 20,000 decisions:
// held-ms is the longest time in which the gateway decided nothing.
//
// covers P1.5
func BenchmarkReload(b *testing.B) {
	bench := newBench(b)
	meshes := [2]*bcp.Mesh{manyChannels(b, 100, 1000), manyChannels(b, 100, 2000)}
	snapshots := jetstream.NewSnapshots(b.TempDir())
	g := bench.start(b, func(c *gateway.Config) { c.State.Mesh, c.Snapshots = meshes[0], snapshots })
	for i := range 20_000 {
		g.Process("main", bcp.ProcessUnavailable, fmt.Sprint("exit status ", i))
	}
	g.wait(b, 20_000, of(bcp.KindProcess))
	if n := len(meshes[0].Channels); n < 10_000 {
		b.Fatalf("%d channels", n)
	}
	var held time.Duration
	edits := 0
	for b.Loop() {
		edits++
		next := state.Config{Mesh: meshes[edits%2], Constraints: constraint.Compile, Version: "test", Definitions: bcp.Digest{byte(edits)}}
		reloaded := make(chan error, 1)
		go func() { reloaded <- g.Reload(b.Context(), next, nil, func() error { return nil }) }()
		var err error
		for going := true; going; {
			asked := time.Now()
			if err := g.Inspect(b.Context(), func(*state.State) {}); err != nil {
				b.Fatal(err)
			}
			held = max(held, time.Since(asked))
			select {
			case err = <-reloaded:
				going = false
			case <-time.After(time.Millisecond):
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(held.Microseconds())/1000, "held-ms")
	if err := g.Stop(); err != nil {
		b.Error(err)
	}
}
