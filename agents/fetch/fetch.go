package fetch

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	maxRedirects = 5
	// Timeout is how long a fetch takes at most, with all its hops.
	Timeout = 20 * time.Second
	// LookupTimeout is how long a name is looked up at most.
	LookupTimeout = 5 * time.Second
)

// Resolver looks up names, without a search list or a cache.
type Resolver interface {
	// Lookup returns all addresses of a name. Addresses of IPv4 are not mapped into IPv6.
	Lookup(ctx context.Context, name string) ([]netip.Addr, error)
}

// Transport sends one request. It follows no redirect and knows no policy.
type Transport interface {
	// Get requests t at one of the addresses, all of which have been checked. The error
	// has a code of this package.
	Get(ctx context.Context, t guard.Target, addresses []netip.Addr) (*Response, error)
}

// Response is a host's response to one request.
type Response struct {
	Status      int
	Location    string
	ContentType string
	Body        []byte // unpacked; empty if the status is no success
	Sent        int64  // bytes on the wire
	Received    int64
}

// Body is a page as a host served it.
type Body struct {
	Target      guard.Target // the final one, after all redirects
	ContentType string
	Bytes       []byte
}

// baseWithin is how many bytes of a page are looked at for what its links begin from.
const baseWithin = 64 << 10

// base returns what links of the body begin from: what a base element says, or where it came from.
func (b Body) base() guard.Target {
	z := html.NewTokenizer(bytes.NewReader(b.Bytes[:min(len(b.Bytes), baseWithin)]))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		name, more := z.TagName()
		for string(name) == "base" && kind != html.EndTagToken && more {
			var key, value []byte
			if key, value, more = z.TagAttr(); string(key) == "href" {
				if base, err := refer(b.Target, string(value)); err == nil {
					return base
				}
				return b.Target
			}
		}
	}
	return b.Target
}

// Client gets pages. Its zero value allows nothing.
type Client struct {
	// Policy is asked before each hop, and may change between two. Nil allows nothing.
	Policy func() guard.Policy
	// Addresses are prefixes that may be dialled in addition to the public addresses:
	// NAT64, or an intranet ([guard.Reachable]).
	Addresses []netip.Prefix
	// Resolver and Transport give access to the network. Both are required.
	Resolver  Resolver
	Transport Transport
	// Admit is called before the name of a hop is looked up: it records the hop's cost.
	// Its error, which has a code, ends the fetch. settle, which may be nil, is called
	// after the hop, with the bytes sent and received. Nil admits all, and records nothing.
	// A host chose the target of a redirect, so it gives hosts no information.
	Admit func(ctx context.Context, t guard.Target, redirect bool) (settle func(sent, received int64), err error)
}

