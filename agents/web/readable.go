package web

import (
	"errors"
	"unicode/utf8"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"

	"github.com/bcpmesh/bcpmesh/agents/decode"
)

const (
	maxElements = 50_000 // of a page, to look for its readable part
	// minReadable is how many code points a readable part has at least. A shorter page is read whole.
	minReadable = 250
)

// readable returns the readable part of a tree, which it changes, as text; false if it is not found.
func readable(root *html.Node, n *numbers) (text string, ok bool) {
	elements := 0
	for below := range root.Descendants() {
		if below.Type == html.ElementNode {
			elements++
		}
	}
	if elements > maxElements {
		return "", false
	}
	article, err := extract(root)
	if err != nil {
		return "", false
	}
	w := decode.NewWriter(n.number)
	w.Node(article)
	return w.Text(), utf8.RuneCountInString(w.Text()) >= minReadable
}

var errNoArticle = errors.New("web: no readable part")

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
