// Package markup builds pages as trees of golang.org/x/net/html, so that text has no
// way to become markup: there is no function that takes HTML. Elements and attributes
// come from closed lists; neither scripts, styles nor handlers are in them. All
// functions are pure and safe for concurrent use; a node is built and rendered by one
// goroutine.
package markup

import (
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Node is a part of a page. The zero value is no node and is left out.
type Node struct{ node *html.Node }

// Attr is an attribute of an element. The zero value is left out.
type Attr struct{ key, value string }

// Tag is an element that pages may have. The zero value is none.
type Tag struct{ atom atom.Atom }

// The elements of pages. None of them holds raw text, refers to another page or runs
// anything without an attribute that this package makes.
var (
	A, Bdi, Button, Code, Div, Form, Footer = Tag{atom.A}, Tag{atom.Bdi}, Tag{atom.Button}, Tag{atom.Code}, Tag{atom.Div}, Tag{atom.Form}, Tag{atom.Footer}
	H1, H2, Header, Input, Label, Li, Main  = Tag{atom.H1}, Tag{atom.H2}, Tag{atom.Header}, Tag{atom.Input}, Tag{atom.Label}, Tag{atom.Li}, Tag{atom.Main}
	Mark, Nav, Ol, P, Section, Span, Ul     = Tag{atom.Mark}, Tag{atom.Nav}, Tag{atom.Ol}, Tag{atom.P}, Tag{atom.Section}, Tag{atom.Span}, Tag{atom.Ul}
	Table, Tbody, Td, Th, Thead, Tr         = Tag{atom.Table}, Tag{atom.Tbody}, Tag{atom.Td}, Tag{atom.Th}, Tag{atom.Thead}, Tag{atom.Tr}
)

// Class returns the attribute class.
func Class(name string) Attr { return Attr{"class", name} }

// ID returns the attribute id.
func ID(name string) Attr { return Attr{"id", name} }

// Spoken returns the name that screen readers say.
func Spoken(name string) Attr { return Attr{"aria-label", clean(name)} }

// Role returns the attribute role.
func Role(name string) Attr { return Attr{"role", name} }

// Name returns the name of a field of a form.
func Name(name string) Attr { return Attr{"name", name} }

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

// clean replaces what no page can hold: bytes that are not UTF-8, and NUL.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Text returns text that is shown as it is.
func Text(text string) Node {
	if text == "" {
		return Node{}
	}
	return Node{&html.Node{Type: html.TextNode, Data: clean(text)}}
}

// El returns an element with attributes and children. An element without a tag is no
// node.
func El(tag Tag, attrs []Attr, children ...Node) Node {
	if tag.atom == 0 {
		return Node{}
	}
	n := &html.Node{Type: html.ElementNode, DataAtom: tag.atom, Data: tag.atom.String()}
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

// Render writes a whole page: its title, the path of its style sheet, and its body.
func Render(w io.Writer, title, style string, body ...Node) error {
	head := El(Tag{atom.Head}, nil,
		El(Tag{atom.Meta}, []Attr{{"charset", "utf-8"}}),
		El(Tag{atom.Meta}, []Attr{{"name", "viewport"}, {"content", "width=device-width"}}),
		El(Tag{atom.Title}, nil, Text(title)),
		El(Tag{atom.Link}, []Attr{{"rel", "stylesheet"}, {"href", own(style)}}))
	page := &html.Node{Type: html.DocumentNode}
	page.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	page.AppendChild(El(Tag{atom.Html}, []Attr{{"lang", "en"}}, head, El(Tag{atom.Body}, nil, body...)).node)
	if err := html.Render(w, page); err != nil {
		return errors.Join(errors.New("markup: the page cannot be written"), err)
	}
	return nil
}
