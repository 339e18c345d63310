package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// plot is one picture: groups of bars, or a line where there is one series and
// its steps are powers of ten.
type plot struct {
	file, title, unit string
	groups            []string
	series            []series
	line              bool
}

type series struct {
	name   string
	values []float64
}

// plots are those that the report has figures for.
func (r *Report) plots() []plot {
	var all []plot
	for _, name := range []string{"push", "flow"} {
		latency := plot{file: name + "-latency.svg", title: name + ": p50 by messages in flight", unit: "ms"}
		rate := plot{file: name + "-rate.svg", title: name + ": messages a second by messages in flight", unit: "/s"}
		cost := plot{file: name + "-cost.svg", title: name + ": processor time of server and gateway, a message", unit: "µs"}
		for _, l := range r.Loads {
			if l.Name == name {
				group := fmt.Sprintf("%d in flight", l.InFlight)
				latency.set(group, l.Path, micro(l.P50)/1000)
				rate.set(group, l.Path, l.Rate)
				cost.set(group, l.Path, l.Processor)
			}
		}
		if len(latency.series) > 0 {
			all = append(all, latency, rate, cost)
		}
	}
	for i, c := range r.Curves {
		p := plot{file: fmt.Sprintf("curve-%d.svg", i+1), title: c.Name + " over " + c.Over, unit: c.Unit, line: true}
		for _, at := range c.Steps {
			p.set(amount(float64(at.At), ""), c.Name, at.Value)
		}
		all = append(all, p)
	}
	return all
}

// set adds one value; groups come in order.
func (p *plot) set(group, name string, value float64) {
	if len(p.groups) == 0 || p.groups[len(p.groups)-1] != group {
		p.groups = append(p.groups, group)
	}
	for i := range p.series {
		if p.series[i].name == name {
			p.series[i].values = append(p.series[i].values, value)
			return
		}
	}
	p.series = append(p.series, series{name, []float64{value}})
}

// The size of a picture, and of the field in it.
const (
	plotWidth, plotHeight   = 720, 360
	fieldLeft, fieldTop     = 80, 60
	fieldWidth, fieldHeight = 620, 250
)

var plotColours = []string{"#9aa5b1", "#3d8bbd", "#d1682f", "#5a9a4b"}

// svg draws it.
func (p *plot) svg() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<title>%s</title>`+"\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", html.EscapeString(p.title))
	label := func(x, y float64, anchor, style, text string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222222"%s>%s</text>`+"\n", x, y, anchor, style, html.EscapeString(text))
	}
	label(fieldLeft, 22, "start", ` font-size="15" font-weight="bold"`, p.title)
	top := p.top()
	height := func(v float64) float64 { return v / top * fieldHeight }
	const bottom = fieldTop + fieldHeight
	for i := range 6 {
		v := top * float64(i) / 5
		y := bottom - height(v)
		fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="#dddddd"/>`+"\n", fieldLeft, y, fieldWidth)
		label(fieldLeft-8, y+4, "end", "", amount(v, p.unit))
	}
	for i, s := range p.series {
		if len(p.series) > 1 {
			x := float64(fieldLeft + 150*i)
			fmt.Fprintf(&b, `<rect x="%.1f" y="34" width="12" height="12" fill="%s"/>`+"\n", x, plotColours[i%len(plotColours)])
			label(x+17, 44, "start", "", s.name)
		}
	}
	group := float64(fieldWidth) / float64(len(p.groups))
	for g, name := range p.groups {
		label(fieldLeft+group*(float64(g)+0.5), bottom+20, "middle", "", name)
	}
	for i, s := range p.series {
		colour := plotColours[i%len(plotColours)]
		bar := group * 0.8 / float64(len(p.series))
		points := make([]string, 0, len(s.values))
		for g, v := range s.values {
			x, y := fieldLeft+group*(float64(g)+0.1)+bar*float64(i), bottom-height(v)
			if p.line {
				x = fieldLeft + group*(float64(g)+0.5)
				points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x, y, plotColours[2])
				label(x, y-10, "middle", "", amount(v, ""))
				continue
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, bar-2, height(v), colour)
			label(x+bar/2, y-4, "middle", ` font-size="10"`, amount(v, ""))
		}
		if p.line {
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), plotColours[2])
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// top is a round number at or above every value.
func (p *plot) top() float64 {
	most := 0.0
	for _, s := range p.series {
		for _, v := range s.values {
			most = max(most, v)
		}
	}
	if most <= 0 {
		return 1
	}
	most *= 1.1 // room for the label
	scale := math.Pow(10, math.Floor(math.Log10(most)))
	for _, m := range []float64{1, 1.5, 2, 3, 4, 5, 8, 10} {
		if m*scale >= most {
			return m * scale
		}
	}
	return 10 * scale
}
