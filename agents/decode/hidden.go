package decode

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// Options say for whom a document is read.
type Options struct {
	// Mail: a mail, whose text of pictures is hidden like its title, as a picture of no size has
	// one too, and which has nobody who opens a <details>.
	Mail bool
}

// Document is an HTML document without what a person would not see.
type Document struct {
	Root  *html.Node
	Title string
	// Hidden has the pieces of text that a person does not see and that were taken out:
	// comments, and what a style, an attribute or an element hides.
	Hidden []string
	Loss
}

// Parse parses a document, and takes out what is hidden.
func Parse(source string, o Options) Document {
	root, formats, loss := parse(source)
	d := Document{Root: root, Loss: loss}
	h := hider{document: &d, sheet: newSheet(root), formats: formats, options: o}
	first := look{colour: colour{a: 1}, back: colour{255, 255, 255, 1}, backKnown: !h.sheet.external || o.Mail, size: 16, opacity: 1}
	h.path = []*element{{look: first}}
	h.walk(root)
	for _, n := range h.gone {
		if n.Parent != nil { // a picture may be taken out twice
			n.Parent.RemoveChild(n)
		}
	}
	d.Complex = h.sheet.costly
	return d
}

// look is what text inherits.
type look struct {
	colour, back  colour
	backKnown     bool
	throughText   bool    // the background is seen through the letters
	size          float64 // pixels of a letter
	opacity       float64
	invisible     bool
	letterSpacing float64
}

// unseen reports whether nobody sees text of such a look.
func (l look) unseen() bool {
	switch {
	case l.invisible, l.size < 3, l.opacity < 0.1, l.letterSpacing <= -l.size/2:
		return true
	case l.throughText:
		return false
	case l.colour.a*l.opacity < 0.1:
		return true
	}
	return l.backKnown && l.colour.over(l.back).near(l.back)
}

// hider takes the hidden text out of a tree.
type hider struct {
	document *Document
	sheet    *sheet
	formats  map[*html.Node]bool
	options  Options
	gone     []*html.Node // taken out at the end, as style sheets ask who is next to whom
	path     []*element   // from the root to where the walk is
	// open are formatting elements whose end tag did not come yet, perhaps though the tree has
	// them closed: those go on in what follows. Those before floor are outside of the innermost
	// table cell, which an end tag in it does not reach.
	open  []*element
	floor int
}

// element is an element with its style.
type element struct {
	n            *html.Node
	declarations []declaration
	format       bool
	left         bool // the walk left it
	ended        bool // a formatting element: its end tag came, though the tree has what follows below it
	// what its contents inherit
	look look
	gone bool
}

const maxOpen = 200 // more formatting elements are no longer followed

func (h *hider) walk(parent *html.Node) {
	for n := range parent.ChildNodes() {
		switch n.Type {
		case html.CommentNode:
			h.hide(n.Data)
			h.gone = append(h.gone, n)
		case html.TextNode:
			if strings.TrimSpace(n.Data) != "" && (h.folded(n) || h.unseen()) {
				h.hide(n.Data)
				h.gone = append(h.gone, n)
			}
		case html.ElementNode:
			h.element(n)
		}
	}
}

// inherit computes what the contents of an element inherit from the one above.
func (h *hider) inherit(e, above *element) {
	e.look, e.gone = above.look, above.gone
	if !e.ended {
		var hides bool
		e.look, hides = h.apply(e.look, e.n, e.declarations)
		e.gone = e.gone || hides || h.unrendered(e.n)
	}
}

// unseen reports whether nobody sees text that is here.
func (h *hider) unseen() bool {
	here := *h.path[len(h.path)-1]
	for _, f := range h.open {
		if f.left {
			again := *f
			h.inherit(&again, &here)
			here = again
		}
	}
	return here.gone || here.look.unseen()
}

