package web

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

const rss = `<?xml version="1.0"?><rss version="2.0" xmlns:content="x"><channel><title>News &amp; more</title><link>https://a.test/</link>
<item><title><![CDATA[A < B]]></title><link>https://a.test/1?x=1&amp;y=2</link><guid>g1</guid><pubDate>Mon, 02 Mar 2026 08:05:10 +0100</pubDate>
<description>short</description><content:encoded><![CDATA[<p>Long &amp; <b>bold</b>.</p>]]></content:encoded><source><title>other</title></source></item>
<item><title>two</title><description>&lt;p&gt;escaped&lt;/p&gt;</description></item></channel></rss>`

const atom = `<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">News</title><link rel="self" href="https://a.test/feed"/>
<entry><id>1</id><title type="html">One &amp;lt;1&amp;gt;</title><link rel="enclosure" href="https://a.test/x.mp3"/><link href="https://a.test/1"/><updated>2026-03-02T08:05:10Z</updated>
<author><name>Ann</name></author><summary>s</summary><content type="xhtml"><div>Hello <div>inner</div></div></content></entry></feed>`

func TestParse(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 2, 8, 5, 10, 0, time.UTC)
	for name, c := range map[string]struct {
		contentType, body string
		want              Feed
	}{
		"rss": {"application/rss+xml", rss, Feed{Title: "News & more", Entries: []Entry{
			{ID: "g1", Title: "A < B", Link: "https://a.test/1?x=1&y=2", Text: "<p>Long &amp; <b>bold</b>.</p>", Summary: "short", Date: at.Add(-time.Hour)},
			{Title: "two", Text: "<p>escaped</p>"},
		}}},
		"atom": {"text/xml", atom, Feed{Title: "News", Entries: []Entry{
			{ID: "1", Title: "One &lt;1&gt;", Author: "<name>Ann</name>", Link: "https://a.test/1", Text: "<div>Hello <div>inner</div></div>", Summary: "s", Date: at},
		}}},
		"latin":        {"text/xml", "<?xml version='1.0' encoding='iso-8859-1'?><rss><item><title>caf\xe9</title></item></rss>", Feed{Entries: []Entry{{Title: "café"}}}},
		"cut off":      {"text/xml", "<rss><item><title>one</title><description>half", Feed{Entries: []Entry{{Title: "one", Text: "half"}}, Defects: []Defect{BadStructure}}},
		"never closed": {"text/xml", "<rss><item><title>one</title><description>x</item><item><title>two</title></item></rss>", Feed{Entries: []Entry{{Title: "one", Text: "x"}, {Title: "two"}}, Defects: []Defect{BadStructure}}},
		"late UTF-8":   {"text/xml", "<!--" + strings.Repeat(" ", 2000) + "--><rss><item><title>café</title></item></rss>", Feed{Entries: []Entry{{Title: "café"}}}},
		"guessed":      {"text/xml", "<rss><item><title>caf\xe9</title></item></rss>", Feed{Entries: []Entry{{Title: "café"}}, Defects: []Defect{BadCharset}}},
		"zones":        {"text/xml", "<rss><item><pubDate>Mon, 2 Mar 2026 03:05:10 EST</pubDate></item><item><pubDate>Mon, 2 Mar 2026 08:05:10</pubDate></item><item><pubDate>soon</pubDate></item></rss>", Feed{Entries: []Entry{{Date: at}, {Date: at, Written: "Mon, 2 Mar 2026 08:05:10"}, {Written: "soon"}}, Defects: []Defect{BadDate}}},
	} {
		got, err := ParseFeed(c.contentType, []byte(c.body))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	for _, body := range []string{"", "<html><title>x</title></html>", `{"version":"https://jsonfeed.org/version/1","items":[]}`, "plain", "\x00"} {
		if got, err := ParseFeed("text/xml", []byte(body)); err != ErrNoFeed {
			t.Errorf("%q is %+v, %v", body, got, err)
		}
	}
	for past := range 2 {
		got, err := ParseFeed("text/xml", []byte("<rss>"+strings.Repeat("<item><title>x</title></item>", maxEntries+past)+"</rss>"))
		if err != nil || len(got.Entries) != maxEntries || got.More != past {
			t.Errorf("%d entries and %d more of %d", len(got.Entries), got.More, maxEntries+past)
		}
		got, _ = ParseFeed("text/xml", []byte("<rss><item><description>"+strings.Repeat("x", maxField+past)+"</description></item></rss>"))
		if len(got.Entries[0].Text) != maxField || slices.Contains(got.Defects, TooLarge) != (past > 0) {
			t.Errorf("%d bytes, %v", len(got.Entries[0].Text), got.Defects)
		}
	}
}

