package a2a

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

var (
	// ErrURL says that a URL cannot be that of an agent.
	ErrURL = errors.New("a2a: expected an agent's origin: https://HOST, or http on this machine")
	// ErrCard says that the agent's card is not the pinned one.
	ErrCard = errors.New("a2a: the agent's card has changed")

	errRedirect = errors.New("a2a: a redirect")
)

// Card is an agent's description of itself. Its texts are the agent's own: show them
// inert.
type Card struct {
	// SHA256 is of the card's canonical form (RFC 8785).
	SHA256                     [sha256.Size]byte
	Name, Description, Version string
	Skills                     []string // names
	// Interfaces are the ways to ask it, as "JSONRPC 1.0 https://HOST/PATH".
	Interfaces []string
}

// endpoint is the address of the agent.
type endpoint struct {
	transport a2aclient.Transport
	tenant    string
}

// Look reads the card of the agent at an origin. Errors are [ErrURL] and
// [*stdio.RunError].
func Look(ctx context.Context, origin string) (Card, error) {
	u, err := parseAgentURL(origin)
	if err != nil {
		return Card{}, err
	}
	card, sum, err := read(ctx, newClient(), u)
	if err != nil {
		return Card{}, err
	}
	c := Card{SHA256: sum, Name: card.Name, Description: card.Description, Version: card.Version}
	for _, s := range card.Skills {
		c.Skills = append(c.Skills, s.Name)
	}
	for _, i := range card.SupportedInterfaces {
		if i != nil {
			c.Interfaces = append(c.Interfaces, string(i.ProtocolBinding)+" "+string(i.ProtocolVersion)+" "+i.URL)
		}
	}
	return c, nil
}

// endpoint checks, once in cardAge, that the agent has the pinned card, and returns its
// address.
func (a *Agent) endpoint(ctx context.Context) (endpoint, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.looked.IsZero() && time.Since(a.looked) < cardAge {
		return a.current, nil
	}
	card, sum, err := read(ctx, a.client, a.origin)
	if err != nil {
		return endpoint{}, err
	}
	if sum != a.pin {
		return endpoint{}, ErrCard
	}
	for _, i := range card.SupportedInterfaces {
		if i == nil || i.ProtocolBinding != protocol.TransportProtocolJSONRPC || i.ProtocolVersion != protocol.Version {
			continue
		}
		u, err := url.Parse(i.URL)
		if err != nil || u.Scheme != a.origin.Scheme || u.Host != a.origin.Host || u.User != nil {
			return endpoint{}, &stdio.RunError{Reason: "its card sends queries to another origin"}
		}
		a.current, a.looked = endpoint{a2aclient.NewJSONRPCTransport(u.String(), a.client), i.Tenant}, time.Now()
		return a.current, nil
	}
	return endpoint{}, &stdio.RunError{Reason: "its card has no JSON-RPC interface of version 1.0"}
}

const cardPath = "/.well-known/agent-card.json"

// read gets a card with its hash.
func read(ctx context.Context, client *http.Client, origin *url.URL) (card protocol.AgentCard, sum [sha256.Size]byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, origin.JoinPath(cardPath).String(), nil)
	if err != nil {
		return card, sum, ErrURL
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return card, sum, failure(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return card, sum, &stdio.RunError{Reason: "it has no card at " + cardPath, Again: true}
	}
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return card, sum, failure(err)
	}
	canonical := jsontext.Value(bytes.Clone(b))
	if canonical.Canonicalize() != nil || json.Unmarshal(b, &card) != nil {
		return card, sum, &stdio.RunError{Reason: "its card cannot be read"}
	}
	return card, sha256.Sum256(canonical), nil
}

// parseAgentURL reads the URL of an agent. What crosses the network is encrypted.
func parseAgentURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return nil, ErrURL
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isThisMachine(u.Hostname())) {
		return nil, ErrURL
	}
	u.Path = ""
	return u, nil
}

// isThisMachine reports whether a host is this machine.
func isThisMachine(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// newClient returns a client that follows no redirects and reads at most maxBody bytes
// of a response.
func newClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		Transport: bounded{&http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2: true, MaxIdleConns: maxIdle, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
		}},
	}
}

// bounded limits the size of each response.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	}
	return response, err
}
