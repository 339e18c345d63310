package oracles

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/agents/web"
)

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}

// written writes a text in one of the ways of XML.
func written(t *rapid.T, text string) string {
	if rapid.Bool().Draw(t, "CDATA") {
		return "<![CDATA[" + strings.ReplaceAll(text, "]]>", "]]]]><![CDATA[>") + "]]>"
	}
	return escaped(text)
}

// Dates in the forms of feeds, with what they mean.
var (
	zones = map[string]int{"GMT": 0, "+0000": 0, "-0730": -7*3600 - 1800, "EST": -5 * 3600, "PDT": -7 * 3600, "Z": 0}
	forms = []string{"Mon, 02 Jan 2006 15:04:05 ", "2 Jan 2006 15:04:05 ", "Mon, 2 Jan 2006 15:04 "}
)

func TestFeeds(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abz é😀&<>\"']Ω")), 1, 20, -1).Filter(func(s string) bool { return strings.TrimSpace(s) == s && !strings.Contains(s, "]]>") })
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		var whens []time.Time
		atom := rapid.Bool().Draw(t, "Atom")
		for i := range rapid.IntRange(0, 5).Draw(t, "entries") {
			title, summary := written(t, text.Draw(t, "title")), written(t, text.Draw(t, "summary"))
			link := fmt.Sprintf("https://a.test/%d?x=1&y=2", i)
			when := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "when"), 0).UTC()
			if atom {
				date := when.Format(time.RFC3339)
				fmt.Fprintf(&b, `<entry><id>i%d</id><title>%s</title><link href="%s"/><summary type="html">%s</summary><updated>%s</updated><published>%s</published></entry>`, i, title, escaped(link), summary, date, date)
			} else {
				zone := rapid.SampledFrom([]string{"GMT", "+0000", "-0730", "EST", "PDT", "Z"}).Draw(t, "zone")
				form := rapid.SampledFrom(forms).Draw(t, "form")
				if !strings.Contains(form, ":05") {
					when = when.Truncate(time.Minute)
				}
				fmt.Fprintf(&b, "<item><guid>i%d</guid><title>%s</title><link>%s</link><description>%s</description><pubDate>%s</pubDate></item>", i, title, written(t, link), summary, when.In(time.FixedZone("", zones[zone])).Format(form)+zone)
			}
			whens = append(whens, when)
		}
		source := `<?xml version="1.0"?><rss version="2.0"><channel><title>f</title>` + b.String() + "</channel></rss>"
		if atom {
			source = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>f</title>` + b.String() + "</feed>"
		}
		want, err := gofeed.NewParser().ParseString(source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := web.ParseFeed("application/xml", []byte(source))
		if err != nil || len(got.Defects) > 0 || len(got.Entries) != len(want.Items) {
			t.Fatalf("%+v, %v\n%s", got, err, source)
		}
		for i, item := range want.Items {
			e := got.Entries[i]
			if e.ID != item.GUID || e.Title != item.Title || e.Link != item.Link || e.Text != item.Description {
				t.Errorf("we read\n%+q\ngofeed reads\n%+q\nof %s", e, []string{item.GUID, item.Title, item.Link, item.Description}, source)
			}
			// gofeed takes names of zones for offsets of 0 where this machine is in no zone of that name: the date itself is the judge.
			if !e.Date.Equal(whens[i]) {
				t.Errorf("%v, but it is %v, and of gofeed %v\n%s", e.Date, whens[i], item.PublishedParsed, source)
			}
		}
	})
}
