package web

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// FeedsName is the name of all tools for feeds in a definition.
const FeedsName = "feeds"

// The names of the tools.
const (
	FeedsListName = "feeds_list"
	FeedsReadName = "feeds_read"
)

const (
	pageLength = 50 // entries of one listing
	// maxKept is how many bytes of entries a conversation keeps. The oldest are forgotten first.
	maxKept = 16 << 20
)

type listArguments struct {
	Feed  *int `json:"feed"`
	After *int `json:"after"`
}

const listSchema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"feed":{"type":"integer","minimum":1,"description":"The number of a feed, which is fetched. Without it: the feeds that there are."},` +
	`"after":{"type":"integer","minimum":1,"description":"The number of the last entry of the listing that is to go on. Nothing is fetched."}}}`

type readArguments struct {
	Entry int  `json:"entry"`
	Part  *int `json:"part"`
}

const readSchema = `{"type":"object","additionalProperties":false,"required":["entry"],"properties":{` +
	`"entry":{"type":"integer","minimum":1,"description":"The number of an entry that was listed."},` +
	`"part":{"type":"integer","minimum":1,"description":"A long text has parts of 100,000 characters. 1 if it is left out."}}}`

// FeedTools returns the tools of one conversation, for feeds fetched by f. Numbers are those
// of the conversation. redact is applied to everything from outside.
func FeedTools(feeds []string, f fetch.Fetcher, redact guard.Set) []llm.Executable {
	d := &feedDesk{feeds: feeds, fetcher: f, redact: redact, listings: map[int][]int{}, numbers: map[[sha256.Size]byte]int{}}
	return []llm.Executable{
		tool.New(tool.Tool[listArguments]{
			Name: FeedsListName, Description: llm.Constant("List the feeds, or the entries of a feed. Each has a number, by which other tools know it."),
			Schema: jsontext.Value(listSchema), Source: guard.Feed, Lock: &d.mu, Run: d.list, Permit: d.permit,
		}),
		tool.New(tool.Tool[readArguments]{
			Name: FeedsReadName, Description: llm.Constant("Read an entry of a feed."),
			Schema: jsontext.Value(readSchema), Source: guard.Feed, Lock: &d.mu, Run: d.read,
		}),
	}
}

// numbered is an entry with the index of its feed.
type numbered struct {
	feed int
	Entry
	forgotten bool
}

func (n *numbered) size() int {
	return len(n.ID) + len(n.Title) + len(n.Author) + len(n.Link) + len(n.Text) + len(n.Summary) + len(n.Written)
}

// feedDesk is the state of one conversation. Its calls run one at a time.
type feedDesk struct {
	feeds   []string
	fetcher fetch.Fetcher
	redact  guard.Set

	mu       sync.Mutex
	entries  []numbered // by number, less 1
	numbers  map[[sha256.Size]byte]int
	listings map[int][]int // of a feed as it was fetched last: the numbers of its entries
	kept     int           // bytes of entries
	oldest   int           // of the kept entries
}

// ask returns what a listing must fetch, and false for nothing.
func (d *feedDesk) ask(a listArguments) (fetch.Ask, bool) {
	if a.Feed == nil || a.After != nil || *a.Feed < 1 || *a.Feed > len(d.feeds) {
		return fetch.Ask{}, false
	}
	return fetch.Ask{URL: d.feeds[*a.Feed-1]}, true
}

func (d *feedDesk) permit(a listArguments) error {
	if ask, fetches := d.ask(a); fetches {
		return d.fetcher.Permit(ask)
	}
	return nil
}

// list is feeds_list.
func (d *feedDesk) list(ctx context.Context, a listArguments) (string, error) {
	var b strings.Builder
	switch {
	case a.Feed == nil && a.After != nil:
		return "", tool.BadArguments
	case a.Feed == nil:
		for i, url := range d.feeds {
			fmt.Fprintf(&b, "%d feed %s\n", i+1, tool.Quote(url, d.redact))
		}
		return b.String(), nil
	case *a.Feed < 1 || *a.Feed > len(d.feeds):
		return "", tool.UnknownNumber
	}
	feed, title, notes := *a.Feed-1, "", ""
	if ask, fetches := d.ask(a); fetches {
		served, err := d.fetcher.Fetch(ctx, ask)
		if err != nil {
			return "", fetch.CodeOf(err)
		}
		if err := tool.Reading(ctx, served.Bytes); err != nil {
			return "", err
		}
		parsed, err := ParseFeed(served.ContentType, served.Bytes)
		if err != nil {
			return "", tool.Unreadable
		}
		title = " " + d.line(parsed.Title)
		for _, defect := range parsed.Defects {
			notes += "Defect: " + string(defect) + "\n"
		}
		if parsed.More > 0 {
			notes += fmt.Sprintf("Entries that are not read: %d\n", parsed.More)
		}
		d.numberEntries(feed, parsed.Entries)
	}
	listed := d.listings[feed]
	all := len(listed)
	if a.After != nil {
		for len(listed) > 0 && listed[0] != *a.After {
			listed = listed[1:]
		}
		if len(listed) == 0 {
			return "", tool.UnknownNumber
		}
		listed = listed[1:]
	}
	fmt.Fprintf(&b, "Feed %d%s has %d entries.\n%s", *a.Feed, title, all, notes)
	for _, number := range listed[:min(len(listed), pageLength)] {
		e := &d.entries[number-1]
		if e.forgotten {
			continue
		}
		fmt.Fprintf(&b, "%d %s %s\n", number, tool.Day(e.Date), d.line(e.Title))
	}
	if len(listed) > pageLength {
		fmt.Fprintf(&b, "There are more after %d.\n", listed[pageLength-1])
	}
	return b.String(), nil
}

// numberEntries numbers the entries of a feed. An entry keeps its number in the
// conversation as long as its text is the same.
func (d *feedDesk) numberEntries(feed int, entries []Entry) {
	var listing []int
	for _, e := range entries {
		key := sha256.Sum256(fmt.Appendf(nil, "%d %q %q %q %q %q %q", feed, e.ID, e.Link, e.Author, e.Title, e.Text+e.Summary, e.Written+e.Date.String()))
		n, known := d.numbers[key]
		if !known || d.entries[n-1].forgotten {
			d.entries = append(d.entries, numbered{feed: feed, Entry: e})
			n = len(d.entries)
			d.numbers[key] = n
			d.kept += d.entries[n-1].size()
		}
		if !slices.Contains(listing, n) { // a feed may say the same twice
			listing = append(listing, n)
		}
	}
	d.listings[feed] = listing
	for ; d.kept > maxKept; d.oldest++ {
		e := &d.entries[d.oldest]
		d.kept -= e.size()
		*e = numbered{forgotten: true}
	}
}

// read is feeds_read.
func (d *feedDesk) read(ctx context.Context, a readArguments) (string, error) {
	if a.Entry < 1 || a.Entry > len(d.entries) {
		return "", tool.UnknownNumber
	}
	e := &d.entries[a.Entry-1]
	if e.forgotten {
		return "", tool.Gone
	}
	if err := tool.Reading(ctx, []byte(e.Text)); err != nil {
		return "", err
	}
	read, err := d.html(e.feed, e.Text)
	if err != nil {
		return "", err
	}
	var whole strings.Builder
	whole.WriteString(read.Text)
	for i, link := range read.Links {
		if i == 0 {
			whole.WriteString("\n")
		}
		fmt.Fprintf(&whole, "\n[%d] %s", i+1, link.URL)
	}
	part := tool.Number(a.Part)
	shown, parts, err := tool.NewText(whole.String(), d.redact).Part(part)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Entry %d of feed %d\nTitle: %s\n", a.Entry, e.feed+1, d.line(e.Title))
	if e.Author != "" {
		fmt.Fprintf(&b, "Author: %s\n", d.line(e.Author))
	}
	if !e.Date.IsZero() {
		fmt.Fprintf(&b, "Date: %s\n", e.Date.Format(time.RFC3339))
	}
	if e.Written != "" {
		fmt.Fprintf(&b, "Date as it is written: %s\n", tool.Quote(e.Written, d.redact))
	}
	if e.Summary != "" {
		fmt.Fprintf(&b, "Summary: %s\n", d.line(e.Summary))
	}
	for _, note := range read.Notes() {
		b.WriteString(note + "\n")
	}
	if e.Link != "" {
		fmt.Fprintf(&b, "Link: %s\n", tool.Quote(e.Link, d.redact))
	}
	fmt.Fprintf(&b, "Text, part %d of %d:\n\n%s", part, parts, shown)
	return b.String(), nil
}

// html returns what is visible of HTML.
func (d *feedDesk) html(feed int, source string) (Page, error) {
	target, err := guard.ParseTarget(d.feeds[feed])
	if err != nil {
		return Page{}, tool.Unreadable
	}
	read, err := Read(fetch.Body{Target: target, ContentType: "text/html; charset=utf-8", Bytes: []byte(source)}, ReadOptions{Whole: true, MaxChars: MaxChars, Set: d.redact})
	if err != nil {
		return Page{}, tool.Unreadable
	}
	return read, nil
}

// line returns a short text in HTML on one line, between quotes.
func (d *feedDesk) line(source string) string {
	text := source
	if read, err := d.html(0, source); err == nil {
		text = read.Text
	}
	return tool.Quote(strings.Join(strings.Fields(text), " "), d.redact)
}