// Fetch gets the page at t. The error has a code; [CodeOf] returns it. The status of an
// error response is a [StatusError]. Errors contain no text of a host.
func (f *Client) Fetch(ctx context.Context, t guard.Target) (Body, error) {
	if f.Policy == nil || f.Resolver == nil || f.Transport == nil {
		return Body{}, guard.DenyAll
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for redirects := 0; ; redirects++ {
		response, err := f.followHop(ctx, t, redirects > 0)
		if err != nil {
			return Body{}, f.timedOut(ctx, err)
		}
		switch {
		case response.Status >= 200 && response.Status <= 299:
			return Body{Target: t, ContentType: response.ContentType, Bytes: response.Body}, nil
		case !slices.Contains([]int{301, 302, 303, 307, 308}, response.Status):
			return Body{}, StatusError(response.Status)
		case response.Location == "":
			return Body{}, guard.NoLocation
		case redirects == maxRedirects:
			return Body{}, guard.TooManyRedirects
		}
		next, err := refer(t, response.Location)
		if err != nil {
			return Body{}, err
		}
		// The policy speaks before the downgrade, as it does for a first URL.
		if err := f.Policy().Check(next); err != nil {
			return Body{}, err
		}
		if t.Scheme() == "https" && next.Scheme() == "http" {
			return Body{}, guard.Downgrade
		}
		t = next
	}
}

// followHop makes all checks of a target, and requests it.
func (f *Client) followHop(ctx context.Context, t guard.Target, redirect bool) (*Response, error) {
	policy := f.Policy()
	if err := policy.Check(t); err != nil {
		return nil, err
	}
	response := &Response{}
	if f.Admit != nil {
		settle, err := f.Admit(ctx, t, redirect)
		if err != nil {
			return nil, err
		}
		if settle != nil {
			defer func() { settle(response.Sent, response.Received) }()
		}
	}
	addresses, err := resolve(ctx, f.Resolver, f.Addresses, t, policy.NamesPort(t))
	if err != nil {
		return nil, err
	}
	got, err := f.Transport.Get(ctx, t, addresses)
	if got != nil {
		response = got
	}
	return response, err
}

// timedOut turns an error into a timeout if time is up.
func (f *Client) timedOut(ctx context.Context, err error) error {
	if code := CodeOf(err); ctx.Err() != nil && (code == guard.ConnectFailed || code == guard.DNSFailed || code == guard.TLSFailed) {
		return guard.TimedOut
	}
	return err
}

// resolve returns the addresses to dial. All addresses of a name must be allowed: a mix of
// public and private ones is typical of DNS rebinding. A literal may be of this network if the
// policy names it with its port.
func resolve(ctx context.Context, r Resolver, prefixes []netip.Prefix, t guard.Target, named bool) ([]netip.Addr, error) {
	if a, ok := t.Address(); ok {
		if !guard.Reachable(a, prefixes) && !(named && guard.Local(a)) {
			return nil, guard.PrivateAddress
		}
		return []netip.Addr{a}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	addresses, err := r.Lookup(ctx, t.Name())
	if err != nil || len(addresses) == 0 {
		return nil, guard.DNSFailed
	}
	for _, a := range addresses {
		if !guard.Reachable(a, prefixes) {
			return nil, guard.PrivateAddress
		}
	}
	return addresses, nil
}

// resolveLink parses the bytes of a link, verbatim from a body that came from base:
// it is resolved as a Location is, and "&amp;" is "&". The agent gives the position of
// a link and the bytes are cut from the served body, so nobody can invent a link. The
// error has a code.
func resolveLink(base guard.Target, link []byte) (guard.Target, error) {
	return refer(base, strings.ReplaceAll(string(link), "&amp;", "&"))
}

// unsafe are characters of no URL that pages write into paths and queries all the same. Browsers percent-encode them, and no
// host has a percent sign.
var unsafe = strings.NewReplacer(" ", "%20", `"`, "%22", "<", "%3C", ">", "%3E", "^", "%5E", "`", "%60", "{", "%7B", "|", "%7C", "}", "%7D")

// refer resolves what a document or a server refers to, without the white space around it.
func refer(base guard.Target, reference string) (guard.Target, error) {
	return base.Resolve(unsafe.Replace(strings.Trim(reference, " \t\r\n\f")))
}

// Policy returns the policy of an agent's network, narrowed by [guard.AllowVariable] if it is set, as lookup (os.LookupEnv) has it
// at the moment of each call.
func Policy(network []string, lookup func(key string) (string, bool)) func() guard.Policy {
	allowed, _ := guard.ParsePolicy(network)
	return func() guard.Policy {
		value, set := lookup(guard.AllowVariable)
		if !set {
			return allowed
		}
		narrow, _ := guard.ParsePolicy(guard.SplitHosts(value))
		return allowed.Narrow(narrow)
	}
}

// CodeOf returns the code of an error of this package; connect for any other error, and the empty code for nil.
func CodeOf(err error) guard.Code {
	if code, ok := errors.AsType[guard.Code](err); ok || err == nil {
		return code
	}
	return guard.ConnectFailed
}

// StatusError is the status of a response that is neither a page nor a redirect. Its code is status.
type StatusError int

// Error returns a constant text.
func (s StatusError) Error() string { return guard.BadStatus.Error() }

// Unwrap returns the code.
func (s StatusError) Unwrap() error { return guard.BadStatus }

// Status returns the status, if it has three digits; otherwise 0.
func (s StatusError) Status() int {
	if s < 100 || s > 999 {
		return 0
	}
	return int(s)
}

// StatusOf returns the status of a [StatusError], and 0 of another error.
func StatusOf(err error) int {
	status, _ := errors.AsType[StatusError](err)
	return status.Status()
}
