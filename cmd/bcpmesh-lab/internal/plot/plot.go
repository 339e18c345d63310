// Package plot draws small charts, as SVG for documents.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Kind says how a plot is drawn.
type Kind int

// The kinds.
const (
	Bars Kind = iota // a group of bars for each group
	Line             // of one series
)

// Plot is one picture. The zero value is empty, and may be filled with Set.
type Plot struct {
	Title, Unit string
	Kind        Kind
	Groups      []string // below the field; empty ones are not written
	Series      []Series
	// Limit, if not 0, is drawn as a line across the field.
	Limit     float64
	LimitName string
}

// Series has a value for each group.
type Series struct {
	Name   string
	Values []float64
}

// Amount writes a number with three digits or more and its unit.
func Amount(v float64, unit string) string {
	digits := 0
	for limit := 100.0; v < limit && v > 0 && digits < 3; limit /= 10 {
		digits++
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if v == float64(int64(v)) && v < 100 {
		text = fmt.Sprintf("%.0f", v)
	}
	if unit == "" {
		return text
	}
	return text + " " + unit
}

// Set adds one value; groups must come in order.
func (p *Plot) Set(group, name string, value float64) {
	if len(p.Groups) == 0 || p.Groups[len(p.Groups)-1] != group {
		p.Groups = append(p.Groups, group)
	}
	for i := range p.Series {
		if p.Series[i].Name == name {
			p.Series[i].Values = append(p.Series[i].Values, value)
			return
		}
	}
	p.Series = append(p.Series, Series{name, []float64{value}})
}

// The size of a picture, and of the field in it.
const (
	plotWidth, plotHeight   = 720, 360
	fieldLeft, fieldTop     = 80, 60
	fieldWidth, fieldHeight = 620, 250
)

var plotColours = []string{"#9aa5b1", "#3d8bbd", "#d1682f", "#5a9a4b"}

const limitColour = "#b3261e"

// SVG draws plots, one below the other.
func SVG(plots ...Plot) []byte {
	if len(plots) == 1 {
		return plots[0].svg()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`+"\n",
		plotWidth, plotHeight*len(plots), plotWidth, plotHeight*len(plots))
	for i := range plots {
		fmt.Fprintf(&b, `<svg y="%d" width="%d" height="%d">`+"\n%s</svg>\n", plotHeight*i, plotWidth, plotHeight, plots[i].svg())
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (p *Plot) svg() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<title>%s</title>`+"\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", html.EscapeString(p.Title))
	label := func(x, y float64, anchor, style, text string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222222"%s>%s</text>`+"\n", x, y, anchor, style, html.EscapeString(text))
	}
	label(fieldLeft, 22, "start", ` font-size="15" font-weight="bold"`, p.Title)
	top := p.top()
	height := func(v float64) float64 { return v / top * fieldHeight }
	const bottom = fieldTop + fieldHeight
	for i := range 6 {
		v := top * float64(i) / 5
		y := bottom - height(v)
		fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="#dddddd"/>`+"\n", fieldLeft, y, fieldWidth)
		label(fieldLeft-8, y+4, "end", "", Amount(v, p.Unit))
	}
	for i, s := range p.Series {
		if len(p.Series) > 1 {
			x := float64(fieldLeft + 150*i)
			fmt.Fprintf(&b, `<rect x="%.1f" y="34" width="12" height="12" fill="%s"/>`+"\n", x, plotColours[i%len(plotColours)])
			label(x+17, 44, "start", "", s.Name)
		}
	}
	group := float64(fieldWidth) / float64(len(p.Groups))
	for g, name := range p.Groups {
		if name == "" {
			continue
		}
		label(fieldLeft+group*(float64(g)+0.5), bottom+20, "middle", "", name)
	}
	for i, s := range p.Series {
		colour := plotColours[i%len(plotColours)]
		bar := group * 0.8 / float64(len(p.Series))
		points := make([]string, 0, len(s.Values))
		for g, v := range s.Values {
			x, y := fieldLeft+group*(float64(g)+0.1)+bar*float64(i), bottom-height(v)
			if p.Kind == Line {
				x = fieldLeft + group*(float64(g)+0.5)
				points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x, y, plotColours[2])
				label(x, y-10, "middle", "", Amount(v, ""))
				continue
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, bar-2, height(v), colour)
			label(x+bar/2, y-4, "middle", ` font-size="10"`, Amount(v, ""))
		}
		if p.Kind == Line {
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), plotColours[2])
		}
	}
	if p.Limit > 0 {
		y := bottom - height(p.Limit)
		fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="%s" stroke-width="2" stroke-dasharray="6 4"/>`+"\n", fieldLeft, y, fieldWidth, limitColour)
		label(fieldLeft+fieldWidth, y-6, "end", ` fill-opacity="0.9" font-weight="bold"`, p.LimitName)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// top is a round number at or above every value.
func (p *Plot) top() float64 {
	most := 0.0
	for _, s := range p.Series {
		for _, v := range s.Values {
			most = max(most, v)
		}
	}
	most = max(most, p.Limit)
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
