package page

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/transform"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
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

// Options say how a page is read.
type Options struct {
	MaxChars int  // code points of the text; 0 means DefaultChars, and more than MaxChars means MaxChars
	Whole    bool // all visible text, not only the readable part
	Set      guard.Set
}

// Page is the result for an agent. All of it came from outside: it must be fenced in a
// prompt.
type Page struct {
	Title     string
	Text      string // cleaned and redacted
	Links     []Link // in the order of their numbers in the text, from 1
	Truncated bool
}

// Link is a link of a page. An agent asks for it by its position in the body, and the
// fetcher cuts the bytes there itself, so an agent cannot invent a link.
type Link struct {
	URL        string // canonical, and redacted
	Start, End int    // the value of the attribute, in the bytes of the body
}

// Read converts a body to text. The error is content_type for a body that is not text.
func Read(body fetch.Body, o Options) (Page, error) {
	if !fetch.IsText(body.ContentType, body.Bytes) {
		return Page{}, guard.BadContentType
	}
	var p Page
	text := decode(body)
	if isHTML(body.ContentType) {
		links := findLinks(body)
		if !o.Whole {
			p.Title, text, p.Links = readable(text, links)
		} else {
			p.Title, text, p.Links = visible(text, links)
		}
	}
	p.Title, _ = cut(strings.Join(strings.Fields(guard.Clean(p.Title)), " "), Options{MaxChars: maxTitle, Set: o.Set})
	for i := range p.Links {
		p.Links[i].URL = guard.Redact(p.Links[i].URL, o.Set)
	}
	text = guard.Clean(text)
	if isHTML(body.ContentType) {
		text = strings.Trim(text, "\n ")
	}
	p.Text, p.Truncated = cut(text, o)
	return p, nil
}

// isHTML reports whether a body is HTML by its type.
func isHTML(contentType string) bool {
	media := fetch.MediaType(contentType)
	return media == "text/html" || media == "application/xhtml+xml"
}

// decode returns the body in UTF-8. The character set is found as in the standard for
// browsers: a byte order mark, the type, an element of the page, otherwise UTF-8 if it is
// valid. JSON is always UTF-8.
func decode(body fetch.Body) string {
	contentType := body.ContentType
	if media := fetch.MediaType(contentType); strings.HasSuffix(media, "json") {
		contentType = media + "; charset=utf-8"
	}
	encoding, name, _ := charset.DetermineEncoding(body.Bytes[:min(len(body.Bytes), 1024)], contentType)
	if name == "utf-8" {
		return string(body.Bytes)
	}
	decoded, _, err := transform.Bytes(encoding.NewDecoder(), body.Bytes)
	if err != nil {
		return string(body.Bytes)
	}
	return string(decoded)
}

// cut redacts text and cuts it to the requested number of code points. The text after the
// cut is included in redaction, so that a secret across it is hidden whole.
func cut(text string, o Options) (result string, truncated bool) {
	chars := o.MaxChars
	switch {
	case chars <= 0:
		chars = DefaultChars
	case chars > MaxChars:
		chars = MaxChars
	}
	at := 0
	for ; chars > 0 && at < len(text); chars-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	if at == len(text) {
		return guard.Redact(text, o.Set), false
	}
	return guard.RedactTo(text[:min(len(text), at+lookahead)], at, o.Set), true
}
