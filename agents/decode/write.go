package decode

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// maxText bounds the text written of a document, in bytes: more than an agent may ask for.
const maxText = 2 << 20

// Write writes an element with its contents as text: headings with #, list items with a hyphen or their
// number, table rows with bars, ~~ around what is struck, ^ before a raised number behind another one, [x] for what is ticked, and
// links followed by a number. number returns that of a link by the value of
// its attribute, 0 for none; nil numbers nothing.
func Write(n *html.Node, number func(href string) int) string {
	w := &writer{number: number, breaks: 2}
	w.node(n)
	return strings.TrimRight(w.b.String(), "\n ")
}

// voids are the elements that have nothing in them.
var voids = wordSet("area base br col embed hr img input link meta param source track wbr")

type writer struct {
	b      strings.Builder
	number func(href string) int
	breaks int   // line breaks at the end of the output
	space  bool  // a blank is owed
	raised bool  // what comes is raised, and behind a digit
	pre    int   // open elements that preserve white space
	struck int   // marks of what is struck that are owed
	cells  int   // of the open row
	inCell int   // open cells
	lists  []int // the next number of each open list; -1: no numbers
}

func (w *writer) node(n *html.Node) {
	if w.b.Len() >= maxText {
		return
	}
	switch n.Type {
	case html.TextNode:
		w.write(n.Data)
		return
	case html.CommentNode, html.DoctypeNode:
		return
	case html.ElementNode:
		w.open(n.Data, n.Attr)
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		w.node(child)
	}
	if n.Type == html.ElementNode && !voids[n.Data] {
		w.close(n)
	}
}

// write writes text, with its white space collapsed unless it is kept.
func (w *writer) write(s string) {
	if w.pre > 0 {
		w.raw(s)
		return
	}
	owe := func() { w.space = w.breaks == 0 }
	if s != "" && isBlank(rune(s[0])) {
		owe()
	}
	for word := range strings.FieldsFuncSeq(s, isBlank) {
		w.raw(word)
		if s = s[strings.Index(s, word)+len(word):]; s != "" {
			owe()
		}
	}
}

// raw writes text verbatim, after a pending blank.
func (w *writer) raw(s string) {
	if s == "" {
		return
	}
	if w.space {
		w.b.WriteByte(' ')
		w.space = false
	} else if w.raised && isDigit(s[0]) {
		w.b.WriteByte('^')
	}
	w.raised = false
	w.b.WriteString(strings.Repeat("~~", w.struck))
	w.struck = 0
	w.b.WriteString(s)
	if trimmed := strings.TrimRight(s, "\n"); trimmed == "" {
		w.breaks += len(s)
	} else {
		w.breaks = len(s) - len(trimmed)
	}
}

// line ends the line, and leaves n-1 empty ones.
func (w *writer) line(n int) {
	w.space, w.raised = false, false
	for w.breaks < n {
		w.b.WriteByte('\n')
		w.breaks++
	}
}

func (w *writer) open(name string, attributes []html.Attribute) {
	w.block(name)
	w.apart(name, attributes)
	switch name {
	case "br":
		w.space = false
		w.b.WriteByte('\n')
		w.breaks++
	case "hr":
		w.raw("---")
		w.line(2)
	case "h1", "h2", "h3", "h4", "h5", "h6":
		w.raw(strings.Repeat("#", int(name[1]-'0')) + " ")
		w.breaks = 1 // a block at the beginning stays on the line
	case "ul", "menu":
		w.lists = append(w.lists, -1)
	case "ol":
		w.lists = append(w.lists, whole(attributes, "start", 1))
	case "li":
		w.item(attributes)
	case "del", "s", "strike":
		w.struck++
	case "sup":
		w.raised = !w.space && w.b.Len() > 0 && isDigit(w.b.String()[w.b.Len()-1])
	case "tr":
		w.cells = 0
	case "td", "th":
		if w.cells > 0 {
			w.space = false
			w.raw(" | ")
		}
		w.cells++
		w.inCell++
	case "pre", "textarea":
		w.pre++
	case "img":
		alt, _ := attribute(attributes, "alt")
		w.box(alt)
	case "button":
		w.box("")
	case "input":
		w.box(inputText(attributes))
	}
}

