package decode

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/image/colornames"
)

// colour has channels from 0 to 255, and alpha from 0 to 1.
type colour struct{ r, g, b, a float64 }

// over returns the colour that is seen if c lies on an opaque one.
func (c colour) over(below colour) colour {
	mix := func(top, under float64) float64 { return top*c.a + under*(1-c.a) }
	return colour{mix(c.r, below.r), mix(c.g, below.g), mix(c.b, below.b), 1}
}

// near reports whether nobody can tell two colours apart.
func (c colour) near(d colour) bool {
	const most = 24 // of 255
	return math.Abs(c.r-d.r) <= most && math.Abs(c.g-d.g) <= most && math.Abs(c.b-d.b) <= most
}

var (
	colourToken    = regexp.MustCompile(`#[0-9a-f]{3,8}\b|(?:rgba?|hsla?|hwb|(?:ok)?l(?:ab|ch)|color)\([^()]*\)|[a-z]+`)
	colourFunction = regexp.MustCompile(`^(rgb|hsl|hwb|(?:ok)?lab|(?:ok)?lch|color)a?\(([^()]*)\)$`)
	mixed          = regexp.MustCompile(`^color-mix\(in [a-z0-9-]+,(.*?)(?: ([0-9.]+)%)?,([^,]*(?:\([^()]*\))?[^,%]*?)(?: ([0-9.]+)%)?\)$`)
	modes          = regexp.MustCompile(`^light-dark\(((?:[^,()]|\([^()]*\))*),`)
)

// parseColour returns a colour in any of its spellings.
func parseColour(text string) (colour, bool) {
	text = strings.TrimSpace(text)
	if text == "transparent" {
		return colour{}, true
	}
	if hex, ok := strings.CutPrefix(text, "#"); ok {
		return parseHex(hex)
	}
	if hex, ok := system[text]; ok {
		return parseHex(hex)
	}
	if c, ok := colornames.Map[text]; ok {
		return colour{float64(c.R), float64(c.G), float64(c.B), 1}, true
	}
	if found := modes.FindStringSubmatch(text); found != nil {
		return parseColour(found[1])
	}
	if found := mixed.FindStringSubmatch(text); found != nil {
		return mix(found[1:])
	}
	found := colourFunction.FindStringSubmatch(text)
	if found == nil {
		return colour{}, false
	}
	if found[1] == "color" {
		_, found[2], _ = strings.Cut(strings.TrimSpace(found[2]), " ") // the space
	}
	fields := strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' || r == ' ' || r == '/' })
	if len(fields) < 3 || len(fields) > 4 {
		return colour{}, false
	}
	c := colour{a: 1}
	var v [4]float64
	for i, field := range fields {
		number, percent := strings.CutSuffix(field, "%")
		number = strings.TrimSuffix(number, "none")
		n, err := strconv.ParseFloat(number, 64)
		if bare := strings.TrimRight(number, "degratun"); bare != number {
			n, err = degrees(number), nil
		}
		if err != nil && number != "" || math.IsNaN(n) || math.IsInf(n, 0) {
			return colour{}, false
		}
		switch {
		case percent && (i == 3 || found[1] != "rgb"):
			n /= 100
		case percent:
			n *= 2.55
		}
		v[i] = n
	}
	if len(fields) == 4 {
		c.a = min(1, max(0, v[3]))
	}
	switch found[1] {
	case "rgb":
		c.r, c.g, c.b = v[0], v[1], v[2]
	case "color":
		c.r, c.g, c.b = 255*v[0], 255*v[1], 255*v[2]
	case "lab", "lch", "oklab", "oklch": // only the ends of their scale are known
		if found[1][0] == 'l' && !strings.Contains(fields[0], "%") {
			v[0] /= 100
		}
		if v[0] > 0.02 && v[0] < 0.98 && c.a >= 0.1 {
			return colour{}, false
		}
		c.r = math.Round(min(1, max(0, v[0]))) * 255
		c.g, c.b = c.r, c.r
	case "hsl":
		c.r, c.g, c.b = hue(v[0], v[1], v[2])
	default:
		white, black := min(1, max(0, v[1])), min(1, max(0, v[2]))
		if white+black > 1 {
			white, black = white/(white+black), black/(white+black)
		}
		r, g, b := hue(v[0], 1, 0.5)
		c.r, c.g, c.b = r*(1-white-black)+white*255, g*(1-white-black)+white*255, b*(1-white-black)+white*255
	}
	c.r, c.g, c.b = min(255, max(0, c.r)), min(255, max(0, c.g)), min(255, max(0, c.b))
	return c, true
}

// mix returns the mixture of two colours, each with its percentage or nothing.
func mix(parts []string) (colour, bool) {
	a, ok := parseColour(parts[0])
	b, fine := parseColour(parts[2])
	share := 50.0
	if parts[1] != "" {
		share, _ = strconv.ParseFloat(parts[1], 64)
	} else if parts[3] != "" {
		other, _ := strconv.ParseFloat(parts[3], 64)
		share = 100 - other
	}
	share = min(1, max(0, share/100))
	between := func(x, y float64) float64 { return x*share + y*(1-share) }
	return colour{between(a.r, b.r), between(a.g, b.g), between(a.b, b.b), between(a.a, b.a)}, ok && fine
}

func hue(degrees, saturation, lightness float64) (r, g, b float64) {
	saturation, lightness = min(1, max(0, saturation)), min(1, max(0, lightness))
	channel := func(n float64) float64 {
		k := math.Mod(n+degrees/30, 12)
		if k < 0 {
			k += 12
		}
		return 255 * (lightness - saturation*min(lightness, 1-lightness)*max(-1, min(k-3, 9-k, 1)))
	}
	return channel(0), channel(8), channel(4)
}

func parseHex(hex string) (colour, bool) {
	if len(hex) == 3 || len(hex) == 4 {
		var long strings.Builder
		for _, c := range hex {
			long.WriteString(string(c) + string(c))
		}
		hex = long.String()
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	switch {
	case err != nil:
	case len(hex) == 6:
		return colour{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255), 1}, true
	case len(hex) == 8:
		return colour{float64(n >> 24), float64(n >> 16 & 255), float64(n >> 8 & 255), float64(n&255) / 255}, true
	}
	return colour{}, false
}

// system are the names of colours that SVG does not have, among them those of the system that pages are white and black by.
var system = map[string]string{"canvas": "ffffff", "canvastext": "000000", "window": "ffffff", "windowtext": "000000", "rebeccapurple": "663399"}
