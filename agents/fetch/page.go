package fetch

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"

	"github.com/bcpmesh/bcpmesh/agents/decode"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	// DefaultChars is how many code points of a page an agent reads if it does not say.
	DefaultChars = 100_000
	// MaxChars is how many it may ask for.
	MaxChars = 400_000

	maxTitle  = 300      // code points of a title
	lookahead = 64 << 10 // bytes after the cut in which a secret is seen whole
)

// ReadOptions say how a page is read.
type ReadOptions struct {
	MaxChars int  // code points of the text; 0 means DefaultChars, and more than MaxChars means MaxChars
	Whole    bool // all visible text, not only the readable part
}

// Page is the result for an agent. All of it came from outside: it must be fenced in a
// prompt.
type Page struct {
	Title     string
	Text      string // cleaned and redacted
	Links     []Link // in the order of their numbers in the text, from 1
	Truncated bool
	// Hidden is how many code points a person does not see. They are not in Text.
	Hidden  int
	Defects []Defect
}

// Defect is a stable code for what may be wrong with the text of a page.
type Defect string

// The closed list of defects.
const (
	BadCharset Defect = "bad_charset" // the character set was guessed, or has not all of the bytes
	TooLarge   Defect = "too_large"   // the end was not read
	TooDeep    Defect = "too_deep"    // what was nested too deep, and what came after it, is left out
	TooComplex Defect = "too_complex" // hidden text may be in the text
)

// Link is a link of a page. An agent asks for it by its position in the body, and the
// fetcher cuts the bytes there itself, so an agent cannot invent a link.
type Link struct {
	URL        string // canonical, and redacted
	Start, End int    // the value of the attribute, in the bytes of the body
}

// ReadPage converts a body to text. The error is content_type for a body that is not text.
func ReadPage(body Body, o ReadOptions) (Page, error) {
	if !IsText(body.ContentType, body.Bytes) {
		return Page{}, guard.BadContentType
	}
	if strings.TrimSpace(body.ContentType) == "" && beginsAsHTML.Match(body.Bytes[:min(len(body.Bytes), 1<<10)]) {
		body.ContentType = "text/html" // as a browser takes it: otherwise what it hides would be read
	}
	var p Page
	text, sound := decoded(body)
	p.note(!sound, BadCharset)
	if isHTML(body.ContentType) {
		text = p.html(text, body, o)
	}
	p.Title, _ = cut(strings.Join(strings.Fields(guard.Clean(p.Title)), " "), ReadOptions{MaxChars: maxTitle})
	for i := range p.Links {
		p.Links[i].URL = guard.Redact(p.Links[i].URL, guard.All)
	}
	text = guard.Clean(text)
	if isHTML(body.ContentType) {
		text = strings.Trim(text, "\n ")
	}
	p.Text, p.Truncated = cut(text, o)
	return p, nil
}

// Notes says in lines what a reader of the text should know of it: how much is hidden, and
// what may be wrong.
func (p *Page) Notes() (lines []string) {
	if p.Hidden > 0 {
		lines = append(lines, fmt.Sprintf("Hidden: %d characters that a person does not see, and that are not shown", p.Hidden))
	}
	for _, d := range p.Defects {
		lines = append(lines, "Defect: "+string(d))
	}
	return lines
}

func (p *Page) note(holds bool, d Defect) {
	if holds {
		p.Defects = append(p.Defects, d)
	}
}

// html returns the text of a page in HTML, and fills in everything else.
func (p *Page) html(source string, body Body, o ReadOptions) (text string) {
	doc := decode.Parse(source, decode.Options{XML: mediaType(body.ContentType) == "application/xhtml+xml"})
	p.Title = doc.Title
	for _, piece := range doc.Hidden {
		p.Hidden += utf8.RuneCountInString(piece)
	}
	p.note(doc.Cut, TooLarge)
	p.note(doc.TooDeep, TooDeep)
	p.note(doc.Complex, TooComplex)
	links := findLinks(body)
	write := func(root *html.Node) (text string, used []Link) {
		var numbers tool.Numbers[Link]
		text = decode.Write(root, func(href string) int {
			if link, ok := links[href]; ok {
				return numbers.Of(link)
			}
			return 0
		})
		return text, numbers.Shown
	}
	text, p.Links = write(doc.Root)
	if o.Whole {
		return text
	}
	if article := readable(doc.Root); article != nil {
		if part, used := write(article); utf8.RuneCountInString(part) >= minReadable {
			text, p.Links = part, used
		}
	}
	return text
}

var beginsAsHTML = regexp.MustCompile(`(?is)^\x{feff}?\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body|title|meta|div|p|h1|table)\b`)

// isHTML reports whether a body is HTML by its type.
func isHTML(contentType string) bool {
	media := mediaType(contentType)
	return media == "text/html" || media == "application/xhtml+xml"
}

// decoded returns the body in UTF-8, and whether that is certain. JSON is always UTF-8.
func decoded(body Body) (text string, sound bool) {
	switch media := mediaType(body.ContentType); {
	case strings.HasSuffix(media, "json"):
		return decode.Text(body.Bytes, "utf-8")
	case isHTML(media), strings.HasSuffix(media, "xml"):
		return decode.HTML(body.Bytes, decode.Label(body.ContentType))
	}
	return decode.Text(body.Bytes, decode.Label(body.ContentType))
}

// cut redacts text and cuts it to the requested number of code points. The text after the
// cut is included in redaction, so that a secret across it is hidden whole.
func cut(text string, o ReadOptions) (result string, truncated bool) {
	left := min(cmp.Or(max(0, o.MaxChars), DefaultChars), MaxChars)
	for at := range text {
		if left--; left < 0 {
			return guard.RedactTo(text[:min(len(text), at+lookahead)], at, guard.All), true
		}
	}
	return guard.Redact(text, guard.All), false
}

const (
	maxElements = 50_000 // of a page, to look for its readable part
	// minReadable is how many code points a readable part has at least. A shorter page is read whole.
	minReadable = 250
)

// readable returns the readable part of a tree, which it changes, or nil. A hostile page on which
// the library fails counts as one without a readable part.
func readable(doc *html.Node) (node *html.Node) {
	elements := 0
	for below := range doc.Descendants() {
		if below.Type == html.ElementNode {
			elements++
		}
	}
	if elements > maxElements {
		return nil
	}
	defer func() {
		if recover() != nil {
			node = nil
		}
	}()
	parser := readability.NewParser()
	parser.MaxElemsToParse = maxElements
	parser.DisableJSONLD = true
	article, err := parser.ParseAndMutate(doc, nil)
	if err != nil {
		return nil
	}
	return article.Node
}
