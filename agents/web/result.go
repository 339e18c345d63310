package web

import (
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Result is the result of a call: a page, all of which came from outside, or a code.
type Result struct {
	Text      string
	Untrusted bool // true for every page
	Title     string
	Links     []NumberedLink // in the order of their numbers in the text
	Notes     []string       // lines about the text: how much is hidden, and what may be wrong with it

	Error  guard.Code
	Status int // three digits, if the code is status
}

// NumberedLink is a link of a page.
type NumberedLink struct {
	Link string // what names it in the next call
	URL  string
}

func failed(err error) Result { return Result{Error: fetch.CodeOf(err), Status: fetch.StatusOf(err)} }

// Output converts the result for the engine of a conversation: a page with its title and
// links, all from outside, to be fenced; or for an error a constant text, which is not
// fenced.
func (r Result) Output() llm.Output {
	if r.Error != "" || !r.Untrusted {
		return llm.Output{Trusted: llm.Failure(r.Error, r.Status), Failed: true}
	}
	var b strings.Builder
	if r.Title != "" {
		b.WriteString(r.Title + "\n\n")
	}
	b.WriteString(r.Text)
	for i, note := range r.Notes {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("\n" + note)
	}
	for i, link := range r.Links {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("\n[" + strconv.Itoa(i+1) + "] " + link.Link + " " + link.URL)
	}
	return llm.Output{Untrusted: b.String(), Source: guard.Web}
}