func (h *hider) element(n *html.Node) {
	switch name, isEnd := strings.CutPrefix(n.Data, ending); {
	case isEnd:
		h.end(name)
		h.gone = append(h.gone, n)
		return
	case n.Namespace != "":
	case programs[n.Data]:
		h.gone = append(h.gone, n)
		return
	case n.Data == "title":
		if h.document.Title == "" {
			h.document.Title = textOf(n)
		}
		h.gone = append(h.gone, n)
		return
	}
	above := h.path[len(h.path)-1]
	e := h.enter(n)
	switch {
	case e.gone && !e.format && !above.gone:
		h.takeOut(n)
	default: // only formatting elements end before the tree has them end
		h.path = append(h.path, e)
		floor, count := h.floor, len(h.open)
		if boundaries[n.Data] {
			h.floor = count
		}
		h.walk(n)
		if boundaries[n.Data] {
			h.open, h.floor = h.open[:min(count, len(h.open))], floor
		}
		h.path = h.path[:len(h.path)-1]
	}
	e.left = true
	if n.Data == "img" && (h.options.Mail || h.unseen()) {
		if alt, _ := attribute(n.Attr, "alt"); alt != "" {
			h.hide(alt)
		}
		h.gone = append(h.gone, n)
	}
}

// enter returns an element with its style. A formatting element is followed up to its end tag.
func (h *hider) enter(n *html.Node) *element {
	e := &element{n: n, declarations: h.sheet.declared(n), format: h.formats[n] && len(h.open) < maxOpen}
	h.inherit(e, h.path[len(h.path)-1])
	if e.format {
		h.open = append(h.open, e)
	}
	return e
}

// end ends the last open formatting element of a name.
func (h *hider) end(name string) {
	for i := len(h.open) - 1; i >= h.floor; i-- {
		e := h.open[i]
		if e.n.Data != name {
			continue
		}
		h.open = slices.Delete(h.open, i, i+1)
		e.ended = true
		if at := slices.Index(h.path, e); at > 0 {
			for ; at < len(h.path); at++ {
				h.inherit(h.path[at], h.path[at-1])
			}
		}
		return
	}
}

// takeOut takes an element out with all that is in it. Formatting elements in it may go on after it.
func (h *hider) takeOut(n *html.Node) {
	h.hide(textOf(n))
	h.gone = append(h.gone, n)
	for below := range n.Descendants() {
		switch name, isEnd := strings.CutPrefix(below.Data, ending); {
		case below.Type == html.CommentNode:
			h.hide(below.Data)
		case below.Type != html.ElementNode:
		case isEnd:
			h.end(name)
		case h.formats[below]:
			h.enter(below).left = true
		}
	}
}

func (h *hider) hide(text string) {
	if text = strings.TrimSpace(text); text != "" {
		h.document.Hidden = append(h.document.Hidden, text)
	}
}

// textOf returns the text of an element that is not shown. What the parser left as markup is
// without its tags.
func textOf(n *html.Node) string {
	w := NewWriter(nil)
	for below := range n.Descendants() {
		if below.Type == html.TextNode && below.Parent != nil && rawText[below.Parent.Data] {
			below.Data = tags.ReplaceAllString(below.Data, " ")
		}
	}
	w.Node(n)
	return w.Text()
}

var tags = regexp.MustCompile(`<[^>]*>`)

var (
	programs   = wordSet("script style")
	rawText    = wordSet("noscript iframe noembed noframes xmp")
	boundaries = wordSet("td th caption template applet object marquee")
	// replaced are elements that show something else than their text, and that no browser of today shows the text of.
	replaced = wordSet("template noscript noframes noembed iframe object embed audio video canvas svg math datalist applet")
)

// unrendered reports whether an element shows nothing by what it is.
func (h *hider) unrendered(n *html.Node) bool {
	if replaced[n.Data] {
		return true
	}
	_, open := attribute(n.Attr, "open")
	if _, popover := attribute(n.Attr, "popover"); popover {
		return true
	}
	if n.Data == "dialog" {
		return !open
	}
	return h.folded(n)
}

// folded reports whether a mail shows a node only after a click.
func (h *hider) folded(n *html.Node) bool {
	if !h.options.Mail || n.Parent == nil || n.Parent.Data != "details" || n.Type == html.ElementNode && n.Data == "summary" {
		return false
	}
	_, open := attribute(n.Parent.Attr, "open")
	return !open
}

