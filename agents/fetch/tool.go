package fetch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// ToolName is the name of the tool.
const ToolName = "web_fetch"

type arguments struct {
	URL      *string `json:"url"`
	Link     *string `json:"link"`
	MaxChars *int    `json:"max_chars"`
	Whole    bool    `json:"whole"`
}

const schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"url":{"type":"string","description":"An http or https URL. A link of a page that you were given costs less."},` +
	`"link":{"type":"string","description":"A link of a page that you were given, such as 1.3: its page and its number there."},` +
	`"max_chars":{"type":"integer","minimum":1,"maximum":400000},` +
	`"whole":{"type":"boolean","description":"All visible text, not the readable part alone."}}}`

// conversation is web_fetch in one. Its calls run one at a time.
type conversation struct {
	fetcher Fetcher

	mu    sync.Mutex
	links map[int][]Link // by the number of the page
}

// NewTool returns web_fetch for one conversation: it reads what a [Fetcher] gets.
func NewTool(f Fetcher) llm.Executable {
	c := &conversation{fetcher: f, links: map[int][]Link{}}
	return tool.New(ToolName, llm.Constant("Get a web page as text."), schema, guard.Web, &c.mu, c.fetch)
}

// fetch returns a page with its title, what is to be known of it, and its links.
func (c *conversation) fetch(ctx context.Context, a arguments) (string, error) {
	options := ReadOptions{Whole: a.Whole, MaxChars: DefaultChars}
	if a.MaxChars != nil {
		options.MaxChars = *a.MaxChars
	}
	if (a.URL == nil) == (a.Link == nil) || options.MaxChars < 1 || options.MaxChars > MaxChars {
		return "", tool.BadArguments
	}
	served, err := c.fetcher.Fetch(ctx, c.ask(a))
	if err != nil {
		return "", err
	}
	if err := tool.Reading(ctx, served.Bytes); err != nil {
		return "", err
	}
	page, err := ReadPage(served.Body, options)
	if err != nil {
		return "", err
	}
	c.links[served.Page] = page.Links
	var b strings.Builder
	if page.Title != "" {
		b.WriteString(page.Title + "\n\n")
	}
	b.WriteString(page.Text)
	if notes := page.Notes(); len(notes) > 0 {
		b.WriteString("\n\n" + strings.Join(notes, "\n"))
	}
	for i, link := range page.Links {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\n[%d] %d.%d %s", i+1, served.Page, i+1, link.URL)
	}
	return b.String(), nil
}

// ask returns the request of a call. For a link that does not exist it is an empty
// range, which is invalid.
func (c *conversation) ask(a arguments) Ask {
	if a.URL != nil {
		return Ask{URL: *a.URL}
	}
	pageNumber, linkNumber, _ := strings.Cut(*a.Link, ".")
	p, err := strconv.ParseUint(pageNumber, 10, 31)
	l, err2 := strconv.ParseUint(linkNumber, 10, 31)
	links := c.links[int(p)]
	if err != nil || err2 != nil || l < 1 || int(l) > len(links) {
		return Ask{Page: int(p)}
	}
	return Ask{Page: int(p), Start: links[l-1].Start, End: links[l-1].End}
}
