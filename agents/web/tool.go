package web

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Name is the name of the tool.
const Name = "web_fetch"

const maxArguments = 64 << 10 // bytes

// Schema is the JSON Schema of the arguments.
const Schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"url":{"type":"string","description":"An http or https URL. A link of a page that you were given costs less."},` +
	`"link":{"type":"string","description":"A link of a page that you were given, such as 1.3: its page and its number there."},` +
	`"max_chars":{"type":"integer","minimum":1,"maximum":400000},` +
	`"whole":{"type":"boolean","description":"All visible text, not the readable part alone."}}}`

// Tool is web_fetch in one conversation: it reads what a [fetch.Fetcher] gets. Its calls run
// one at a time; concurrent ones wait.
type Tool struct {
	fetcher fetch.Fetcher
	redact  guard.Set

	mu    sync.Mutex
	links map[int][]Link // by the number of the page
}

// NewTool returns the tool of a conversation. redact is applied to everything from
// outside.
func NewTool(f fetch.Fetcher, redact guard.Set) *Tool {
	return &Tool{fetcher: f, redact: redact, links: map[int][]Link{}}
}

// Executable returns the tool as the engine of a conversation takes it.
func (t *Tool) Executable() llm.Executable {
	return llm.Executable{
		Tool: llm.Tool{Name: Name, Description: llm.Constant("Get a web page as text."), Schema: jsontext.Value(Schema)},
		Run:  func(ctx context.Context, arguments jsontext.Value) llm.Output { return t.Call(ctx, arguments).Output() },
	}
}

// arguments are the model's.
type arguments struct {
	URL      *string `json:"url"`
	Link     *string `json:"link"`
	MaxChars *int    `json:"max_chars"`
	Whole    bool    `json:"whole"`
}

func parseArguments(raw jsontext.Value) (a arguments, err error) {
	if len(raw) > maxArguments || json.Unmarshal(raw, &a, json.RejectUnknownMembers(true)) != nil ||
		(a.URL == nil) == (a.Link == nil) || a.MaxChars != nil && (*a.MaxChars < 1 || *a.MaxChars > MaxChars) {
		return a, guard.Malformed
	}
	return a, nil
}

// Call fetches a page. It never panics or fails: an error is a code in the result.
func (t *Tool) Call(ctx context.Context, raw jsontext.Value) Result {
	a, err := parseArguments(raw)
	if err != nil {
		return failed(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	served, err := t.fetcher.Fetch(ctx, t.ask(a))
	if err != nil {
		return failed(err)
	}
	options := ReadOptions{Whole: a.Whole, Set: t.redact}
	if a.MaxChars != nil {
		options.MaxChars = *a.MaxChars
	}
	read, err := tool.Watched(ctx, func(ctx context.Context) (Page, error) {
		if err := tool.Reading(ctx, served.Bytes); err != nil {
			return Page{}, err
		}
		return Read(served.Body, options)
	})
	if why, ok := errors.AsType[tool.Failure](err); ok {
		return Result{Untrusted: true, Links: []NumberedLink{}, Notes: []string{"Defect: " + string(why)}}
	}
	if err != nil {
		return failed(err)
	}
	t.links[served.Page] = read.Links
	r := Result{Text: read.Text, Untrusted: true, Title: read.Title, Notes: read.Notes(), Links: []NumberedLink{}}
	for i, link := range read.Links {
		r.Links = append(r.Links, NumberedLink{Link: fmt.Sprintf("%d.%d", served.Page, i+1), URL: link.URL})
	}
	return r
}

// ask returns the request of a call. For a link that does not exist it is an empty
// range, which is invalid.
func (t *Tool) ask(a arguments) fetch.Ask {
	if a.URL != nil {
		return fetch.Ask{URL: *a.URL}
	}
	pageNumber, linkNumber, _ := strings.Cut(*a.Link, ".")
	p, err := strconv.ParseUint(pageNumber, 10, 31)
	l, err2 := strconv.ParseUint(linkNumber, 10, 31)
	links := t.links[int(p)]
	if err != nil || err2 != nil || l < 1 || int(l) > len(links) {
		return fetch.Ask{Page: int(p)}
	}
	return fetch.Ask{Page: int(p), Start: links[l-1].Start, End: links[l-1].End}
}