// apply returns the look below an element, and whether nothing of it is seen.
func (h *hider) apply(l look, n *html.Node, all []declaration) (look, bool) {
	if len(all) == 0 && len(n.Attr) == 0 {
		return l, false
	}
	v := map[string]string{}
	if _, hidden := attribute(n.Attr, "hidden"); hidden {
		v["display"] = "none"
	}
	for _, d := range all {
		value := h.sheet.resolve(d.value)
		switch d.property {
		case "background":
			v["background-color"], v["background-image"] = value, value
			if strings.Contains(value, "text") {
				v["background-clip"] = "text"
			}
			continue
		case "font":
			if size := fontSize.FindString(value); size != "" {
				v["font-size"] = strings.Trim(size, " /")
			}
			continue
		case "margin", "inset":
			prefix := ""
			if d.property == "margin" {
				prefix = "margin-"
			}
			for i, one := range fourSides(value) {
				v[prefix+[]string{"top", "right", "bottom", "left"}[i]] = one
			}
			continue
		case "color":
			delete(v, "-webkit-text-fill-color")
		case "-webkit-transform", "-ms-transform", "-webkit-clip-path", "-webkit-filter", "-webkit-background-clip":
			d.property = strings.TrimPrefix(strings.TrimPrefix(d.property, "-webkit-"), "-ms-")
		case "-ms-filter":
			d.property = "filter"
		}
		v[d.property] = value
	}
	l = l.inherit(v)
	return l, takenOut(v, l.size)
}

var fontSize = regexp.MustCompile(`(^| )[0-9.]+(px|pt|em|rem|%|ex|vw|vh|mm|cm|in|pc)?( |/|$)`)

func fourSides(value string) []string {
	s := strings.Fields(value)
	switch len(s) {
	case 1:
		return []string{s[0], s[0], s[0], s[0]}
	case 2:
		return []string{s[0], s[1], s[0], s[1]}
	case 3:
		return []string{s[0], s[1], s[2], s[1]}
	case 4:
		return s
	}
	return nil
}

// inherit returns the look of what is in an element with such properties.
func (l look) inherit(v map[string]string) look {
	switch v["visibility"] {
	case "hidden", "collapse":
		l.invisible = true
	case "visible", "initial":
		l.invisible = false
	}
	if size, ok := length(v["font-size"], l.size, l.size); ok && size >= 0 {
		l.size = size
	} else if sizeWords[v["font-size"]] {
		l.size = 16
	}
	if n, ok := number(v["opacity"]); ok {
		l.opacity *= min(1, max(0, n))
	}
	if spacing, ok := length(v["letter-spacing"], l.size, l.size); ok {
		l.letterSpacing = spacing
	} else if v["letter-spacing"] == "normal" {
		l.letterSpacing = 0
	}
	for _, property := range []string{"color", "-webkit-text-fill-color"} {
		if c, ok := parseColour(v[property]); ok {
			l.colour = c
		} else if v[property] == "initial" {
			l.colour = colour{a: 1}
		}
	}
	if v["background-clip"] == "text" {
		l.throughText = true
	}
	l.background(v)
	return l
}

var sizeWords = wordSet("medium small large x-large xx-large x-small xx-small initial")

// background puts the background of an element over the one below.
func (l *look) background(v map[string]string) {
	image := v["background-image"]
	picture := strings.Contains(image, "url(") || strings.Contains(image, "image-set(") || strings.Contains(image, "gradient(")
	var found []colour
	for _, text := range []string{v["background-color"], image} {
		for _, token := range colourToken.FindAllString(text, 50) {
			if token == "currentcolor" {
				found = append(found, l.colour)
			} else if c, ok := parseColour(token); ok {
				found = append(found, c)
			}
		}
	}
	if strings.Contains(image, "url(") {
		l.backKnown = false
		return
	}
	if len(found) == 0 {
		l.backKnown = l.backKnown && !picture
		return
	}
	for _, c := range found[1:] {
		if !c.near(found[0]) || math.Abs(c.a-found[0].a) > 0.1 {
			l.backKnown = false // it has several colours
			return
		}
	}
	l.backKnown = l.backKnown || found[0].a == 1
	l.back = found[0].over(l.back)
}

