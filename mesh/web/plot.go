package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// The sizes of the plot of a budget, in units of its view box. The last third of its
// width is the future.
const (
	plotWidth  = 720
	plotNow    = 480
	plotTop    = 24
	plotBottom = 176
	// maxSteps is how many steps are drawn at most.
	maxSteps = 240
	// minSpan is the shortest time that a plot shows.
	minSpan = time.Minute
)

// plot is how the budget of the epoch was used, and a projection from the rates of the
// last hour and day.
type plot struct {
	Used            string
	Limit           bcp.Bits
	Begin           time.Time
	Queries, Pushes string // paths
	Rates           []plotRate
}

type plotRate struct {
	Name    string
	Charged bcp.Bits
	End     string // when the budget is spent at this rate
	Ahead   string // path; empty for no rate
}

// step is the content of a pool from a time on.
type step struct {
	at            time.Time
	spent, pushed bcp.Bits
}

// steps are the changes of the pool of the newest epoch, oldest first.
func steps(c *channel) (all []step) {
	if c.line == nil {
		return nil
	}
	for _, e := range c.entries {
		if line, ok := e.Line(); ok && line.Epoch == c.line.Epoch {
			all = append(all, step{line.Time, line.Balance.Spent(), line.Balance.Pushed})
		}
	}
	if every := len(all)/maxSteps + 1; every > 1 {
		var few []step
		for i, s := range all {
			if i%every == 0 || i == len(all)-1 {
				few = append(few, s)
			}
		}
		all = few
	}
	return all
}

// spending plots a channel's budget; nil if there is nothing to plot.
func spending(now time.Time, c *channel) *plot {
	budget, ok := c.budget(bcp.CheckBudget)
	all := steps(c)
	if !ok || budget.Limit <= 0 || len(all) == 0 {
		return nil
	}
	span := max(minSpan, now.Sub(all[0].at))
	begin := now.Add(-span)
	x := func(t time.Time) int { return int(float64(plotNow) * float64(t.Sub(begin)) / float64(span)) }
	y := func(b bcp.Bits) int {
		return plotBottom - int(float64(plotBottom-plotTop)*min(1.05, float64(b)/float64(budget.Limit)))
	}
	area := func(of func(step) bcp.Bits) string {
		var path strings.Builder
		fmt.Fprintf(&path, "M%d,%d", x(all[0].at), plotBottom)
		for i, s := range all {
			end := plotNow
			if i+1 < len(all) {
				end = x(all[i+1].at)
			}
			fmt.Fprintf(&path, "L%d,%dL%d,%d", x(s.at), y(of(s)), end, y(of(s)))
		}
		return fmt.Sprintf("%sL%d,%d", &path, plotNow, plotBottom)
	}
	used := budget.Limit - budget.Left
	p := &plot{Used: used.Rounded(), Limit: budget.Limit, Begin: begin, Queries: area(func(s step) bcp.Bits { return s.spent }), Pushes: area(func(s step) bcp.Bits { return s.pushed })}
	ahead := time.Duration(float64(span) * (plotWidth - plotNow) / plotNow)
	for _, last := range []struct {
		name string
		span time.Duration
	}{{"hour", time.Hour}, {"day", 24 * time.Hour}} {
		charged, spent := rate(now, c, last.span, budget.Left)
		r := plotRate{Name: last.name, Charged: charged, End: "not at this rate"}
		if charged >= bcp.Bit {
			r.End = "in about " + tell.Within(spent)
			grown := used + bcp.Bits(float64(charged)*float64(ahead)/float64(last.span))
			r.Ahead = fmt.Sprintf("M%d,%dL%d,%d", plotNow, y(used), plotWidth, y(grown))
		}
		p.Rates = append(p.Rates, r)
	}
	return p
}
