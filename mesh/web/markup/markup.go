// Package markup builds pages as trees of golang.org/x/net/html, so text
// cannot become markup: no function takes HTML. Elements and attributes come
// from closed lists, without scripts, styles and handlers. All functions are
// pure and safe for concurrent use; use each node in one goroutine.
package markup

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Node is a part of a page. The zero value is no node and is left out.
type Node struct{ node *html.Node }

// Attr is an attribute of an element. The zero value is left out.
type Attr struct{ key, value string }

// Tag is a permitted element. The zero value is invalid.
type Tag uint8

// The elements of pages and pictures. None of them contains raw text, refers to
// another page or runs anything without an attribute that this package makes.
const (
	_ Tag = iota
	A
	P
	Bdi
	Button
	Caption
	Code
	Dd
	Details
	Div
	Dl
	Dt
	Figure
	Figcaption
	Form
	H1
	H2
	Header
	Input
	Label
	Li
	Main
	Mark
	Nav
	Ol
	Section
	Span
	Strong
	Summary
	Table
	Tbody
	Td
	Textarea
	Th
	Thead
	Time
	Tr
	Ul

	SVG
	SVGLink
	SVGTitle
	SVGText
	Path
	Rect

	tagHTML
	tagHead
	tagMeta
	tagTitle
	tagLink
	tagBody
	tagScript // of a file, never with text
)

var tagNames = [...]string{
	A:          "a",
	P:          "p",
	Bdi:        "bdi",
	Button:     "button",
	Caption:    "caption",
	Code:       "code",
	Dd:         "dd",
	Details:    "details",
	Div:        "div",
	Dl:         "dl",
	Dt:         "dt",
	Figure:     "figure",
	Figcaption: "figcaption",
	Form:       "form",
	H1:         "h1",
	H2:         "h2",
	Header:     "header",
	Input:      "input",
	Label:      "label",
	Li:         "li",
	Main:       "main",
	Mark:       "mark",
	Nav:        "nav",
	Ol:         "ol",
	Section:    "section",
	Span:       "span",
	Strong:     "strong",
	Summary:    "summary",
	Table:      "table",
	Tbody:      "tbody",
	Td:         "td",
	Textarea:   "textarea",
	Th:         "th",
	Thead:      "thead",
	Time:       "time",
	Tr:         "tr",
	Ul:         "ul",
	SVG:        "svg",
	SVGLink:    "a",
	SVGTitle:   "title",
	SVGText:    "text",
	Path:       "path",
	Rect:       "rect",
	tagHTML:    "html",
	tagHead:    "head",
	tagMeta:    "meta",
	tagTitle:   "title",
	tagLink:    "link",
	tagBody:    "body",
	tagScript:  "script",
}

// picture reports whether an element is one of a picture.
func (t Tag) picture() bool { return t >= SVG && t < tagHTML }

// Class returns the attribute class.
func Class(name string) Attr { return Attr{"class", name} }

// ID returns the attribute id.
func ID(name string) Attr { return Attr{"id", name} }

// Spoken returns the name for screen readers.
func Spoken(name string) Attr { return Attr{"aria-label", clean(name)} }

// Role returns the attribute role.
func Role(name string) Attr { return Attr{"role", name} }

// Name returns the name of a field of a form.
func Name(name string) Attr { return Attr{"name", name} }

// Value returns the value of a form field.
func Value(text string) Attr { return Attr{"value", text} }

// Hidden hides a form field.
func Hidden() Attr { return Attr{"type", "hidden"} }

// NoAutocomplete keeps a browser from remembering the value of a field.
func NoAutocomplete() Attr { return Attr{"autocomplete", "off"} }

// Required makes a browser require a field.
func Required() Attr { return Attr{"required", ""} }

// For connects a label to its field, by id.
func For(id string) Attr { return Attr{"for", id} }

// LabelledBy names the element that labels this one, by id.
func LabelledBy(id string) Attr { return Attr{"aria-labelledby", id} }

// Scope says that a cell is the head of a column ("col") or a row ("row").
func Scope(of string) Attr { return Attr{"scope", of} }

// Current marks the link to the current page.
func Current() Attr { return Attr{"aria-current", "page"} }

