package web

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// The sizes of the plot of a budget, in units of its view box. The last third of its
// width is the future.
const (
	plotWidth  = 720
	plotHeight = 200
	plotNow    = 480
	plotTop    = 24
	plotBottom = 176
	// maxSteps is how many steps are drawn at most.
	maxSteps = 240
	// minSpan is the shortest time that a plot shows.
	minSpan = time.Minute
)

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

// spending draws how the budget of the epoch was used, and a projection from the rates
// of the last hour and day. The table below has the numbers.
func spending(now time.Time, c *channel) m.Node {
	budget, ok := c.budget(bcp.CheckBudget)
	all := steps(c)
	if !ok || budget.Limit <= 0 || len(all) == 0 {
		return m.Node{}
	}
	begin := all[0].at
	span := max(minSpan, now.Sub(begin))
	begin = now.Add(-span)
	x := func(t time.Time) int { return int(float64(plotNow) * float64(t.Sub(begin)) / float64(span)) }
	y := func(b bcp.Bits) int {
		return plotBottom - int(float64(plotBottom-plotTop)*min(1.05, float64(b)/float64(budget.Limit)))
	}
	area := func(of func(step) bcp.Bits) m.Attr {
		points := []m.Point{{X: x(all[0].at), Y: plotBottom}}
		for i, s := range all {
			end := plotNow
			if i+1 < len(all) {
				end = x(all[i+1].at)
			}
			points = append(points, m.Point{X: x(s.at), Y: y(of(s))}, m.Point{X: end, Y: y(of(s))})
		}
		return m.Through(append(points, m.Point{X: plotNow, Y: plotBottom})...)
	}
	used := budget.Limit - budget.Left
	parts := []m.Node{
		m.El(m.SVGTitle, nil, m.Text("Bits of this epoch: "+used.Rounded()+" of "+budget.Limit.Rounded())),
		m.El(m.Path, []m.Attr{m.Class("area queries"), area(func(s step) bcp.Bits { return s.spent })}),
		m.El(m.Path, []m.Attr{m.Class("area pushes"), area(func(s step) bcp.Bits { return s.pushed })}),
		m.El(m.Path, []m.Attr{m.Class("limit"), m.Through(m.Point{X: 0, Y: plotTop}, m.Point{X: plotWidth, Y: plotTop})}),
		m.El(m.Path, []m.Attr{m.Class("axis"), m.Through(m.Point{X: plotNow, Y: plotTop}, m.Point{X: plotNow, Y: plotBottom})}),
		m.El(m.Path, []m.Attr{m.Class("axis"), m.Through(m.Point{X: 0, Y: plotBottom}, m.Point{X: plotWidth, Y: plotBottom})}),
		m.El(m.SVGText, []m.Attr{m.Class("count"), m.X.Is(4), m.Y.Is(plotTop - 6), m.Anchor("start")}, m.Text("limit "+budget.Limit.Words())),
		m.El(m.SVGText, []m.Attr{m.Class("count"), m.X.Is(plotNow), m.Y.Is(plotHeight - 6), m.Anchor("middle")}, m.Text("now")),
		m.El(m.SVGText, []m.Attr{m.Class("count"), m.X.Is(4), m.Y.Is(plotHeight - 6), m.Anchor("start")}, m.Text(written(begin))),
	}
	var rows []m.Node
	ahead := time.Duration(float64(span) * (plotWidth - plotNow) / plotNow)
	for _, last := range []struct {
		name string
		span time.Duration
	}{{"hour", time.Hour}, {"day", 24 * time.Hour}} {
		charged, spent := rate(now, c, last.span, budget.Left)
		end := "not at this rate"
		if charged >= bcp.Bit {
			end = "in about " + tell.Within(spent)
			grown := used + bcp.Bits(float64(charged)*float64(ahead)/float64(last.span))
			parts = append(parts, m.El(m.Path, []m.Attr{m.Class("ahead"), m.Through(m.Point{X: plotNow, Y: y(used)}, m.Point{X: plotWidth, Y: y(grown)})}))
		}
		rows = append(rows, row(rowHead(m.Text("the last "+last.name)), number(charged.Rounded()), cell(end)))
	}
	return m.El(m.Figure, []m.Attr{m.Class("plot")},
		m.El(m.SVG, []m.Attr{m.Role("img"), m.Spoken("Bits used over time; the table below has the numbers"), m.ViewBox(plotWidth, plotHeight)}, parts...),
		m.El(m.Figcaption, nil, m.Text("Bits that the epoch used: by pushes below, by queries above; dashed, how it goes on at the rates of the last hour and day.")),
		m.El(m.Details, nil, m.El(m.Summary, nil, m.Text("Rates, and when the budget is spent")),
			table("At the rate of", []m.Node{column("Rate of"), numbers("Bits in that time"), column("Budget spent")}, rows)))
}
