package decode

import (
	"cmp"
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
	// XML: <script/> is an element that has ended.
	XML bool
}

var ended = regexp.MustCompile(`<([A-Za-z][A-Za-z0-9:]*)(\s[^<>]*)?/>`)

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
	if o.XML {
		source = ended.ReplaceAllStringFunc(source, func(tag string) string {
			name := ended.FindStringSubmatch(tag)[1]
			switch plain := strings.ToLower(name); {
			case programs[plain], rawText[plain], plain == "title", plain == "textarea":
				return " " // nothing of it is seen, and its end would end the one around it
			case voids[plain]:
				return tag
			}
			return tag + "</" + name + ">"
		})
	}
	root, loss := parse(source)
	d := Document{Root: root, Loss: loss}
	h := hider{document: &d, sheet: newSheet(root), options: o}
	h.walk(root, look{colour: colour{a: 1}, back: colour{255, 255, 255, 1}, backKnown: !h.sheet.external || o.Mail, size: 16, opacity: 1})
	for _, n := range h.gone {
		n.Parent.RemoveChild(n)
	}
	d.Complex = h.sheet.costly
	return d
}

// look is what text inherits.
type look struct {
	colour, back  colour
	backKnown     bool
	throughText   bool    // the background is seen through the letters
	painted       bool    // an element of this stacking context, not the page itself, has a background
	size          float64 // pixels of a letter
	opacity       float64
	invisible     bool
	letterSpacing float64
	display, box  string // of the element itself: nothing inherits them
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
	options  Options
	gone     []*html.Node // taken out at the end, as style sheets ask who is next to whom
}

func (h *hider) walk(parent *html.Node, l look) {
	for n := range parent.ChildNodes() {
		switch n.Type {
		case html.CommentNode:
			if !strings.HasPrefix(n.Data, "?xml ") { // a declaration, which HTML takes for a comment
				h.hide(n.Data)
			}
			h.gone = append(h.gone, n)
		case html.TextNode:
			if strings.TrimSpace(n.Data) != "" && (h.folded(n) || l.unseen()) {
				h.hide(n.Data)
				h.gone = append(h.gone, n)
			}
		case html.ElementNode:
			h.element(n, l)
		}
	}
}

