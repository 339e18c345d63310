package feed

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
)

const (
	maxEntries = 200     // of a feed
	maxField   = 1 << 20 // bytes of a title or a text
)

// ErrNoFeed says that a text is neither an RSS, an Atom nor a JSON feed.
var ErrNoFeed = errors.New("feed: neither an RSS, an Atom nor a JSON feed")

// Feed is a parsed feed. All of it came from outside.
type Feed struct {
	Title   string // HTML
	Entries []Entry
}

// Entry is one entry. Texts are HTML, as their author wrote it.
type Entry struct {
	ID, Title, Author, Link string
	Text                    string // the content, or the summary if there is none
	Date                    time.Time
}

// Parse parses a raw feed. It tolerates syntax errors. Only the first 200 entries and the
// first MiB of a text are read.
func Parse(contentType string, body []byte) (Feed, error) {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	if strings.HasSuffix(fetch.MediaType(contentType), "json") || bytes.HasPrefix(trimmed, []byte("{")) {
		return parseJSON(trimmed)
	}
	p := parser{decoder: chooseDecoder(contentType, body)}
	p.run(body)
	if !p.found {
		return Feed{}, ErrNoFeed
	}
	return p.feed, nil
}

var declared = regexp.MustCompile(`^(?:\xef\xbb\xbf)?\s*<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)

// chooseDecoder returns the decoder of a character set: that of the type, of the XML
// declaration, otherwise UTF-8 if it is valid.
func chooseDecoder(contentType string, body []byte) *encoding.Decoder {
	start := body[:min(len(body), 1024)]
	found, _, certain := charset.DetermineEncoding(start, contentType)
	if !certain {
		if label := declared.FindSubmatch(start); label != nil {
			if e, _ := charset.Lookup(string(label[1])); e != nil {
				return e.NewDecoder()
			}
		}
		if utf8.Valid(body) {
			return encoding.Nop.NewDecoder()
		}
	}
	return found.NewDecoder()
}

// fields are the parsed elements of an entry, by name: the first non-empty element for
// a field fills it.
var fields = map[string]string{
	"title": "title", "link": "link", "guid": "id", "id": "id", "author": "author", "dc:creator": "author",
	"description": "summary", "summary": "summary", "content": "text", "content:encoded": "text",
	"pubdate": "date", "published": "date", "updated": "updated", "dc:date": "date", "source": "source",
}

// parser parses RSS and Atom, token by token. An HTML tokenizer also reads XML that is
// not well-formed, and adds no dependency.
type parser struct {
	decoder *encoding.Decoder
	feed    Feed
	found   bool              // a root element of a feed
	entry   map[string]string // nil outside of an entry
	element string            // the element whose text is being read, empty outside
	depth   int               // elements of its name inside it
	text    strings.Builder
}

func (p *parser) run(body []byte) {
	z := html.NewTokenizer(bytes.NewReader(body))
	z.AllowCDATA(true)
	for len(p.feed.Entries) < maxEntries {
		kind := z.Next()
		raw := string(z.Raw())
		switch kind {
		case html.ErrorToken:
			p.endEntry() // show an incomplete entry as far as it goes
			return
		case html.TextToken:
			p.add(unescape(raw))
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attributes := z.TagName()
			p.start(string(name), z, attributes, kind == html.SelfClosingTagToken, raw)
		case html.EndTagToken:
			name, _ := z.TagName()
			p.end(string(name), raw)
		}
	}
}

// unescape returns the text in XML: CDATA parts verbatim, and the rest without escapes.
func unescape(raw string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(raw, "<![CDATA[")
		b.WriteString(html.UnescapeString(before))
		if !found {
			return b.String()
		}
		inside, after, _ := strings.Cut(rest, "]]>")
		b.WriteString(inside)
		raw = after
	}
}

func (p *parser) add(text string) {
	if p.element != "" {
		p.text.WriteString(text[:min(len(text), maxField-p.text.Len())])
	}
}

func (p *parser) start(name string, z *html.Tokenizer, attributes, closed bool, raw string) {
	switch {
	case p.element != "": // markup inside a text
		if name == p.element && !closed {
			p.depth++
		}
		p.add(raw)
	case name == "rss" || name == "feed" || name == "rdf:rdf":
		p.found = true
	case name == "item" || name == "entry":
		p.endEntry()
		p.entry = map[string]string{}
	case p.entry == nil && name != "title":
	case name == "link" && p.entry != nil && attributes && p.atomLink(z):
	case fields[name] != "" && !closed:
		p.element, p.depth = name, 0
		p.text.Reset()
	}
}

// atomLink takes the address of a link of Atom, if it is one.
func (p *parser) atomLink(z *html.Tokenizer) bool {
	href, rel := "", "alternate"
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "href":
			href = string(value)
		case "rel":
			rel = string(value)
		}
	}
	if rel == "alternate" {
		p.put("link", href)
	}
	return href != ""
}

func (p *parser) end(name, raw string) {
	switch {
	case p.element != "" && name == p.element && p.depth == 0:
		text := p.text.String()
		p.element = ""
		if p.entry != nil {
			p.put(fields[name], text)
		} else if p.feed.Title == "" && len(p.feed.Entries) == 0 {
			p.feed.Title = p.decode(text)
		}
	case p.element != "":
		if name == p.element {
			p.depth--
		}
		if name == "item" || name == "entry" { // the element was never closed
			p.element = ""
			p.endEntry()
			return
		}
		p.add(raw)
	case name == "item" || name == "entry":
		p.endEntry()
	}
}

func (p *parser) put(field, text string) {
	if text = strings.TrimSpace(text); text != "" && p.entry[field] == "" {
		p.entry[field] = p.decode(text)
	}
}

func (p *parser) decode(text string) string {
	decoded, err := p.decoder.String(text)
	if err != nil {
		decoded = text
	}
	return strings.ToValidUTF8(decoded, "\ufffd")
}

func (p *parser) endEntry() {
	e := p.entry
	p.entry, p.element = nil, ""
	if len(e) == 0 || len(p.feed.Entries) == maxEntries {
		return
	}
	p.feed.Entries = append(p.feed.Entries, Entry{
		ID: e["id"], Title: e["title"], Author: e["author"], Link: e["link"], Text: first(e["text"], e["summary"]), Date: parseDate(first(e["date"], e["updated"])),
	})
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// dates are the date formats of feeds.
var dates = []string{
	time.RFC3339, "2006-01-02T15:04:05", time.DateOnly,
	"Mon, 2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04:05 MST", "Mon, 2 Jan 2006 15:04 -0700", "Mon, 2 Jan 06 15:04:05 -0700",
}

// parseDate parses a time; an invalid one is zero.
func parseDate(text string) time.Time {
	for _, form := range dates {
		if t, err := time.Parse(form, strings.TrimSpace(text)); err == nil && t.Year() > 0 && t.Year() < 10_000 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// parseJSON reads a JSON feed, versions 1 and 1.1.
func parseJSON(body []byte) (Feed, error) {
	type author struct {
		Name string `json:"name"`
	}
	var f struct {
		Version string `json:"version"`
		Title   string `json:"title"`
		Items   []struct {
			ID       jsontext.Value `json:"id"` // a text; some write a number
			URL      string         `json:"url"`
			Title    string         `json:"title"`
			HTML     string         `json:"content_html"`
			Text     string         `json:"content_text"`
			Summary  string         `json:"summary"`
			Date     string         `json:"date_published"`
			Modified string         `json:"date_modified"`
			Author   author         `json:"author"`
			Authors  []author       `json:"authors"`
		} `json:"items"`
	}
	err := json.Unmarshal(body, &f, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil || !strings.HasPrefix(f.Version, "https://jsonfeed.org/version/1") {
		return Feed{}, ErrNoFeed
	}
	cut := func(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxField)], "\ufffd") }
	feed := Feed{Title: cut(html.EscapeString(f.Title))}
	for _, item := range f.Items[:min(len(f.Items), maxEntries)] {
		name := item.Author.Name
		if len(item.Authors) > 0 {
			name = item.Authors[0].Name
		}
		plain := first(item.Text, item.Summary)
		feed.Entries = append(feed.Entries, Entry{
			ID: cut(string(item.ID)), Title: cut(html.EscapeString(item.Title)), Author: cut(html.EscapeString(name)), Link: cut(item.URL),
			Text: cut(first(item.HTML, strings.ReplaceAll(html.EscapeString(plain), "\n", "<br>"))), Date: parseDate(first(item.Date, item.Modified)),
		})
	}
	return feed, nil
}
