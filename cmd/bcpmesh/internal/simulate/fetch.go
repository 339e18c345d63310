package simulate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// allowed returns the policy of some entries or, without them, of the environment.
func allowed(p *cli.Program, entries []string) (guard.Policy, error) {
	if entries == nil {
		entries = guard.SplitHosts(p.Env(guard.AllowVariable))
	}
	policy, invalid := guard.ParsePolicy(entries)
	if len(invalid) > 0 {
		return policy, cli.Usagef("%s is not a valid host of an allow-list", cli.Quoted(invalid[0])).WithHint("an entry is HOST or *.HOST, perhaps with :PORT")
	}
	return policy, nil
}

// Fetch gets one page from the real network.
type Fetch struct {
	Allow []string `commas:"apart"`
}

func (o *Fetch) Run(ctx context.Context, p *cli.Program, args []string) error {
	policy, err := allowed(p, o.Allow)
	if err != nil {
		return err
	}
	f := fetch.Client{Policy: func() guard.Policy { return policy }, Resolver: fetch.NewResolver(), Transport: fetch.NewTransport(nil, nil)}
	read, err := fetchPage(ctx, &f, args[0], fetch.ReadOptions{})
	if p.Out.JSON {
		if err := p.Out.Value(newFetchResult(read, err)); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		return deniedf(err, args[0])
	case !p.Out.JSON:
		showPage(p, read)
	}
	return nil
}

// showPage shows a page to a person.
func showPage(p *cli.Program, read fetch.Page) {
	if read.Title != "" {
		p.Out.Heading(cli.Plain(read.Title))
	}
	for line := range strings.Lines(read.Text) {
		p.Out.Printf("%s\n", cli.Plain(strings.TrimSuffix(line, "\n")))
	}
	for i, link := range read.Links {
		p.Out.Printf("[%d] %s\n", i+1, cli.Plain(link.URL))
	}
	for _, note := range read.Notes() {
		p.Out.Talkf("%s", note)
	}
	if read.Truncated {
		p.Out.Talkf("the text is cut")
	}
}

// deniedf says why a URL is not fetched.
func deniedf(err error, url string) *cli.Failure {
	code, reason := fetch.CodeOf(err), fetch.CodeOf(err).Error()
	if status := fetch.StatusOf(err); status > 0 {
		reason += ", " + strconv.Itoa(status)
	}
	f := cli.Failf("%s: %s (%s)", cli.Quoted(url), reason, string(code))
	switch code {
	case guard.DenyAll, guard.HostDenied, guard.PortDenied:
		f.Code = cli.ExitRefused
		return f.WithHint(`--allow takes hosts: docs.example.com, "*.example.com", docs.example.com:8443`)
	case guard.PrivateAddress:
		f.Code = cli.ExitRefused
		return f.WithHint("a loopback or private address must be in the list, with its port: 127.0.0.1:8080")
	case guard.Malformed:
		f.Code = cli.ExitRefused
		if !strings.Contains(url, "://") {
			return f.WithHint("a URL begins with https:// or http://")
		}
	case guard.BadScheme, guard.UserInfo, guard.NotCanonical, guard.AmbiguousAddress, guard.LinksOnly, guard.BudgetExhausted:
		f.Code = cli.ExitRefused
	}
	return f
}

// fetchPage fetches a URL and makes text of it.
func fetchPage(ctx context.Context, f *fetch.Client, url string, o fetch.ReadOptions) (fetch.Page, error) {
	target, err := guard.Check(url, f.Policy())
	if err != nil {
		return fetch.Page{}, err
	}
	body, err := f.Fetch(ctx, target)
	if err != nil {
		return fetch.Page{}, err
	}
	return fetch.ReadPage(body, o)
}

// fetchResult is what a fetch gives; Text is that of the page, or a constant one for the code.
type fetchResult struct {
	OK        bool       `json:"ok"`
	Text      string     `json:"text"`
	Untrusted bool       `json:"untrusted"`
	Code      guard.Code `json:"code,omitzero"`
	Status    int        `json:"status,omitzero"`
	Title     string     `json:"title,omitzero"`
	Links     []string   `json:"links,omitzero"`
	Truncated bool       `json:"truncated,omitzero"`
	Notes     []string   `json:"notes,omitempty"`
	Contacted []string   `json:"contacted,omitzero"`
}

