package page

import (
	"errors"
	"strings"
	"unicode/utf8"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
)

const (
	maxElements = 50_000 // of a page, to look for its readable part
	maxDepth    = 512
	// minReadable is how many code points a readable part has at least. A shorter page is read whole.
	minReadable = 250
)

// readable returns the readable part of a page, or all visible text if it is not found.
func readable(source string, links map[string]Link) (title, text string, used []Link) {
	doc, err := parse(source)
	if err != nil {
		return visible(source, links)
	}
	title = findTitle(doc)
	article, err := extract(doc)
	if err != nil {
		return visible(source, links)
	}
	w := newWriter(links)
	w.node(article)
	if utf8.RuneCountInString(w.text()) < minReadable {
		return visible(source, links)
	}
	return title, w.text(), w.used
}

var (
	errTooComplex = errors.New("page: too many elements")
	errNoArticle  = errors.New("page: no readable part")
)

// parse returns the tree of a page without invisible elements.
func parse(source string) (*html.Node, error) {
	doc, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return nil, err
	}
	elements := 0
	var prune func(n *html.Node, depth int) error
	prune = func(n *html.Node, depth int) error {
		if elements++; elements > maxElements || depth > maxDepth {
			return errTooComplex
		}
		for child := n.FirstChild; child != nil; {
			next := child.NextSibling
			if child.Type == html.CommentNode || child.Type == html.ElementNode && isHidden(child.Data, child.Attr) {
				n.RemoveChild(child)
			} else if err := prune(child, depth+1); err != nil {
				return err
			}
			child = next
		}
		return nil
	}
	return doc, prune(doc, 0)
}

// extract returns the readable part of a tree, which it changes. A hostile page on which
// the library fails counts as one without a readable part.
func extract(doc *html.Node) (node *html.Node, err error) {
	defer func() {
		if recover() != nil {
			node, err = nil, errNoArticle
		}
	}()
	parser := readability.NewParser()
	parser.MaxElemsToParse = maxElements
	parser.DisableJSONLD = true
	article, err := parser.ParseAndMutate(doc, nil)
	switch {
	case err != nil:
		return nil, err
	case article.Node == nil:
		return nil, errNoArticle
	}
	return article.Node, nil
}

// findTitle returns the text of the title element.
func findTitle(n *html.Node) string {
	if n.Type == html.ElementNode && n.Data == "title" && n.Namespace == "" {
		var b strings.Builder
		for child := n.FirstChild; child != nil; child = child.NextSibling {
			if child.Type == html.TextNode {
				b.WriteString(child.Data)
			}
		}
		return b.String()
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		if title := findTitle(child); title != "" {
			return title
		}
	}
	return ""
}

// isHidden reports whether an element is invisible: it is for programs, or marked as
// hidden.
func isHidden(name string, attributes []html.Attribute) bool {
	switch name {
	case "script", "style", "template", "noframes", "iframe", "object", "embed", "audio", "video", "canvas", "svg", "math", "datalist":
		return true
	}
	for _, a := range attributes {
		switch a.Key {
		case "hidden":
			return true
		case "style":
			style := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

// visible returns all visible text of a page, at any depth of nesting.
func visible(source string, links map[string]Link) (title, text string, used []Link) {
	w := newWriter(links)
	z := html.NewTokenizer(strings.NewReader(source))
	var hidden string // the element being skipped
	var depth int     // and how many of its name are open
	var titled strings.Builder
	inTitle := false
	for w.hasRoom() {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		switch token := z.Token(); kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			switch {
			case hidden != "":
				if token.Data == hidden && kind == html.StartTagToken {
					depth++
				}
			case isVoid(token.Data):
				w.open(token.Data, token.Attr)
			case isHidden(token.Data, token.Attr):
				if kind == html.StartTagToken {
					hidden, depth = token.Data, 1
				}
			case token.Data == "title":
				inTitle = title == "" && titled.Len() == 0
			default:
				w.open(token.Data, token.Attr)
				if kind == html.SelfClosingTagToken && token.Data != "p" {
					continue
				}
			}
		case html.EndTagToken:
			switch {
			case hidden != "":
				if token.Data == hidden {
					if depth--; depth == 0 {
						hidden = ""
					}
				}
			case token.Data == "title":
				inTitle = false
			default:
				w.close(token.Data)
			}
		case html.TextToken:
			switch {
			case hidden != "":
			case inTitle:
				titled.WriteString(token.Data)
			default:
				w.write(token.Data)
			}
		}
	}
	return titled.String(), w.text(), w.used
}

func isVoid(name string) bool {
	switch name {
	case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr":
		return true
	}
	return false
}