// close ends an element that open began.
func (w *writer) close(n *html.Node) {
	switch n.Data {
	case "ul", "ol", "menu":
		w.lists = w.lists[:len(w.lists)-1]
	case "button":
		w.box("")
	case "pre", "textarea":
		w.pre--
	case "a":
		w.link(n)
	case "td", "th":
		w.inCell--
	case "del", "s", "strike":
		if w.struck > 0 { // there was nothing to strike
			w.struck--
			break
		}
		w.space = false
		w.raw("~~")
	case "sup":
		w.raised = false
	}
	w.apart(n.Data, n.Attr)
	w.block(n.Data)
}

// block ends the line around an element that is not inline.
func (w *writer) block(name string) {
	switch name {
	case "ul", "ol", "menu":
		if len(w.lists) > 0 { // inside of another one
			w.line(1)
			return
		}
		w.line(2)
	case "p", "blockquote", "table", "figure", "dl", "section", "article", "header", "footer", "main", "aside", "nav", "form", "fieldset", "details",
		"h1", "h2", "h3", "h4", "h5", "h6", "hr", "pre", "textarea":
		w.line(2)
	case "div", "address", "dt", "dd", "caption", "figcaption", "thead", "tbody", "tfoot", "legend", "summary", "option", "body", "html", "head", "center", "title",
		"li", "tr":
		w.line(1)
	}
}

// apart sets an element apart that does not run into its neighbours by its style: in a cell with a blank, so that the row
// stays on its line. Cells have their bars.
func (w *writer) apart(name string, attributes []html.Attribute) {
	switch box, _ := attribute(attributes, boxKey); {
	case name == "td", name == "th", name == "br":
	case box == "lines" && (w.inCell == 0 || w.pre > 0):
		w.line(1)
	case box != "" && w.pre == 0 && !strings.HasSuffix(w.b.String(), " "):
		w.box("")
	}
}

// whole returns the positive number of an attribute, or what counts without one.
func whole(attributes []html.Attribute, key string, otherwise int) int {
	value, _ := attribute(attributes, key)
	if n, err := strconv.Atoi(value); err == nil && n > 0 && n < 1_000_000 {
		return n
	}
	return otherwise
}

// box writes the text of what has a border of its own, so that it runs into nothing beside it.
func (w *writer) box(text string) { w.write(" " + text + " ") }

// inputText is what a person sees in a field of a form.
func inputText(attributes []html.Attribute) string {
	switch kind, _ := attribute(attributes, "type"); strings.ToLower(kind) {
	case "hidden", "password", "file", "image", "color", "range":
		return ""
	case "checkbox", "radio":
		if _, ticked := attribute(attributes, "checked"); ticked {
			return "[x]"
		}
		return "[ ]"
	}
	if value, _ := attribute(attributes, "value"); value != "" {
		return value
	}
	text, _ := attribute(attributes, "placeholder")
	return text
}

// item begins an item of the innermost list.
func (w *writer) item(attributes []html.Attribute) {
	mark := "- "
	if n := len(w.lists); n > 0 {
		w.raw(strings.Repeat("  ", min(n-1, 8)))
		if w.lists[n-1] > 0 {
			number := whole(attributes, "value", w.lists[n-1])
			mark, w.lists[n-1] = strconv.Itoa(number)+". ", number+1
		}
	}
	w.raw(mark)
	w.breaks = 1 // a block at the beginning of an item stays on its line
}

// link writes the number of a link after its text.
func (w *writer) link(n *html.Node) {
	href, ok := attribute(n.Attr, "href")
	if !ok || w.number == nil {
		return
	}
	if number := w.number(href); number > 0 {
		w.space = false
		w.raw(" [" + strconv.Itoa(number) + "]")
	}
}

func attribute(attributes []html.Attribute, key string) (value string, ok bool) {
	for _, a := range attributes {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isBlank(r rune) bool { return strings.ContainsRune(" \t\n\r\f", r) }