func newFetchResult(read fetch.Page, err error) fetchResult {
	if err != nil {
		r := fetchResult{Code: fetch.CodeOf(err), Text: fetch.CodeOf(err).Error()}
		if status, ok := err.(fetch.StatusError); ok {
			r.Status = int(status)
		}
		return r
	}
	r := fetchResult{OK: true, Text: read.Text, Untrusted: true, Title: read.Title, Truncated: read.Truncated, Notes: read.Notes()}
	for _, link := range read.Links {
		r.Links = append(r.Links, link.URL)
	}
	return r
}

// fetchCase is a case of fetch: what the hosts and name servers of its world answer.
type fetchCase struct {
	URL      caseURL                   `json:"url"`
	Allow    []caseText                `json:"allow"`
	Routes   map[string]routeCase      `json:"routes"`
	DNS      map[string][][]netip.Addr `json:"dns"`
	MaxChars int                       `json:"max_chars"`
	Whole    bool                      `json:"whole"`
	Steps    []stepCase                `json:"steps"`
}

type routeCase struct {
	Status      int       `json:"status"`
	Location    *caseText `json:"location"`
	ContentType *caseText `json:"content_type"`
	Body        caseText  `json:"body"`
	BodyBase64  string    `json:"body_base64"`
	GzipOf      *caseText `json:"gzip_of"`
	Error       string    `json:"error"`
}

// stepCase is a fetch, or a new list of hosts.
type stepCase struct {
	Fetch *caseURL    `json:"fetch"`
	Allow *[]caseText `json:"allow"`
}

var networkErrors = map[string]guard.Code{
	"ECONNREFUSED": guard.ConnectFailed, "RESET": guard.ConnectFailed, "TIMEOUT": guard.TimedOut, "TLS": guard.TLSFailed,
}

func judgeFetch(ctx context.Context, raw jsontext.Value) (any, guard.Code) {
	var c fetchCase
	if err := json.Unmarshal(raw, &c, caseOptions); err != nil {
		return nil, unreadableCase
	}
	world, ok := c.world()
	if !ok {
		return nil, unreadableCase
	}
	policy := policyOf(c.Allow)
	f := &fetch.Client{Policy: func() guard.Policy { return policy }, Resolver: world, Transport: world}
	one := func(url caseURL) fetchResult {
		world.Contacted = []string{}
		read, err := fetchPage(ctx, f, string(url), fetch.ReadOptions{MaxChars: c.MaxChars, Whole: c.Whole})
		result := newFetchResult(read, err)
		result.Contacted = world.Contacted
		return result
	}
	if len(c.Steps) == 0 {
		return one(c.URL), ""
	}
	results := make([]*fetchResult, len(c.Steps))
	for i, step := range c.Steps {
		switch {
		case step.Allow != nil:
			policy = policyOf(*step.Allow)
		case step.Fetch != nil:
			result := one(*step.Fetch)
			results[i] = &result
		}
	}
	return map[string]any{"steps": results}, ""
}

// world returns the scripted world of a case.
func (c fetchCase) world() (*fetch.Scripted, bool) {
	world := &fetch.Scripted{Routes: map[string]fetch.Route{}, Names: c.DNS}
	for url, r := range c.Routes {
		route, ok := r.route()
		if !ok {
			return nil, false
		}
		world.Routes[url] = route
	}
	for _, answers := range c.DNS {
		if slices.Contains(slices.Concat(answers...), netip.Addr{}) { // an empty text, or null
			return nil, false
		}
	}
	return world, true
}

func (r routeCase) route() (fetch.Route, bool) {
	route := fetch.Route{Status: r.Status, Body: []byte(r.Body)}
	if r.Location != nil {
		route.Location = string(*r.Location)
	}
	if r.ContentType != nil {
		route.ContentType = string(*r.ContentType)
	}
	switch {
	case r.Error != "":
		code, known := networkErrors[r.Error]
		route.Error = code
		return route, known
	case r.BodyBase64 != "":
		body, err := base64.StdEncoding.DecodeString(r.BodyBase64)
		route.Body = body
		return route, err == nil
	case r.GzipOf != nil:
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write([]byte(*r.GzipOf))
		err = errors.Join(err, z.Close())
		route.Body, route.Encoding = packed.Bytes(), "gzip"
		return route, err == nil
	}
	return route, true
}
