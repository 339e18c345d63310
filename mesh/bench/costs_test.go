package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/mesh/scale"
)

// Costs that loads were made of are found again in them: what a record costs is told
// from what an exchange does by how many share one, and what is shared on a connection
// by how many messages come together.
func TestCostsAreFoundInLoads(t *testing.T) {
	t.Parallel()
	const processor, apart, record, projection = 60.0, 190.0, 400.0, 30.0
	r := &Report{Loads: []Load{
		{Name: "push", Path: pathA, InFlight: 1, P50: Span(100 * time.Microsecond), P99: Span(500 * time.Microsecond)},
		{Name: "push", Path: pathB, InFlight: 1, P50: Span(450 * time.Microsecond), P99: Span(3 * time.Millisecond)},
	}}
	for _, one := range []struct {
		name      string
		decisions float64
	}{{"acknowledged", 2}, {"flow", 3}} {
		for _, at := range []struct {
			inFlight int
			batch    float64
			together float64
		}{{1, 1, 1}, {16, 9, 1}, {256, 128, 8}} {
			l := Load{Name: one.name, Path: pathMesh, InFlight: at.inFlight, Batch: at.batch, Processor: processor + apart/at.together + record*one.decisions/at.batch, Agents: 20, Journal: 1000, Streams: 2500}
			p := l
			p.Path, p.Processor = pathProjected, l.Processor+projection
			r.Loads = append(r.Loads, l, p)
		}
	}
	r.report(sizeID, 250)
	c := r.Costs(scale.Measured)
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("a push", c.Push.Processor, processor)
	near("a question", c.Ask.Processor, processor)
	near("a push that comes alone", c.Push.Apart, apart)
	near("a record", c.Ask.Record, record)
	near("projections", c.Ask.Projection, projection)
	near("a commit", c.CommitP50, 350)
	near("a slow commit", c.CommitP99, 2500)
	near("a remembered id", c.IDMemory, 250)
	near("what was not measured", c.QueryMemory, scale.Measured.QueryMemory)
	if want := ". Not measured there: agents, sizes, the gateway's part of the processor time. That is of " + scale.Measured.Source; !strings.HasSuffix(c.Source, want) {
		t.Errorf("the source is %q, want the end %q", c.Source, want)
	}
	if points := r.Points(); len(points) != 6 || points[5].Batch != 128 || !points[5].Ask {
		t.Errorf("points: %+v", points)
	}
	// Loads that contradict it leave the others' costs.
	for i := range r.Loads {
		r.Loads[i].Batch = 0
	}
	if c := r.Costs(scale.Measured); c.Push != scale.Measured.Push || !strings.Contains(c.Source, "there: acknowledged, flow, agents") {
		t.Errorf("without batches: %+v, %q", c.Push, c.Source)
	}
}

// report adds a figure of sizes.
func (r *Report) report(what string, value float64) {
	r.add(Figure{Name: "sizes", What: what, Value: value}, nil)
}
