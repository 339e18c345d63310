package web

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

// The sizes of the picture of a mesh, in units of its view box. Its template has the places that do not change.
const (
	pictureWidth = 960
	boxWidth     = 200
	barLeft      = 468
	barRight     = 492
	headRoom     = 40
	rowHeight    = 60
	nameColumns  = 20 // characters of a name that fit into a box
	// maxPicture is how many agents are drawn at once.
	maxPicture = 60
)

// picture has Readers on the left, Controllers on the right and their channels, which go through the gateway in the
// middle. The table of channels has the same data.
type picture struct {
	Height, Bar int
	Same        []string // paths between the two places of an agent that is both
	Flows       []flow
	Boxes       []box
}

type flow struct {
	*channel
	Width, Y int
	From, To string // paths
}

type box struct {
	Name  bcp.AgentName
	What  string
	Taint bcp.Taint
	x, y  int
}

// X and Y are places in a box, from its left edge and its middle.
func (b box) X(at int) int { return b.x + at }

func (b box) Y(at int) int { return b.y + at }

// Short is the name as it fits into the box.
func (b box) Short() string { return inert.Cut(inert.Line(string(b.Name)), nameColumns) }

func topology(channels []*channel, taints map[bcp.AgentName]bcp.Taint) *picture {
	if len(channels) == 0 {
		return nil
	}
	readers, left := column(channels, func(c *channel) bcp.AgentName { return c.key.Reader })
	controllers, right := column(channels, func(c *channel) bcp.AgentName { return c.key.Controller })
	for range sweeps { // so that few lines cross
		order(controllers, right, left, channels, func(c *channel) (name, peer bcp.AgentName) { return c.key.Controller, c.key.Reader })
		order(readers, left, right, channels, func(c *channel) (name, peer bcp.AgentName) { return c.key.Reader, c.key.Controller })
	}
	height := headRoom + max(len(channels), len(readers), len(controllers))*rowHeight
	middle := func(i, n int) int { return headRoom + (2*i+1)*(height-headRoom)/(2*n) }
	leftY := func(name bcp.AgentName) int { return middle(left[name], len(readers)) }
	rightY := func(name bcp.AgentName) int { return middle(right[name], len(controllers)) }
	between := slices.SortedStableFunc(slices.Values(channels), func(a, b *channel) int { // so that few lines cross
		return cmp.Compare(leftY(a.key.Reader)+rightY(a.key.Controller), leftY(b.key.Reader)+rightY(b.key.Controller))
	})
	const end = pictureWidth - boxWidth
	p := &picture{Height: height, Bar: height - headRoom}
	for i, c := range between {
		y := middle(i, len(between))
		width := min(8, 1+bits.Len64(uint64(max(0, c.day/bcp.Bit)))/2) // it grows with the logarithm of the bits sent
		p.Flows = append(p.Flows, flow{c, width, y - 8, curve(boxWidth, leftY(c.key.Reader), barLeft, y), curve(barRight, y, end, rightY(c.key.Controller))})
	}
	for _, name := range readers {
		if _, both := right[name]; both {
			p.Same = append(p.Same, curve(boxWidth, leftY(name), end, rightY(name)))
		}
		p.Boxes = append(p.Boxes, box{name, strings.ToLower(taintName(true)), taints[name], 0, leftY(name)})
	}
	for _, name := range controllers {
		p.Boxes = append(p.Boxes, box{name, strings.ToLower(taintName(false)), taints[name], end, rightY(name)})
	}
	return p
}

// column has one end of each channel by name, and the place of each.
func column(channels []*channel, end func(*channel) bcp.AgentName) (names []bcp.AgentName, places map[bcp.AgentName]int) {
	places = map[bcp.AgentName]int{}
	for _, c := range channels {
		places[end(c)] = 0
	}
	names = slices.Sorted(maps.Keys(places))
	for i, name := range names {
		places[name] = i
	}
	return names, places
}

// sweeps is how often each column is ordered by the other.
const sweeps = 8

// order sorts a column by the mean place of each one's peers, then by name.
func order(names []bcp.AgentName, places, peers map[bcp.AgentName]int, channels []*channel, ends func(*channel) (name, peer bcp.AgentName)) {
	sum, n := map[bcp.AgentName]int{}, map[bcp.AgentName]int{}
	for _, c := range channels {
		name, peer := ends(c)
		sum[name] += peers[peer]
		n[name]++
	}
	slices.SortFunc(names, func(a, b bcp.AgentName) int {
		return cmp.Or(cmp.Compare(sum[a]*n[b], sum[b]*n[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		places[name] = i
	}
}

// taintName names the taint that the picture shows of an agent.
func taintName(reader bool) string {
	if reader {
		return "Delivered taint"
	}
	return "Exposure"
}

// curve returns a path that is horizontal at its beginning and end.
func curve(x, y, toX, toY int) string {
	middle := (x + toX) / 2
	return fmt.Sprintf("M%d,%dC%d,%d %d,%d %d,%d", x, y, middle, y, middle, toY, toX, toY)
}
