package web

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/bcpmesh/bcpmesh/agents/decode"
)

const (
	maxEntries = 200     // of a feed
	maxField   = 1 << 20 // bytes of a title or a text
)

// ErrNoFeed says that a text is neither an RSS nor an Atom feed.
var ErrNoFeed = errors.New("web: neither an RSS nor an Atom feed")

// Feed is a parsed feed. All of it came from outside.
type Feed struct {
	Title   string // HTML
	Entries []Entry
	More    int // entries past the limit, which are left out
	Defects []Defect
}

// The defects of a feed that a page has not.
const (
	BadStructure Defect = "bad_structure" // it is not well-formed: what is read of it may be incomplete
	BadDate      Defect = "bad_date"      // an entry has a date that is none, or whose zone is not known
)

// Entry is one entry. Texts are HTML, as their author wrote it.
type Entry struct {
	ID, Title, Author, Link string
	Text                    string // the content, or the summary if there is none
	Summary                 string // if Text is the content
	Date                    time.Time
	Written                 string // the date as it is written, if Date is not certain
}

// ParseFeed parses a raw feed. It tolerates syntax errors. Only the first 200 entries and the
// first MiB of a text are read.
func ParseFeed(contentType string, body []byte) (Feed, error) {
	text, sound := decode.HTML(body, decode.Label(contentType))
	p := parser{}
	p.feed.mark(!sound, BadCharset)
	p.run(text)
	if !p.found {
		return Feed{}, ErrNoFeed
	}
	return p.feed, nil
}

func (f *Feed) mark(holds bool, d Defect) {
	if holds && !slices.Contains(f.Defects, d) {
		f.Defects = append(f.Defects, d)
	}
}

// add adds an entry with its date, or counts it.
func (f *Feed) add(e Entry, date string) {
	if len(f.Entries) == maxEntries {
		f.More++
		f.mark(true, TooLarge)
		return
	}
	if date = strings.TrimSpace(date); date != "" {
		t, exact, ok := decode.Date(date)
		if ok {
			e.Date = t
		}
		if !ok || !exact {
			e.Written = date
			f.mark(true, BadDate)
		}
	}
	f.Entries = append(f.Entries, e)
}

// fields are the parsed elements of an entry, by name: the first non-empty element for
// a field fills it, and authors are joined.
var fields = map[string]string{
	"title": "title", "link": "link", "guid": "id", "id": "id", "author": "author", "dc:creator": "author",
	"description": "summary", "summary": "summary", "content": "text", "content:encoded": "text",
	"pubdate": "date", "published": "date", "updated": "updated", "dc:date": "date", "source": "source",
}

// parser parses RSS and Atom, token by token. An HTML tokenizer also reads XML that is
// not well-formed, and adds no dependency.
type parser struct {
	feed    Feed
	found   bool              // a root element of a feed
	entry   map[string]string // nil outside of an entry
	element string            // the element whose text is being read, empty outside
	depth   int               // elements of its name inside it
	text    strings.Builder
}

func (p *parser) run(text string) {
	z := html.NewTokenizer(strings.NewReader(text))
	z.AllowCDATA(true)
	for {
		kind := z.Next()
		raw := string(z.Raw())
		switch kind {
		case html.ErrorToken:
			p.endEntry(false) // show an incomplete entry as far as it goes
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
	if p.element == "" {
		return
	}
	if room := maxField - p.text.Len(); len(text) > room {
		p.feed.mark(true, TooLarge)
		text = strings.ToValidUTF8(text[:room], "")
	}
	p.text.WriteString(text)
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
		p.endEntry(false)
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
			p.feed.Title = text
		}
	case p.element != "":
		if name == p.element {
			p.depth--
		}
		if name == "item" || name == "entry" { // the element was never closed
			p.endEntry(true)
			return
		}
		p.add(raw)
	case name == "item" || name == "entry":
		p.endEntry(true)
	}
}

func (p *parser) put(field, text string) {
	text = strings.TrimSpace(text)
	switch have := p.entry[field]; {
	case text == "":
	case have == "":
		p.entry[field] = text
	case field == "author":
		p.entry[field] = have + ", " + text
	case field == "title" || field == "summary" || field == "text":
		p.feed.mark(text != have, BadStructure)
	}
}

// endEntry ends an entry, if there is one: at its end tag, or where something else shows that it has ended.
func (p *parser) endEntry(closed bool) {
	e, element := p.entry, p.element
	if e != nil && element != "" { // that was never closed
		p.put(fields[element], p.text.String())
	}
	p.feed.mark(e != nil && (!closed || element != ""), BadStructure)
	p.entry, p.element = nil, ""
	if len(e) == 0 {
		return
	}
	entry := Entry{ID: e["id"], Title: e["title"], Author: e["author"], Link: e["link"], Text: cmp.Or(e["text"], e["summary"])}
	if e["text"] != "" {
		entry.Summary = e["summary"]
	}
	p.feed.add(entry, cmp.Or(e["date"], e["updated"]))
}