// served is a [fetch.Fetcher] with bodies by URL. What it has not is denied.
type served struct {
	bodies map[string]string
	asked  []string
}

func (s *served) Permit(a fetch.Ask) error {
	if _, ok := s.bodies[a.URL]; !ok {
		return guard.HostDenied
	}
	return nil
}

func (s *served) Fetch(_ context.Context, a fetch.Ask) (fetch.Served, error) {
	s.asked = append(s.asked, a.URL)
	target, err := guard.ParseTarget(a.URL)
	if err != nil || s.Permit(a) != nil {
		return fetch.Served{}, guard.HostDenied
	}
	return fetch.Served{Page: len(s.asked), Body: fetch.Body{Target: target, ContentType: "text/xml", Bytes: []byte(s.bodies[a.URL])}}, nil
}

func talk(t *testing.T, feeds []string, f fetch.Fetcher) func(name, arguments string) llm.Output {
	tools := FeedTools(feeds, f, guard.All)
	return func(name, arguments string) llm.Output {
		t.Helper()
		i := slices.IndexFunc(tools, func(e llm.Executable) bool { return e.Name == name })
		o := tools[i].Run(context.Background(), jsontext.Value(arguments))
		if !o.Failed && (o.Source != guard.Feed || o.Trusted.Text() != "") {
			t.Errorf("%s %s: %+v", name, arguments, o)
		}
		return o
	}
}

// Feeds are fetched by number alone, entries are read from what was fetched, and keep their numbers when the feed changes.
//
// covers ALF-12
func TestTools(t *testing.T) {
	t.Parallel()
	const secret = "sk-ant-" + "abcdefghijklmnop"
	f := &served{bodies: map[string]string{"https://a.test/rss": rss, "https://b.test/atom": atom, "https://c.test/x": "<html>"}}
	call := talk(t, []string{"https://a.test/rss", "https://b.test/atom", "https://c.test/x", "https://denied.test/"}, f)
	for _, step := range []struct{ tool, arguments, want string }{
		{FeedsListName, `{}`, "1 feed \"https://a.test/rss\"\n2 feed \"https://b.test/atom\"\n3 feed \"https://c.test/x\"\n4 feed \"https://denied.test/\"\n"},
		{FeedsListName, `{"feed":1}`, "Feed 1 \"News & more\" has 2 entries.\n1 2026-03-02 \"A < B\"\n2 undated \"two\"\n"},
		{FeedsReadName, `{"entry":1}`, "Entry 1 of feed 1\nTitle: \"A < B\"\nDate: 2026-03-02T08:05:10+01:00\nSummary: \"short\"\nLink: \"https://a.test/1?x=1&y=2\"\nText, part 1 of 1:\n\nLong & bold."},
		{FeedsListName, `{"feed":2}`, "Feed 2 \"News\" has 1 entries.\n3 2026-03-02 \"One <1>\"\n"},
		{FeedsReadName, `{"entry":3}`, "Entry 3 of feed 2\nTitle: \"One <1>\"\nAuthor: \"Ann\"\nDate: 2026-03-02T08:05:10Z\nSummary: \"s\"\nLink: \"https://a.test/1\"\nText, part 1 of 1:\n\nHello\ninner"},
	} {
		if got := call(step.tool, step.arguments); got.Failed || got.Untrusted != step.want {
			t.Errorf("%s %s: %s\n%s", step.tool, step.arguments, got.Trusted.Text(), got.Untrusted)
		}
	}
	if len(f.asked) != 2 {
		t.Errorf("it fetched %v", f.asked)
	}
	f.bodies["https://a.test/rss"] = "<rss><item><title>new\n9 undated " + secret + "</title></item>" + rss[strings.Index(rss, "<item>"):]
	listed := call(FeedsListName, `{"feed":1}`).Untrusted
	if want := "Feed 1 \"\" has 3 entries.\n4 undated \"new 9 undated [REDACTED:anthropic-key]\"\n1 2026-03-02 \"A < B\"\n2 "; !strings.HasPrefix(listed, want) {
		t.Error(listed)
	}
	for arguments, want := range map[string]string{
		`{"feed":3}`: tool.Unreadable.Error(), `{"feed":4}`: llm.Failure(guard.HostDenied, 0).Text(), `{"feed":5}`: tool.UnknownNumber.Error(), `{"feed":1,"after":9}`: tool.UnknownNumber.Error(),
		`{"feed":"https://evil.test/"}`: tool.BadArguments.Error(), `{"after":1}`: tool.BadArguments.Error(),
	} {
		if o := call(FeedsListName, arguments); !o.Failed || o.Trusted.Text() != want {
			t.Errorf("%s: %+v %s", arguments, o, o.Trusted.Text())
		}
	}
	for arguments, want := range map[string]tool.Failure{`{"entry":5}`: tool.UnknownNumber, `{"entry":1,"part":2}`: tool.NoSuchPart} {
		if o := call(FeedsReadName, arguments); o.Trusted.Text() != want.Error() {
			t.Errorf("%s: %s", arguments, o.Trusted.Text())
		}
	}
}

