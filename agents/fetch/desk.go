package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	// MaxCalls bounds the fetches of a conversation.
	MaxCalls = 64
	// MaxServed bounds the bodies that the conversations of an agent keep for their links,
	// in bytes. The oldest are dropped first.
	MaxServed = 32 << 20
)

// Hop is one request for a ledger to reserve.
type Hop struct {
	Host string // with its port, as guard.Target.Authority has it
	URL  string
	By   By
	// Price is the maximum information that the request gives the host; 0 for a
	// redirect, which a host chose.
	Price guard.NanoBits
	// MaxBytes is the maximum on the wire, in both directions.
	MaxBytes int64
}

// By says who put a URL together, in the words of the mesh's records.
type By string

// Who put a URL together.
const (
	ByComposed By = "composed" // the agent
	ByLink     By = "link"     // a served page, or start_urls
	ByRedirect By = "redirect" // the host of the hop before
)

// Ledger records fetches: without a record nothing is sent.
type Ledger interface {
	// Reserve records a hop before the name of its host is looked up. If it returns an
	// error, which has a code of package guard, the hop is not made. settle must be
	// called once to replace the reservation; otherwise the reservation remains.
	Reserve(ctx context.Context, h Hop) (settle func(sent, received int64), err error)
	// Refused records a URL that was refused without a request.
	Refused(ctx context.Context, url string, code guard.Code)
}

// ErrNoLedger says that a conversation has no ledger for its fetches.
var ErrNoLedger = errors.New("fetch: a conversation needs a ledger")

// Options are the limits of a conversation's fetches. The zero value allows nothing.
type Options struct {
	// Policy is called before every hop, so that a change takes effect at once. Nil
	// allows nothing.
	Policy func() guard.Policy
	// StartURLs cost as much as links. Invalid ones are ignored.
	StartURLs []string
	LinksOnly bool // only links and start URLs
	// Addresses are prefixes that may be dialled in addition to public addresses.
	Addresses []netip.Prefix
	// Ledger is required.
	Ledger Ledger
	// Resolver and Transport are those of the system if they are nil.
	Resolver  Resolver
	Transport Transport
}

// Ask is a conversation's request: a URL that it composed, or a link. A link is a range
// of bytes of a served page: the fetcher cuts them there itself, so that nobody can
// invent a link.
type Ask struct {
	URL string `json:"url,omitzero"`
	// Page is the number of the page, and Start and End the position of the link in its
	// body.
	Page  int `json:"page,omitzero"`
	Start int `json:"start,omitzero"`
	End   int `json:"end,omitzero"`
}

// name returns how a refused Ask is recorded.
func (a Ask) name() string {
	if a.URL != "" {
		return a.URL
	}
	return fmt.Sprintf("page %d, bytes %d to %d", a.Page, a.Start, a.End)
}

// Served is a fetched page, verbatim, with its number in the conversation.
type Served struct {
	Page int
	Body
}

// Fetcher fetches for one conversation.
type Fetcher interface {
	// Fetch gets a page. The error has a code of package guard.
	Fetch(ctx context.Context, a Ask) (Served, error)
}

// Desk is the [Fetcher] with network access. It reads nothing of what it serves except
// requested links. Its calls run one at a time; concurrent ones wait.
type Desk struct {
	options Options
	starts  map[string]bool // by canonical URL
	kept    *kept

	mu    sync.Mutex
	calls int
	pages int // that were served
}

// kept are the pages that the desks of an agent keep for their links, in the order in
// which they were served.
type kept struct {
	mu    sync.Mutex
	pages []keptPage
	size  int // bytes
}

type keptPage struct {
	desk   *Desk
	number int
	body   Body
}

// NewDesk returns the desk of a conversation.
func NewDesk(o Options) (*Desk, error) {
	if o.Ledger == nil {
		return nil, ErrNoLedger
	}
	o.Resolver = cmp.Or(o.Resolver, Resolver(NewResolver()))
	o.Transport = cmp.Or(o.Transport, Transport(NewTransport(o.Addresses, nil)))
	if o.Policy == nil {
		o.Policy = func() guard.Policy { return guard.Policy{} }
	}
	d := &Desk{options: o, starts: map[string]bool{}, kept: &kept{}}
	for _, url := range o.StartURLs {
		if target, err := guard.ParseTarget(url); err == nil {
			d.starts[target.String()] = true
		}
	}
	return d, nil
}

// Another returns the desk of another conversation of the same agent. A link of any of
// them costs as much as the choice between the links of all: whoever asks chooses the
// conversation, too.
func (d *Desk) Another() *Desk { return &Desk{options: d.options, starts: d.starts, kept: d.kept} }

// Close forgets the pages of a conversation.
func (d *Desk) Close() {
	d.kept.mu.Lock()
	defer d.kept.mu.Unlock()
	d.kept.drop(func(p keptPage) bool { return p.desk == d })
}

