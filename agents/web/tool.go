package web

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/page"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Name is the name of the tool.
const Name = "web_fetch"

const (
	maxArguments = 64 << 10 // bytes
	maxCalls     = 64       // of a conversation
	// maxServed bounds the bodies that a conversation keeps for their links, in bytes. The oldest are forgotten first.
	maxServed = 8 << 20
)

// Schema is the JSON Schema of the arguments.
const Schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"url":{"type":"string","description":"An http or https URL. A link of a page that you were given costs less."},` +
	`"link":{"type":"string","description":"A link of a page that you were given, such as 1.3: its page and its number there."},` +
	`"max_chars":{"type":"integer","minimum":1,"maximum":400000},` +
	`"whole":{"type":"boolean","description":"All visible text, not the readable part alone."}}}`

// Hop is one request that a ledger is asked for.
type Hop struct {
	Agent string
	Host  string // with its port, as guard.Target.Authority has it
	URL   string
	By    By
	// Price is what the request tells the host at most; 0 for a redirect, which a host chose.
	Price guard.NanoBits
	// MaxBytes is what goes over the wire at most, in both directions.
	MaxBytes int64
}

// By says who put a URL together, in the words of the mesh's records.
type By string

// Who put a URL together.
const (
	ByComposed By = "composed" // the agent
	ByLink     By = "link"     // a page that was served, or start_urls
	ByRedirect By = "redirect" // the host of the hop before
)

// Ledger records what is fetched. No record, no packet.
type Ledger interface {
	// Reserve records a hop before the name of its host is looked up. Its error has a code of package guard, and the hop is
	// not made. The reservation is replaced by what settle is told, once; without that it stands.
	Reserve(ctx context.Context, h Hop) (settle func(sent, received int64), err error)
	// Refused records a URL that was refused without being asked for.
	Refused(ctx context.Context, url string, code guard.Code)
}

// ErrNoLedger says that a tool has nobody who records what it fetches.
var ErrNoLedger = errors.New("web: a tool needs a ledger")

// Options say what a tool may fetch. The zero value allows nothing.
type Options struct {
	Agent string
	// Policy is asked before every hop, so that a change counts at once. Nil allows nothing.
	Policy func() guard.Policy
	// StartURLs cost what a link costs. One that is no URL counts for nothing.
	StartURLs []string
	LinksOnly bool // only links and start URLs
	// Addresses are prefixes that may be dialled beside public addresses.
	Addresses []netip.Prefix
	Redact    guard.Set
	// Ledger is required.
	Ledger Ledger
	// Resolver and Transport are those of the system if they are nil.
	Resolver  fetch.Resolver
	Transport fetch.Transport
}

// Tool is web_fetch in one conversation. Its calls are made one after the other: one that comes meanwhile waits.
type Tool struct {
	options Options
	starts  map[string]bool // by canonical URL

	mu     sync.Mutex
	calls  int
	served []served
	first  int // the number of the page that served begins with, less 1
}

// served is a page that the conversation was given.
type served struct {
	body  fetch.Body
	links []page.Link
}

// New returns the tool of a conversation.
func New(o Options) (*Tool, error) {
	if o.Ledger == nil {
		return nil, ErrNoLedger
	}
	if o.Resolver == nil {
		o.Resolver = fetch.NewResolver()
	}
	if o.Transport == nil {
		o.Transport = fetch.NewTransport(o.Addresses, nil)
	}
	if o.Policy == nil {
		o.Policy = func() guard.Policy { return guard.Policy{} }
	}
	t := &Tool{options: o, starts: map[string]bool{}}
	for _, url := range o.StartURLs {
		if target, err := guard.ParseTarget(url); err == nil {
			t.starts[target.String()] = true
		}
	}
	return t, nil
}

// Executable returns the tool as the engine of a conversation takes it.
func (t *Tool) Executable() llm.Executable {
	return llm.Executable{
		Tool:     llm.Tool{Name: Name, Description: llm.Constant("Get a web page as text."), Schema: jsontext.Value(Schema)},
		Outbound: true,
		Permit:   func(_ context.Context, arguments jsontext.Value) error { return t.Permit(arguments) },
		Run:      func(ctx context.Context, arguments jsontext.Value) llm.Output { return t.Call(ctx, arguments).Output() },
	}
}

// arguments are what the model says.
type arguments struct {
	URL      *string `json:"url"`
	Link     *string `json:"link"`
	MaxChars *int    `json:"max_chars"`
	Whole    bool    `json:"whole"`
}

func parseArguments(raw jsontext.Value) (a arguments, err error) {
	if len(raw) > maxArguments || json.Unmarshal(raw, &a, json.RejectUnknownMembers(true)) != nil ||
		(a.URL == nil) == (a.Link == nil) || a.MaxChars != nil && (*a.MaxChars < 1 || *a.MaxChars > page.MaxChars) {
		return a, guard.Malformed
	}
	return a, nil
}

// Permit says whether a call may be made, before it is: nil, or the code why not. Nothing is sent or recorded. The call
// itself checks all of it again.
func (t *Tool) Permit(raw jsontext.Value) error {
	a, err := parseArguments(raw)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _, _, err = t.target(a)
	return err
}

// Call fetches a page. It never panics or fails: what goes wrong is in the result, as a code.
func (t *Tool) Call(ctx context.Context, raw jsontext.Value) Result {
	a, err := parseArguments(raw)
	if err != nil {
		return failed(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls++; t.calls > maxCalls {
		return failed(guard.BudgetExhausted)
	}
	target, by, price, err := t.target(a)
	if err != nil {
		t.refused(ctx, a.name(), err)
		return failed(err)
	}
	body, err := t.fetch(ctx, target, by, price)
	if err != nil {
		return failed(err)
	}
	options := page.Options{Whole: a.Whole, Set: t.options.Redact}
	if a.MaxChars != nil {
		options.MaxChars = *a.MaxChars
	}
	read, err := page.Read(body, options)
	if err != nil {
		return failed(err)
	}
	return t.keep(body, read)
}

// refused records a refusal that is not of the ledger.
func (t *Tool) refused(ctx context.Context, url string, err error) {
	if code := fetch.CodeOf(err); code.Refused() {
		t.options.Ledger.Refused(ctx, url, code)
	}
}

// name is what a call names, as the agent says it.
func (a arguments) name() string {
	if a.URL != nil {
		return *a.URL
	}
	return *a.Link
}

// target returns what a call is about, if it is allowed, and who put it together at which price.
func (t *Tool) target(a arguments) (guard.Target, By, guard.NanoBits, error) {
	var target guard.Target
	var err error
	chosen := a.Link != nil
	if chosen {
		target, err = t.link(*a.Link)
	} else {
		target, err = guard.ParseTarget(*a.URL)
		chosen = err == nil && t.starts[target.String()]
	}
	if err != nil {
		return guard.Target{}, "", 0, err
	}
	if err := t.options.Policy().Check(target); err != nil {
		return guard.Target{}, "", 0, err
	}
	if chosen {
		return target, ByLink, t.linkPrice(), nil
	}
	if t.options.LinksOnly {
		return guard.Target{}, "", 0, guard.LinksOnly
	}
	price, _ := guard.ComposedPrice(target)
	return target, ByComposed, price, nil
}

// link returns a link of a page that was served. Its bytes are cut from that page.
func (t *Tool) link(name string) (guard.Target, error) {
	pageNumber, linkNumber, ok := strings.Cut(name, ".")
	p, err := strconv.ParseUint(pageNumber, 10, 31)
	l, err2 := strconv.ParseUint(linkNumber, 10, 31)
	i := int(p) - 1 - t.first
	if !ok || err != nil || err2 != nil || i < 0 || i >= len(t.served) || l < 1 || int(l) > len(t.served[i].links) {
		return guard.Target{}, guard.Malformed
	}
	from := t.served[i]
	link := from.links[l-1]
	return fetch.ResolveLink(from.body.Target, from.body.Bytes[link.Start:link.End])
}

func (t *Tool) linkPrice() guard.NanoBits {
	lengths := make([]uint64, len(t.served))
	for i, s := range t.served {
		lengths[i] = uint64(len(s.body.Bytes))
	}
	return guard.LinkPrice(uint64(len(t.starts)), lengths)
}

// fetch gets a page, every hop of which the ledger has recorded.
func (t *Tool) fetch(ctx context.Context, target guard.Target, by By, price guard.NanoBits) (fetch.Body, error) {
	o := &t.options
	var settle func(sent, received int64)
	var denied error // by the ledger, which has recorded it
	f := fetch.Fetcher{
		Policy: o.Policy, Addresses: o.Addresses, Resolver: o.Resolver, Transport: o.Transport,
		Admit: func(ctx context.Context, h fetch.Hop) (err error) {
			hop := Hop{Agent: o.Agent, Host: h.Target.Authority(), URL: h.Target.String(), By: by, Price: price, MaxBytes: fetch.MaxExchange}
			if h.Redirect {
				hop.By, hop.Price = ByRedirect, 0
			}
			settle, denied = o.Ledger.Reserve(ctx, hop)
			return denied
		},
		Settle: func(_ fetch.Hop, sent, received int64) {
			if settle != nil {
				settle(sent, received)
			}
		},
	}
	body, err := f.Fetch(ctx, target)
	if err != nil && denied == nil {
		t.refused(ctx, target.String(), err)
	}
	return body, err
}

// keep remembers a page for its links, and returns what the agent is given.
func (t *Tool) keep(body fetch.Body, read page.Page) Result {
	t.served = append(t.served, served{body, read.Links})
	number := t.first + len(t.served)
	size := 0
	for i := len(t.served) - 1; i >= 0; i-- {
		if size += len(t.served[i].body.Bytes); size > maxServed {
			t.served, t.first = t.served[i+1:], t.first+i+1
			break
		}
	}
	r := Result{Text: read.Text, Untrusted: true, Title: read.Title, Truncated: read.Truncated, Links: []Link{}}
	for i, link := range read.Links {
		r.Links = append(r.Links, Link{Link: fmt.Sprintf("%d.%d", number, i+1), URL: link.URL})
	}
	return r
}
