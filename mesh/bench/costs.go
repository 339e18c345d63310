package bench

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/mesh/scale"
)

// Costs returns the costs for package scale that a report measured, and the rest
// from others; its Source says which those are.
func (r *Report) Costs(others scale.Costs) scale.Costs {
	c := others
	var missing []string
	for _, one := range []struct {
		load string
		to   *scale.Exchange
	}{{"acknowledged", &c.Push}, {"flow", &c.Ask}} {
		if !r.exchange(one.load, one.to) {
			missing = append(missing, one.load)
		}
	}
	a, b := r.findLoad("push", pathA, 1), r.findLoad("push", pathB, 1)
	if a == nil || b == nil || b.P50 <= a.P50 || b.P99 <= a.P99 {
		missing = append(missing, "push")
	} else {
		c.CommitP50, c.CommitP99 = micro(b.P50-a.P50), micro(b.P99-a.P99)
	}
	connected := false
	for i := range r.Figures {
		f := &r.Figures[i]
		var of, n int
		if _, err := fmt.Sscanf(f.What, "%d, memory of each, resident", &of); err == nil && f.Name == "agents" && f.NotMeasured == "" {
			c.Connection, connected = f.Value*1000, true
		}
		if _, err := fmt.Sscanf(f.What, "start behind %d", &n); err == nil && f.Name == "decisions" && n > 0 && !strings.Contains(f.What, "snapshot") {
			c.Replay = f.Value * 1000 / float64(n)
		}
	}
	for i := range r.Loads {
		if l := &r.Loads[i]; l.Name == "agents" {
			c.Connect = l.Processor
		}
	}
	if !connected {
		missing = append(missing, "agents")
	}
	if !r.setSizes(&c) {
		missing = append(missing, "sizes")
	}
	quick := ""
	if r.Quick {
		quick = ", a quick run, whose figures say little"
	}
	missing = append(missing, "the gateway's part of the processor time") // from profiles
	c.Source = fmt.Sprintf("%s with %s%s: %s. Not measured there: %s. That is of %s", r.Date.Format("2006-01-02 15:04 UTC"), r.Version, quick, r.Machine,
		strings.Join(missing, ", "), others.Source)
	return c
}

// setSizes sets the figures of sizes; it returns false if one is missing.
func (r *Report) setSizes(c *scale.Costs) bool {
	found := 0
	fields := map[string]*float64{
		sizeText: &c.DefinitionText, sizeDefinition: &c.DefinitionMemory, sizeLoad: &c.DefinitionLoad, sizeState: &c.StateMemory,
		sizeSnapshot: &c.Snapshot, sizeRestore: &c.StateRestore, sizePermissions: &c.Permissions, sizeClaim: &c.Claim, sizeAgentClaim: &c.AgentClaim,
		sizeKeys: &c.SealingKey, sizeID: &c.IDMemory, sizeIDSnapshot: &c.IDSnapshot, sizeIDRestore: &c.IDRestore, sizeQuery: &c.QueryMemory,
	}
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Name == "sizes" && fields[f.What] != nil {
			*fields[f.What] = f.Value
			found++
		}
	}
	return found == len(fields)
}

// exchange takes one from its loads. One and 16 in flight differ in how many decisions
// share a record, 16 and 256 in how many messages share a read of a connection.
func (r *Report) exchange(name string, to *scale.Exchange) bool {
	one, some, many := r.findLoad(name, pathMesh, 1), r.findLoad(name, pathMesh, 16), r.findLoad(name, pathMesh, 256)
	projected := r.findLoad(name, pathProjected, 256)
	if one == nil || some == nil || many == nil || projected == nil || one.Batch <= 0 || some.Batch <= one.Batch || many.Batch <= pairs {
		return false
	}
	records := func(l *Load) float64 { return float64(to.Decisions) / l.Batch }
	record := (one.Processor - some.Processor) / (records(one) - records(some))
	alone := one.Processor - record*records(one)
	apart := (alone - (many.Processor - record*records(many))) / (1 - pairs/many.Batch)
	if record <= 0 || apart < 0 || alone <= apart {
		return false
	}
	to.Processor, to.Apart, to.Record = alone-apart, apart, record
	to.Projection, to.Agents = max(0, projected.Processor-many.Processor), many.Agents
	to.Journal, to.Streams = many.Journal, many.Streams
	return true
}

func (r *Report) findLoad(name, path string, inFlight int) *Load {
	for i := range r.Loads {
		if l := &r.Loads[i]; l.Name == name && l.Path == path && l.InFlight == inFlight {
			return l
		}
	}
	return nil
}

// Points returns the loads that a simulation can be compared with.
func (r *Report) Points() (points []scale.Point) {
	for i := range r.Loads {
		l := &r.Loads[i]
		if l.Path == pathMesh && (l.Name == "acknowledged" || l.Name == "flow") {
			points = append(points, scale.Point{Ask: l.Name == "flow", InFlight: l.InFlight, Connections: pairs, P50: l.P50, P99: l.P99, Rate: l.Rate, Batch: l.Batch})
		}
	}
	return points
}
