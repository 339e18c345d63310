package markup

import (
	"strconv"
	"strings"
)

// Number is an attribute of a picture whose value is an integer. The zero value is
// invalid.
type Number struct{ key string }

// The numbers of pictures, in units of the view box.
var (
	X, Y, Width, Height, Radius, Thickness = Number{"x"}, Number{"y"}, Number{"width"}, Number{"height"}, Number{"rx"}, Number{"stroke-width"}
)

// Is returns the attribute with its value.
func (n Number) Is(v int) Attr { return Attr{n.key, strconv.Itoa(v)} }

// ViewBox is the size of a picture.
func ViewBox(width, height int) Attr {
	return Attr{"viewBox", "0 0 " + strconv.Itoa(width) + " " + strconv.Itoa(height)}
}

// Anchor says which part of a text is at its position: "start", "middle" or "end".
func Anchor(at string) Attr { return Attr{"text-anchor", at} }

// Point is a place in a picture.
type Point struct{ X, Y int }

// Through returns the way of a path: straight lines through points.
func Through(points ...Point) Attr {
	var b strings.Builder
	for i, p := range points {
		b.WriteString([]string{"M", "L"}[min(i, 1)] + p.String())
	}
	return Attr{"d", b.String()}
}

// Curve returns the data of a path that is horizontal at its beginning and end.
func Curve(from, to Point) Attr {
	middle := (from.X + to.X) / 2
	return Attr{"d", "M" + from.String() + "C" + Point{middle, from.Y}.String() + " " + Point{middle, to.Y}.String() + " " + to.String()}
}

// String writes a place as paths do.
func (p Point) String() string { return strconv.Itoa(p.X) + "," + strconv.Itoa(p.Y) }