const (
	outLeft = -400 // pixels: what is moved so far is beyond the screen
	outFar  = 5000
)

// takenOut reports whether an element with all that is in it is not seen.
func takenOut(v map[string]string, size float64) bool {
	switch {
	case v["display"] == "none", v["content-visibility"] == "hidden", v["mso-hide"] == "all":
		return true
	}
	// nothing else reads several properties at once
	return clipped(v) || flat(v, size) || moved(v, size) || faded(v["filter"])
}

var numbers = regexp.MustCompile(`[+-]?[0-9]*\.?[0-9]+`)

// values returns the numbers of a text.
func values(text string) (all []float64) {
	for _, one := range numbers.FindAllString(text, 64) {
		n, _ := strconv.ParseFloat(one, 64)
		all = append(all, n)
	}
	return all
}

// clipped: nothing is left of it by clip or clip-path.
func clipped(v map[string]string) bool {
	if inside, ok := strings.CutPrefix(v["clip"], "rect("); ok {
		if n := values(inside); len(n) == 4 && !strings.Contains(inside, "auto") && (n[2]-n[0] <= 2 || n[1]-n[3] <= 2) {
			return true
		}
	}
	name, inside, _ := strings.Cut(v["clip-path"], "(")
	n := values(inside)
	if len(n) == 0 {
		return false
	}
	switch name {
	case "circle", "ellipse":
		return n[0] <= 1 || name == "ellipse" && len(n) > 1 && n[1] <= 1
	case "rect":
		return len(n) == 4 && (n[2]-n[0] <= 2 || n[1]-n[3] <= 2)
	case "inset":
		if at := strings.Index(inside, "round"); at >= 0 {
			inside = inside[:at]
		}
		sides := fourSides(strings.Join(strings.Fields(strings.TrimSuffix(inside, ")")), " "))
		share := func(side int) float64 {
			if len(sides) < 4 || !strings.HasSuffix(sides[side], "%") {
				return 0
			}
			n := values(sides[side])
			return n[0]
		}
		return share(0)+share(2) >= 98 || share(1)+share(3) >= 98
	case "polygon":
		lowest, highest := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
		for i, x := range n {
			lowest[i%2], highest[i%2] = min(lowest[i%2], x), max(highest[i%2], x)
		}
		return highest[0]-lowest[0] <= 1 || highest[1]-lowest[1] <= 1
	}
	return false
}

// flat: it has no room, or its text is moved out of it.
func flat(v map[string]string, size float64) bool {
	if most, ok := length(v["max-height"], size, math.NaN()); ok && most <= 2 {
		return true
	}
	if factor, ok := number(v["zoom"]); ok && factor <= 0.1 {
		return true
	}
	indent, indented := length(v["text-indent"], size, 1280)
	if indented && (indent <= outLeft || indent >= outFar) {
		return true
	}
	overflow := v["overflow"] + " " + v["overflow-x"] + " " + v["overflow-y"]
	if !strings.Contains(overflow, "hidden") && !strings.Contains(overflow, "clip") && !strings.Contains(overflow, "scroll") && !strings.Contains(overflow, "auto") {
		return false
	}
	if indented && indent >= 1000 {
		return true
	}
	for _, property := range []string{"height", "width", "max-width"} {
		if n, ok := length(v[property], size, 1000); ok && n <= 2 {
			return true
		}
	}
	return false
}

var transformation = regexp.MustCompile(`([a-z0-9]+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)`)