// drop forgets pages. Its caller holds mu.
func (k *kept) drop(which func(keptPage) bool) {
	k.pages = slices.DeleteFunc(k.pages, func(p keptPage) bool {
		if !which(p) {
			return false
		}
		k.size -= len(p.body.Bytes)
		return true
	})
}

// Fetch implements [Fetcher].
func (d *Desk) Fetch(ctx context.Context, a Ask) (Served, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls++; d.calls > MaxCalls {
		return Served{}, guard.BudgetExhausted
	}
	target, by, price, err := d.target(a)
	if err != nil {
		d.refused(ctx, a.name(), err)
		return Served{}, err
	}
	body, err := d.fetch(ctx, target, by, price)
	if err != nil {
		return Served{}, err
	}
	return Served{d.keepPage(body), body}, nil
}

// refused records a refusal that did not come from the ledger.
func (d *Desk) refused(ctx context.Context, url string, err error) {
	if code := CodeOf(err); code.Refused() {
		d.options.Ledger.Refused(ctx, url, code)
	}
}

// target returns the requested target, if it is allowed, with its origin and price.
func (d *Desk) target(a Ask) (guard.Target, By, guard.NanoBits, error) {
	link, price, err := d.link(a)
	target := link
	if a.URL != "" {
		target, err = guard.ParseTarget(a.URL)
	}
	if err != nil {
		return guard.Target{}, "", 0, err
	}
	if err := d.options.Policy().Check(target); err != nil {
		return guard.Target{}, "", 0, err
	}
	if a.URL == "" || d.starts[target.String()] {
		return target, ByLink, price, nil
	}
	if d.options.LinksOnly {
		return guard.Target{}, "", 0, guard.LinksOnly
	}
	price, _ = guard.ComposedPrice(target)
	return target, ByComposed, price, nil
}

// link returns a link of a served page, whose bytes it cuts from that page, and what a
// link costs now.
func (d *Desk) link(a Ask) (target guard.Target, price guard.NanoBits, err error) {
	d.kept.mu.Lock()
	defer d.kept.mu.Unlock()
	lengths := make([]uint64, 0, len(d.kept.pages))
	err = guard.Malformed
	for _, p := range d.kept.pages {
		lengths = append(lengths, uint64(len(p.body.Bytes)))
		if p.desk == d && p.number == a.Page && 0 <= a.Start && a.Start < a.End && a.End <= len(p.body.Bytes) {
			target, err = resolveLink(p.body.base(), p.body.Bytes[a.Start:a.End])
		}
	}
	return target, guard.LinkPrice(uint64(len(d.starts)), lengths), err
}

// fetch gets a page; the ledger records every hop.
func (d *Desk) fetch(ctx context.Context, target guard.Target, by By, price guard.NanoBits) (Body, error) {
	o := &d.options
	var denied error // by the ledger, which has recorded it
	f := Client{
		Policy: o.Policy, Addresses: o.Addresses, Resolver: o.Resolver, Transport: o.Transport,
		Admit: func(ctx context.Context, t guard.Target, redirect bool) (settle func(sent, received int64), err error) {
			hop := Hop{Host: t.Authority(), URL: t.String(), By: by, Price: price, MaxBytes: MaxExchange}
			if redirect {
				hop.By, hop.Price = ByRedirect, 0
			}
			settle, denied = o.Ledger.Reserve(ctx, hop)
			return settle, denied
		},
	}
	body, err := f.Fetch(ctx, target)
	if err != nil && denied == nil {
		d.refused(ctx, target.String(), err)
	}
	return body, err
}

// keepPage remembers a page for its links, and returns its number.
func (d *Desk) keepPage(body Body) int {
	d.pages++
	k := d.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pages = append(k.pages, keptPage{d, d.pages, body})
	k.size += len(body.Bytes)
	k.drop(func(keptPage) bool { return k.size > MaxServed })
	return d.pages
}

// Fetched is the result of a [Fetcher], for a process without network access: a page,
// or a code.
type Fetched struct {
	Page        int        `json:"page,omitzero"`
	URL         string     `json:"url,omitzero"`
	ContentType string     `json:"content_type,omitzero"`
	Bytes       []byte     `json:"bytes,omitzero"`
	Error       guard.Code `json:"error,omitzero"`
	Status      int        `json:"status,omitzero"` // of the host, if the code is status
}

// NewFetched returns a Fetcher's result.
func NewFetched(s Served, err error) Fetched {
	if err != nil {
		return Fetched{Error: CodeOf(err), Status: StatusOf(err)}
	}
	return Fetched{Page: s.Page, URL: s.Target.String(), ContentType: s.ContentType, Bytes: s.Bytes}
}

// Served returns it as the Fetcher gave it.
func (f Fetched) Served() (Served, error) {
	switch {
	case f.Error == guard.BadStatus && f.Status > 0:
		return Served{}, StatusError(f.Status)
	case f.Error != "":
		return Served{}, f.Error
	}
	target, err := guard.ParseTarget(f.URL)
	if err != nil {
		return Served{}, err
	}
	return Served{f.Page, Body{Target: target, ContentType: f.ContentType, Bytes: f.Bytes}}, nil
}
