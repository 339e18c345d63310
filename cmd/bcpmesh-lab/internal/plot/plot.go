// Package plot draws small charts, as SVG for documents and as text for a
// terminal. Labels are escaped in SVG; for a terminal, the caller makes text
// of agents inert first.
package plot

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Kind says how a plot is drawn.
type Kind int

// The kinds.
const (
	Bars  Kind = iota // a group of bars for each group
	Line              // of one series
	Areas             // one upon the other, a step for each group
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

var (
	plotColours = []string{"#9aa5b1", "#3d8bbd", "#d1682f", "#5a9a4b"}
	areaColours = []string{"#5a9a4b", "#3d8bbd", "#d1682f"}
)

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
			colour := plotColours[i%len(plotColours)]
			if p.Kind == Areas {
				colour = areaColours[i%len(areaColours)]
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="34" width="12" height="12" fill="%s"/>`+"\n", x, colour)
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
	if p.Kind == Areas {
		p.areas(&b, height)
	}
	for i, s := range p.Series {
		if p.Kind == Areas {
			break
		}
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

// areas draws the series one upon the other, in steps: between two groups
// nothing is known to have changed.
func (p *Plot) areas(b *strings.Builder, height func(float64) float64) {
	const bottom = fieldTop + fieldHeight
	step := float64(fieldWidth) / float64(max(1, len(p.Groups)))
	below := make([]float64, len(p.Groups))
	for i, s := range p.Series {
		var up, back []string
		for g, v := range s.Values {
			left, right := fieldLeft+step*float64(g), fieldLeft+step*float64(g+1)
			low, high := bottom-height(below[g]), bottom-height(below[g]+v)
			up = append(up, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", left, high, right, high))
			back = append(back, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", right, low, left, low))
			below[g] += v
		}
		slices.Reverse(back)
		fmt.Fprintf(b, `<polygon points="%s" fill="%s"/>`+"\n", strings.Join(append(up, back...), " "), areaColours[i%len(areaColours)])
	}
}

// top is a round number at or above every value.
func (p *Plot) top() float64 {
	most := 0.0
	for _, s := range p.Series {
		for _, v := range s.Values {
			most = max(most, v)
		}
	}
	if p.Kind == Areas {
		most = p.highest()
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

// highest is the greatest sum of a group.
func (p *Plot) highest() float64 {
	most := 0.0
	for g := range p.Groups {
		sum := 0.0
		for _, s := range p.Series {
			sum += s.Values[g]
		}
		most = max(most, sum)
	}
	return most
}

// areaMarks tell the series of a text apart, without colours.
var areaMarks = []rune{'░', '▒', '█'}

// Text draws areas for a terminal, in a field with as many columns as groups
// and some lines. Every line ends with a line feed.
func (p *Plot) Text(lines int) string {
	top := p.top()
	const margin = 11
	row := func(v float64) int { return int(math.Ceil(v / top * float64(lines))) } // counted from below, 0 for nothing
	var b strings.Builder
	for r := lines; r > 0; r-- {
		axis := ""
		if r == lines || r == (lines+1)/2 {
			axis = Amount(top*float64(r)/float64(lines), p.Unit)
		}
		fmt.Fprintf(&b, "%*s ┤", margin-2, axis)
		limit := p.Limit > 0 && row(p.Limit) == r
		for g := range p.Groups {
			b.WriteRune(p.mark(g, r, row, limit))
		}
		if limit {
			b.WriteString(" " + p.LimitName)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%*s └%s\n", margin-2, "0", strings.Repeat("─", len(p.Groups)))
	below := []rune(strings.Repeat(" ", len(p.Groups)))
	for g, name := range p.Groups {
		copy(below[min(g, max(0, len(below)-len([]rune(name)))):], []rune(name))
	}
	fmt.Fprintf(&b, "%*s%s\n", margin, "", strings.TrimRight(string(below), " "))
	for i, s := range p.Series {
		fmt.Fprintf(&b, "%*s%c %s\n", margin, "", areaMarks[i%len(areaMarks)], s.Name)
	}
	return b.String()
}

// mark returns the character at one place of a text.
func (p *Plot) mark(group, r int, row func(float64) int, limit bool) rune {
	sum := 0.0
	for i, s := range p.Series {
		if sum += s.Values[group]; s.Values[group] > 0 && row(sum) >= r {
			return areaMarks[i%len(areaMarks)]
		}
	}
	if limit {
		return '╌'
	}
	return ' '
}