// moved: it is off the screen, or turned or scaled to nothing.
func moved(v map[string]string, size float64) bool {
	far := func(text string, share float64) bool {
		n, ok := length(text, size, share)
		return ok && (n <= outLeft || n >= outFar)
	}
	switch v["position"] {
	case "absolute", "fixed", "relative", "sticky":
		for _, side := range []string{"left", "right", "top", "bottom"} {
			if far(v[side], 800) {
				return true
			}
		}
	}
	for _, side := range []string{"margin-left", "margin-top", "margin-right"} {
		if n, ok := length(v[side], size, 100); ok && (n <= outLeft && side != "margin-right" || n >= outFar) {
			return true
		}
	}
	steps := transformation.FindAllStringSubmatch(v["transform"], 20)
	for _, property := range []string{"scale", "translate", "rotate"} {
		if v[property] != "" {
			steps = append(steps, []string{"", property, strings.ReplaceAll(v[property], " ", ",")})
		}
	}
	for _, step := range steps {
		arguments := strings.Split(step[2], ",")
		n := values(step[2])
		if len(n) == 0 {
			continue
		}
		switch name := step[1]; {
		case strings.HasPrefix(name, "translate"):
			for i, argument := range arguments {
				if share := 400.0; i < 2 && name != "translatez" && far(strings.TrimSpace(argument), share) {
					return true
				}
			}
		case name == "scalez":
		case strings.HasPrefix(name, "scale"):
			for _, factor := range n[:min(2, len(n))] {
				if math.Abs(factor) <= 0.1 {
					return true
				}
			}
		case name == "rotatex" || name == "rotatey":
			turn := n[0]
			switch {
			case strings.Contains(step[2], "turn"):
				turn *= 360
			case strings.Contains(step[2], "grad"):
				turn *= 0.9
			case strings.Contains(step[2], "rad"):
				turn *= 180 / math.Pi
			}
			if math.Abs(math.Abs(math.Remainder(turn, 180))-90) < 3 {
				return true
			}
		case name == "matrix" && len(n) == 6:
			if math.Abs(n[0]*n[3]-n[1]*n[2]) <= 0.01 || n[4] <= outLeft || n[5] <= outLeft || n[4] >= outFar || n[5] >= outFar {
				return true
			}
		case name == "matrix3d" && len(n) == 16:
			if math.Abs(n[0]*n[5]-n[1]*n[4]) <= 0.01 || n[12] <= outLeft || n[13] <= outLeft {
				return true
			}
		}
	}
	return false
}

// faded: a filter leaves nothing of it.
func faded(filter string) bool {
	for _, step := range transformation.FindAllStringSubmatch(filter, 20) {
		n := values(step[2])
		if len(n) == 0 {
			continue
		}
		switch {
		case step[1] == "alpha" && n[0] < 10:
			return true
		case step[1] == "opacity":
			if strings.Contains(step[2], "%") {
				n[0] /= 100
			}
			if n[0] < 0.1 {
				return true
			}
		case step[1] == "blur" && n[0] >= 10:
			return true
		}
	}
	return false
}

// number parses a number or a percentage.
func number(text string) (float64, bool) {
	text, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(text, 64)
	if percent {
		n /= 100
	}
	return n, err == nil && !math.IsNaN(n)
}

var (
	measure = regexp.MustCompile(`^([+-]?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)([a-z]*|%)$`)
	sum     = regexp.MustCompile(`([+-]?)\s*([+-]?[0-9]*\.?[0-9]+[a-z%]*)`)
	pixels  = map[string]float64{"px": 1, "pt": 4. / 3, "pc": 16, "in": 96, "cm": 37.8, "mm": 3.78, "q": 0.945, "rem": 16, "vw": 12.8, "vh": 8, "vmin": 8, "vmax": 12.8, "": 1}
)

// length returns a length in pixels, for a size of letters and what 100% is.
func length(text string, size, whole float64) (float64, bool) {
	if inside, ok := strings.CutPrefix(text, "calc("); ok {
		total, found := 0.0, false
		for _, term := range sum.FindAllStringSubmatch(inside, 10) {
			n, ok := length(term[2], size, whole)
			if term[1] == "-" {
				n = -n
			}
			total, found = total+n, found || ok
		}
		return total, found && !strings.ContainsAny(inside, "*/(")
	}
	found := measure.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(found[1], 64)
	unit, known := pixels[found[2]]
	switch found[2] {
	case "em":
		unit, known = size, true
	case "ex", "ch":
		unit, known = size/2, true
	case "%":
		unit, known = whole/100, !math.IsNaN(whole)
	}
	return n * unit, err == nil && known
}
