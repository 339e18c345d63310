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
		rate := picture{name + "-rate.svg", plot.Plot{Title: name + ": messages a second by messages in flight", Unit: "/s"}}
		for _, l := range r.Loads {
			if l.Name == name {
				rate.Set(fmt.Sprintf("%d in flight", l.InFlight), l.Path, l.Rate)
			}
		}
		if len(rate.Series) > 0 {
			all = append(all, rate)
		}
	}
	return all
}