// Unspoken hides an element from screen readers.
func Unspoken() Attr { return Attr{"aria-hidden", "true"} }

// Focusable makes a scrollable element reachable by keyboard.
func Focusable() Attr { return Attr{"tabindex", "0"} }

// Data is a text for a module, which does not parse it as markup. A name is small
// letters; any other name gives no attribute.
func Data(name, text string) Attr {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
		return Attr{}
	}
	return Attr{"data-" + name, text}
}

// Seen is a number for a module: how much a page shows already.
func Seen(n uint64) Attr { return Attr{"data-seen", strconv.FormatUint(n, 10)} }

// Unseen hides an element until a module shows it.
func Unseen() Attr { return Attr{"hidden", ""} }

// Plain makes a button that does not submit a form.
func Plain() Attr { return Attr{"type", "button"} }

// Href returns a link to a path of the same site; anything else leads to its root.
func Href(path string) Attr { return Attr{"href", own(path)} }

// Action returns the attribute action of a form, a path like that of [Href].
func Action(path string) Attr { return Attr{"action", own(path)} }

// Post makes a form send its fields in a body.
func Post() Attr { return Attr{"method", "post"} }

// own returns path if it stays on the site: browsers read //host and /\host as hosts,
// and drop tabs and line breaks before they look.
func own(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) {
		return "/"
	}
	return clean(path)
}

// clean replaces what a page cannot contain: bytes that are not UTF-8, and NUL.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Under has the links and forms of nodes lead to paths under a prefix.
func Under(prefix string, nodes ...Node) {
	for _, n := range nodes {
		if n.node == nil {
			continue
		}
		for each := range n.node.Descendants() {
			moveUnder(prefix, each)
		}
		moveUnder(prefix, n.node)
	}
}

func moveUnder(prefix string, n *html.Node) {
	for i, a := range n.Attr {
		if (a.Key == "href" || a.Key == "action" || a.Key == "formaction") && strings.HasPrefix(a.Val, "/") {
			n.Attr[i].Val = prefix + a.Val
		}
	}
}

// Skip returns a link to an element of the same page, by its id.
func Skip(id string) Attr { return Attr{"href", "#" + clean(id)} }

// Text returns text that is shown verbatim.
func Text(text string) Node {
	if text == "" {
		return Node{}
	}
	return Node{&html.Node{Type: html.TextNode, Data: clean(text)}}
}

// El returns an element with attributes and children. An element without a tag is no
// node.
func El(tag Tag, attrs []Attr, children ...Node) Node {
	if tag == 0 || int(tag) >= len(tagNames) {
		return Node{}
	}
	name := tagNames[tag]
	n := &html.Node{Type: html.ElementNode, DataAtom: atom.Lookup([]byte(name)), Data: name}
	if tag.picture() {
		n.Namespace = "svg"
	}
	for _, a := range attrs {
		if a.key != "" {
			n.Attr = append(n.Attr, html.Attribute{Key: a.key, Val: clean(a.value)})
		}
	}
	for _, c := range children {
		if c.node != nil {
			n.AppendChild(c.node)
		}
	}
	return Node{n}
}

// Render writes a whole page: its title, the paths of its style sheet and of its module,
// and its body.
func Render(w io.Writer, title, style, module string, body ...Node) error {
	head := El(tagHead, nil,
		El(tagMeta, []Attr{{"charset", "utf-8"}}),
		El(tagMeta, []Attr{{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}),
		El(tagMeta, []Attr{{"name", "color-scheme"}, {"content", "dark light"}}),
		El(tagTitle, nil, Text(title)),
		El(tagLink, []Attr{{"rel", "stylesheet"}, {"href", own(style)}}),
		El(tagScript, []Attr{{"type", "module"}, {"src", own(module)}}))
	page := &html.Node{Type: html.DocumentNode}
	page.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	page.AppendChild(El(tagHTML, []Attr{{"lang", "en"}}, head, El(tagBody, nil, body...)).node)
	if err := html.Render(w, page); err != nil {
		return errors.Join(errors.New("markup: the page cannot be written"), err)
	}
	return nil
}