func (h *hider) element(n *html.Node, l look) {
	switch {
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
	l, hides := h.apply(l, n, h.sheet.declared(n))
	if l.box != "" {
		n.Attr = append(n.Attr, html.Attribute{Key: boxKey, Val: l.box})
	}
	if hides || h.unrendered(n) || n.Data == "img" && (h.options.Mail || l.unseen()) {
		h.drop(n)
		return
	}
	if root := h.shadow(n); root != nil && !hasSlot(root) {
		for c := range n.ChildNodes() {
			if c != root {
				h.drop(c)
			}
		}
		n = root
	}
	h.walk(n, l)
}

// shadow returns the template in an element that a browser shows in place of all else in it, but for what its slots take. No mail
// program does.
func (h *hider) shadow(n *html.Node) *html.Node {
	for c := range n.ChildNodes() {
		if mode, _ := attribute(c.Attr, "shadowrootmode"); c.Data == "template" && (mode == "open" || mode == "closed") && !h.options.Mail {
			return c
		}
	}
	return nil
}

func hasSlot(n *html.Node) bool {
	for below := range n.Descendants() {
		if below.Data == "slot" {
			return true
		}
	}
	return false
}

// drop takes out a node with all below it.
func (h *hider) drop(n *html.Node) {
	h.hide(textOf(n))
	for below := range n.Descendants() {
		if below.Type == html.CommentNode {
			h.hide(below.Data)
		}
	}
	h.gone = append(h.gone, n)
}

func (h *hider) hide(text string) {
	if text = strings.TrimSpace(text); text != "" {
		h.document.Hidden = append(h.document.Hidden, text)
	}
}

// textOf returns the text of an element that is not shown. What the parser left as markup is
// without its tags.
func textOf(n *html.Node) string {
	for below := range n.Descendants() {
		if below.Type == html.TextNode && below.Parent != nil && rawText[below.Parent.Data] {
			below.Data = tags.ReplaceAllString(below.Data, " ")
		}
	}
	return Write(n, nil)
}

var tags = regexp.MustCompile(`<[^>]*>`)

var (
	programs = wordSet("script style")
	rawText  = wordSet("noscript iframe noembed noframes xmp")
	// replaced are elements that show something else than their text, and that no browser of today shows the text of.
	replaced = wordSet("template noscript noframes noembed iframe object embed audio video canvas svg math datalist applet progress meter rp")
)

// unrendered reports whether an element shows nothing by what it is.
func (h *hider) unrendered(n *html.Node) bool {
	if replaced[n.Data] {
		return h.shadow(n.Parent) != n
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
	outer, v := l.display, map[string]string{}
	if len(all) == 0 && len(n.Attr) == 0 {
		l.display, l.box = "", boxOf(v, outer)
		return l, false
	}
	if _, hidden := attribute(n.Attr, "hidden"); hidden {
		v["display"] = "none"
	}
	for _, d := range h.sheet.animated(all) {
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
			delete(v, "text-fill-color")
		case "mask":
			d.property = "mask-image"
		}
		v[cmp.Or(logical[d.property], d.property)] = value
	}
	l.display, l.box = v["display"], boxOf(v, outer)
	painted := l.painted
	l = l.inherit(v)
	layer, layered := number(v["z-index"])
	switch layered = layered && placed[v["position"]]; {
	case layered && layer < 0 && painted: // behind the background
		return l, true
	case layered, v["position"] == "fixed", v["opacity"] != "", v["transform"] != "", v["filter"] != "":
		l.painted = false // of a stacking context of its own
	case n.Data == "body", n.Data == "html":
		l.painted = painted
	}
	return l, takenOut(v, l.size)
}

// boxKey is the attribute by which [Write] knows boxes: the parser leaves none of this name.
const boxKey = "\x00box"

// boxOf says how an element stands apart by its style: on lines of its own ("lines"), as what lies in a flex or a
// grid container does too or what floats ("blank"), or not at all.
func boxOf(v map[string]string, outer string) string {
	display := v["display"]
	switch display {
	case "block", "flex", "grid", "table", "list-item", "flow-root", "table-row":
		return "lines"
	case "inline-block", "inline-flex", "inline-grid", "inline-table", "table-cell":
		return "blank"
	}
	floats := v["float"] == "left" || v["float"] == "right" || v["position"] == "absolute" || v["position"] == "fixed"
	if floats || strings.HasSuffix(outer, "flex") || strings.HasSuffix(outer, "grid") {
		return "blank"
	}
	return ""
}

// logical are properties by the direction of the text, which in most documents is from left to right.
var logical = map[string]string{
	"block-size": "height", "inline-size": "width", "max-block-size": "max-height", "max-inline-size": "max-width", "inset-inline-start": "left", "inset-inline": "left", "inset-inline-end": "right",
	"inset-block-start": "top", "inset-block": "top", "inset-block-end": "bottom", "margin-inline-start": "margin-left", "margin-inline": "margin-left", "margin-inline-end": "margin-right",
	"margin-block-start": "margin-top", "margin-block": "margin-top",
}

var placed = wordSet("absolute fixed relative sticky")

var fontSize = regexp.MustCompile(`(^| )[0-9.]+(px|pt|em|rem|%|ex|vw|vh|mm|cm|in|pc)?( |/|$)`)

// fourSides returns the values for top, right, bottom and left, nil if there are none.
func fourSides(value string) (sides []string) {
	given := strings.Fields(value)
	if len(given) < 1 || len(given) > 4 {
		return nil
	}
	for _, which := range [][]int{{0, 0, 0, 0}, {0, 1, 0, 1}, {0, 1, 2, 1}, {0, 1, 2, 3}}[len(given)-1] {
		sides = append(sides, given[which])
	}
	return sides
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
	for _, property := range []string{"color", "text-fill-color"} {
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
	l.painted = l.painted || picture || len(found) > 0 && found[0].a == 1
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
	case v["display"] == "none", v["content-visibility"] == "hidden", v["mso-hide"] == "all", v["text-security"] != "" && v["text-security"] != "none":
		return true
	}
	return clipped(v) || flat(v, size) || moved(v, size) || faded(v["filter"]) || masked(v["mask-image"])
}

// masked: the mask is transparent everywhere.
func masked(image string) bool {
	found := false
	for _, token := range colourToken.FindAllString(image, 50) {
		c, ok := parseColour(token)
		if ok && c.a >= 0.1 {
			return false
		}
		found = found || ok
	}
	return found && strings.Contains(image, "gradient(") && !strings.Contains(image, "url(")
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
		return n[0] <= 1 || name == "ellipse" && len(n) > 1 && n[1] <= 1 || len(n) > 2 && min(n[len(n)-1], n[len(n)-2]) < -n[0]
	case "xywh":
		return len(n) >= 4 && min(n[2], n[3]) <= 2
	case "rect":
		return len(n) == 4 && (n[2]-n[0] <= 2 || n[1]-n[3] <= 2)
	case "inset":
		if at := strings.Index(inside, "round"); at >= 0 {
			inside = inside[:at]
		}
		sides := fourSides(strings.Join(strings.Fields(strings.TrimSuffix(inside, ")")), " "))
		share := func(side int) float64 {
			if len(sides) < 4 {
				return 0
			}
			n, _ := length(sides[side], 16, outFar)
			return n
		}
		return max(share(0)+share(2), share(1)+share(3)) >= 0.98*outFar
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
	if !cutting.MatchString(v["overflow"] + " " + v["overflow-x"] + " " + v["overflow-y"] + " " + v["contain"]) {
		return false
	}
	if line, ok := length(v["line-height"], size, size); ok && line == 0 {
		return true
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

var cutting = regexp.MustCompile(`hidden|clip|scroll|auto|paint|strict|content`)

var transformation = regexp.MustCompile(`([a-z0-9]+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)`)

// moved: it is off the screen, or turned or scaled to nothing.
func moved(v map[string]string, size float64) bool {
	far := func(text string, share float64) bool {
		n, ok := length(text, size, share)
		return ok && (n <= outLeft || n >= outFar)
	}
	if placed[v["position"]] {
		for side, screen := range map[string]float64{"left": 1280, "right": 1280, "top": 800, "bottom": 800} {
			n, ok := length(v[side], size, screen)
			beyond := n >= screen && (v["position"] == "fixed" || v["position"] == "absolute" && strings.Contains(v[side], "vw"))
			wide, known := length(v["width"], size, screen)
			if far(v[side], screen) || ok && (beyond || known && side == "left" && n < 0 && n+wide <= 0 && v["position"] != "relative") {
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
		if axis, angle, ok := strings.Cut(v[property], " "); ok && property == "rotate" {
			steps = append(steps, []string{"", property + axis, angle})
		} else if v[property] != "" {
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
		case name == "rotatex", name == "rotatey", name == "rotate3d" && len(n) == 4 && n[2] == 0, strings.HasPrefix(name, "skew"):
			turn := degrees(arguments[len(arguments)-1])
			edge := math.Abs(math.Abs(math.Remainder(turn, 180))-90) < 3
			if edge || v["backface-visibility"] == "hidden" && name[0] == 'r' && math.Abs(math.Remainder(turn, 360)) > 90 {
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

// degrees parses an angle.
func degrees(text string) float64 {
	n := append(values(text), 0)[0]
	switch {
	case strings.Contains(text, "turn"):
		return n * 360
	case strings.Contains(text, "grad"):
		return n * 0.9
	case strings.Contains(text, "rad"):
		return n * 180 / math.Pi
	}
	return n
}

// number parses a number or a percentage.
func number(text string) (float64, bool) {
	n, ok := length(text, math.NaN(), 1)
	return n, ok && strings.Trim(text[len(text)-1:], "0123456789%.)") == "" && !math.IsNaN(n)
}

var (
	measure  = regexp.MustCompile(`^([+-]?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)([a-z]+|%|)`)
	function = regexp.MustCompile(`^(calc|min|max|clamp|)\(`)
	pixels   = map[string]float64{"px": 1, "pt": 4. / 3, "pc": 16, "in": 96, "cm": 37.8, "mm": 3.78, "q": 0.945, "rem": 16, "vw": 12.8, "vh": 8, "vmin": 8, "vmax": 12.8, "dvh": 8, "svh": 8, "lvh": 8, "dvw": 12.8, "svw": 12.8, "cqw": 12.8, "cqh": 8, "lh": 19, "": 1}
)

// length returns a length in pixels, for a size of letters and what 100% is.
func length(text string, size, whole float64) (float64, bool) {
	e := expression{rest: text, size: size, whole: whole}
	n := e.value()
	return n, !e.wrong && e.rest == ""
}

// expression is the rest of a length that is parsed, a calculation perhaps.
type expression struct {
	rest        string
	size, whole float64
	depth       int
	wrong       bool
}

// after takes one of the characters, after white space.
func (e *expression) after(any string) byte {
	e.rest = strings.TrimLeft(e.rest, " ")
	if e.rest == "" || strings.IndexByte(any, e.rest[0]) < 0 {
		return 0
	}
	c := e.rest[0]
	e.rest = e.rest[1:]
	return c
}

func (e *expression) sum() float64 {
	total, sign := 0.0, 1.0
	for !e.wrong {
		term := e.value()
		for operator := e.after("*/"); operator != 0 && !e.wrong; operator = e.after("*/") {
			if operator == '*' {
				term *= e.value()
			} else {
				term /= e.value()
			}
		}
		total += sign * term
		switch e.after("+-") {
		case '+':
			sign = 1
		case '-':
			sign = -1
		default:
			return total
		}
	}
	return 0
}

func (e *expression) value() float64 {
	e.rest = strings.TrimLeft(e.rest, " ")
	if e.depth++; e.depth > 100 {
		e.wrong = true
	} else if found := function.FindStringSubmatch(e.rest); found != nil {
		e.rest = e.rest[len(found[0]):]
		all := []float64{e.sum()}
		for e.after(",") != 0 {
			all = append(all, e.sum())
		}
		e.wrong = e.wrong || e.after(")") == 0
		switch {
		case found[1] == "min":
			return slices.Min(all)
		case found[1] == "max":
			return slices.Max(all)
		case found[1] == "clamp" && len(all) == 3:
			return max(all[0], min(all[1], all[2]))
		}
		return all[0]
	} else if found := measure.FindStringSubmatch(e.rest); found != nil {
		e.rest = e.rest[len(found[0]):]
		n, err := strconv.ParseFloat(found[1], 64)
		unit, known := pixels[found[2]]
		switch found[2] {
		case "em":
			unit, known = e.size, true
		case "ex", "ch":
			unit, known = e.size/2, true
		case "%":
			unit, known = e.whole/100, !math.IsNaN(e.whole)
		}
		e.wrong = e.wrong || err != nil || !known
		return n * unit
	}
	e.wrong = true
	return 0
}
