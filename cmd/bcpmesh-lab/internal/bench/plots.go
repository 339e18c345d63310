package bench

import (
	"fmt"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/plot"
)

// picture is a plot and its file.
type picture struct {
	file string
	plot.Plot
}

// plots returns the plots for which the report has figures.
func (r *Report) plots() []picture {
	var all []picture
	for _, name := range []string{"push", "flow"} {
		latency := picture{name + "-latency.svg", plot.Plot{Title: name + ": p50 by messages in flight", Unit: "ms"}}
		rate := picture{name + "-rate.svg", plot.Plot{Title: name + ": messages a second by messages in flight", Unit: "/s"}}
		cost := picture{name + "-cost.svg", plot.Plot{Title: name + ": processor time of server and gateway, a message", Unit: "µs"}}
		for _, l := range r.Loads {
			if l.Name == name {
				group := fmt.Sprintf("%d in flight", l.InFlight)
				if l.Path != pathProjected { // it is the mesh's
					latency.Set(group, l.Path, micro(l.P50)/1000)
				}
				rate.Set(group, l.Path, l.Rate)
				cost.Set(group, l.Path, l.Processor)
			}
		}
		if len(latency.Series) > 0 {
			all = append(all, latency, rate, cost)
		}
	}
	for i, c := range r.Curves {
		p := picture{fmt.Sprintf("curve-%d.svg", i+1), plot.Plot{Title: c.Name + " over " + c.Over, Unit: c.Unit, Kind: plot.Line}}
		for _, at := range c.Steps {
			p.Set(plot.Amount(float64(at.At), ""), c.Name, at.Value)
		}
		all = append(all, p)
	}
	return all
}
