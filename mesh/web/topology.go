package web

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// The sizes of the topology, in units of its view box.
const (
	pictureWidth = 960
	boxWidth     = 200
	boxHeight    = 44
	barLeft      = 468
	barRight     = 492
	headRoom     = 40
	rowHeight    = 60
	nameColumns  = 20 // characters of a name that fit into a box
	// maxPicture is how many agents are drawn at once.
	maxPicture = 60
)

// topology draws Readers on the left, Controllers on the right and their channels, which
// go through the gateway in the middle. The table of channels has the same data.
func topology(channels []*channel, taints map[bcp.AgentName]bcp.Taint) m.Node {
	l := layOut(channels)
	rows := max(len(l.channels), len(l.readers), len(l.controllers))
	height := headRoom + rows*rowHeight
	left, right := positions(l.readers), positions(l.controllers)
	middle := func(i, n int) int { return headRoom + (2*i+1)*(height-headRoom)/(2*n) }
	leftY := func(name bcp.AgentName) int { return middle(left[name], len(l.readers)) }
	rightY := func(name bcp.AgentName) int { return middle(right[name], len(l.controllers)) }

	parts := []m.Node{
		heading(boxWidth/2, "Readers"), heading(pictureWidth-boxWidth/2, "Controllers"), heading((barLeft+barRight)/2, "gateway"),
		heading(barLeft-110, "nominal bits"), heading(barRight+110, "capacity bits"),
		m.El(m.Rect, []m.Attr{m.Class("bar"), m.X.Is(barLeft), m.Y.Is(headRoom), m.Width.Is(barRight - barLeft), m.Height.Is(height - headRoom), m.Radius.Is(6)}),
	}
	for _, name := range l.readers {
		if _, both := right[name]; both {
			parts = append(parts, m.El(m.Path, []m.Attr{m.Class("same"), m.Curve(m.Point{X: boxWidth, Y: leftY(name)}, m.Point{X: pictureWidth - boxWidth, Y: rightY(name)})}))
		}
	}
	for i, c := range l.channels {
		y := middle(i, len(l.channels))
		line := func(from, to m.Point) m.Node {
			return m.El(m.Path, []m.Attr{m.Class("flow taint-" + c.taint.String()), m.Thickness.Is(lineWidth(c.day)), m.Curve(from, to)})
		}
		nominal, capacity := counts(c)
		parts = append(parts,
			line(m.Point{X: boxWidth, Y: leftY(c.key.Reader)}, m.Point{X: barLeft, Y: y}),
			line(m.Point{X: barRight, Y: y}, m.Point{X: pictureWidth - boxWidth, Y: rightY(c.key.Controller)}),
			m.El(m.SVGLink, []m.Attr{m.Href(channelPath(c.key))},
				m.El(m.SVGTitle, nil, m.Text(tell.Channel(c.key.Controller, c.key.Reader))),
				label(barLeft-8, y-8, "end", nominal), label(barRight+8, y-8, "start", capacity)))
	}
	for _, name := range l.readers {
		parts = append(parts, box(0, leftY(name), name, true, taints[name]))
	}
	for _, name := range l.controllers {
		parts = append(parts, box(pictureWidth-boxWidth, rightY(name), name, false, taints[name]))
	}
	return m.El(m.Figure, []m.Attr{m.Class("picture"), m.Focusable(), m.Role("group"), m.Spoken("Picture of the mesh; the table below says the same")},
		m.El(m.SVG, append([]m.Attr{m.ViewBox(pictureWidth, height)}, m.Width.Is(pictureWidth), m.Height.Is(height)), parts...))
}

func heading(x int, text string) m.Node {
	return m.El(m.SVGText, []m.Attr{m.Class("heading"), m.X.Is(x), m.Y.Is(20), m.Anchor("middle")}, m.Text(text))
}

func label(x, y int, anchor, text string) m.Node {
	return m.El(m.SVGText, []m.Attr{m.Class("count"), m.X.Is(x), m.Y.Is(y), m.Anchor(anchor)}, m.Text(text))
}

func box(x, middle int, name bcp.AgentName, reader bool, taint bcp.Taint) m.Node {
	shown := inert.Line(string(name))
	return m.El(m.SVGLink, []m.Attr{m.Href(agentPath(name))},
		m.El(m.SVGTitle, nil, m.Text(shown+", "+strings.ToLower(taintName(reader))+" "+taint.String())),
		m.El(m.Rect, []m.Attr{m.Class("agent taint-" + taint.String()), m.X.Is(x + 2), m.Y.Is(middle - boxHeight/2), m.Width.Is(boxWidth - 4), m.Height.Is(boxHeight), m.Radius.Is(8)}),
		m.El(m.SVGText, []m.Attr{m.Class("letter taint-" + taint.String()), m.X.Is(x + 22), m.Y.Is(middle + 5), m.Anchor("middle")}, m.Text(letter(taint))),
		m.El(m.SVGText, []m.Attr{m.Class("name"), m.X.Is(x + 40), m.Y.Is(middle + 5), m.Anchor("start")}, m.Text(inert.Cut(shown, nameColumns))))
}

// letter says a taint without colour.
func letter(t bcp.Taint) string {
	switch t {
	case bcp.TaintLow:
		return "L"
	case bcp.TaintMedium:
		return "M"
	case bcp.TaintHigh:
		return "H"
	}
	return "?"
}

// lineWidth grows with the logarithm of the bits sent.
func lineWidth(day bcp.Bits) int { return min(8, 1+bits.Len64(uint64(max(0, day/bcp.Bit)))/2) }

// counts returns the use of a channel's two limits.
func counts(c *channel) (nominal, capacity string) {
	n, k := c.spent()
	return describeUse(n, c, bcp.CheckBudget), describeUse(k, c, bcp.CheckCapacityBudget)
}

// describeUse describes the use of a budget, which may not be declared.
func describeUse(used bcp.Bits, c *channel, check bcp.Check) string {
	b, ok := c.budget(check)
	if !ok {
		return used.Rounded()
	}
	return (b.Limit - b.Left).Rounded() + " of " + b.Limit.Rounded()
}

// channelTable has the data of the topology.
func channelTable(f *facts, channels []*channel) m.Node {
	head := []m.Node{column("Controller ← Reader"), numbers("Nominal bits"), numbers("Capacity bits"), column("Delivered taint"), numbers("Accepted"), numbers("Held"), numbers("Refused")}
	var rows []m.Node
	for _, c := range channels {
		nominal, capacity := counts(c)
		name := tell.Channel(c.key.Controller, c.key.Reader)
		rows = append(rows, row(
			rowHead(link(channelPath(c.key), bdi(name))),
			number(nominal), number(capacity), m.El(m.Td, nil, taintMark(c.taint)),
			number(strconv.Itoa(c.verdicts[bcp.Accept])), number(strconv.Itoa(c.verdicts[bcp.Hold])), number(strconv.Itoa(c.verdicts[bcp.Reject]))))
	}
	return table("Channels, with the bits that the running epoch used", head, rows)
}