// A listing has a page of entries; a conversation keeps no more of feeds than it may, and forgets the oldest.
func TestLimits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("<rss>")
	for i := range pageLength + 1 {
		fmt.Fprintf(&b, "<item><title>%d</title></item>", i)
	}
	f := &served{bodies: map[string]string{"https://a.test/": b.String() + "<item><title>0</title></item>"}}
	call := talk(t, []string{"https://a.test/"}, f)
	if listed := call(FeedsListName, `{"feed":1}`).Untrusted; strings.Count(listed, "\n") != pageLength+2 || !strings.HasSuffix(listed, "There are more after 50.\n") {
		t.Error(listed)
	}
	if listed := call(FeedsListName, `{"feed":1,"after":50}`).Untrusted; listed != "Feed 1 has 51 entries.\n51 undated \"50\"\n" {
		t.Error(listed) // the same entry again has no number of its own
	}
	text := strings.Repeat("x", 1<<20-10)
	for i := range 20 {
		f.bodies["https://a.test/"] = fmt.Sprintf("<rss><item><title>%d</title><description>%s</description></item></rss>", i, text)
		if o := call(FeedsListName, `{"feed":1}`); o.Failed {
			t.Fatal(o.Trusted.Text())
		}
	}
	if o := call(FeedsReadName, `{"entry":52}`); o.Trusted.Text() != tool.Gone.Error() {
		t.Errorf("%.200s", o.Untrusted)
	}
	if o := call(FeedsReadName, `{"entry":71}`); o.Failed {
		t.Error(o.Trusted.Text())
	}
}

// Feeds that would take a hundred times their length.
// covers A-CRASH
func TestHostileFeeds(t *testing.T) {
	for name, body := range map[string]string{
		"items of XML": "<rss>" + strings.Repeat("<item><id>x", 8<<20/11),
		"attributes":   "<rss><item " + strings.Repeat("a ", 4<<20) + ">",
		"links":        "<feed><entry>" + strings.Repeat("<link href=x>", 8<<20/13),
	} {
		body = body[:effort.Rounds(len(body), len(body)/8)]
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		feed, err := ParseFeed("text/xml", []byte(body))
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		t.Logf("%s: %d entries, %v, %v, %d MiB", name, len(feed.Entries), err, took, (after.TotalAlloc-before.TotalAlloc)>>20)
		if took > time.Minute || len(feed.Entries) > maxEntries { // a busy machine takes a second
			t.Errorf("%s: %d entries in %v", name, len(feed.Entries), took)
		}
		if after.HeapSys > before.HeapSys+400<<20 {
			t.Errorf("%s: the heap grew by %d MiB", name, (after.HeapSys-before.HeapSys)>>20)
		}
	}
}

// Whatever a feed is, what is read of it is bounded UTF-8, and a listing has a line for each entry.
//
// covers A-CRASH
func FuzzParseFeed(f *testing.F) {
	f.Add("text/xml", []byte(rss))
	f.Add("text/xml", []byte(atom))
	f.Add("text/xml; charset=utf-16", []byte("<rss><item><title>\n<![CDATA["))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		feed, err := ParseFeed(contentType, body)
		if err != nil {
			return
		}
		d := &feedDesk{feeds: []string{"https://a.test/"}, redact: guard.All}
		for _, e := range feed.Entries {
			for _, text := range []string{e.ID, e.Title, e.Author, e.Link, e.Text} {
				if !utf8.ValidString(text) || len(text) > 4*maxField {
					t.Errorf("%d bytes: %.100q", len(text), text)
				}
			}
			if line := d.line(e.Title); strings.ContainsAny(line, "\n\r\u2028") {
				t.Errorf("%q", line)
			}
		}
		if len(feed.Entries) > maxEntries {
			t.Errorf("%d entries", len(feed.Entries))
		}
	})
}
