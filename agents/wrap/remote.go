package wrap

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	dialTimeout = 10 * time.Second // TCP, and TLS
	// maxResponse bounds a response of a server, in bytes: of a stream all of its events.
	maxResponse       = maxLine + 1<<20
	maxResponseHeader = 64 << 10
)

// Remote is a server that uses streamable HTTP.
type Remote struct {
	URL   string         // https, or http on this machine
	Key   string         // sent as a bearer token; empty: none
	Roots *x509.CertPool // authorities to believe; nil: those of the system
}

// ErrKey says that the server rejects the key, or requires one.
var ErrKey = errors.New("the server does not accept the key, or wants one")

// Dial opens a session with a server at a URL. It uses no proxy and follows no redirects.
// The server can only send responses: there is no stream for its own requests. The caller
// must call Close.
func Dial(ctx context.Context, server Remote) (*Upstream, error) {
	at, err := url.Parse(server.URL)
	if err != nil || at.Host == "" {
		return nil, errors.New("the server's URL is none")
	}
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: server.Roots},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
	}
	speaks := &speaker{next: transport, scheme: at.Scheme, host: at.Host, key: server.Key}
	ended := make(chan struct{})
	u := &Upstream{done: ended}
	u.end = func() {
		if u.session != nil {
			_ = u.session.Close() // ignore errors: the server may be gone
		}
		transport.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	speaks.as = &exact{Transport: &sdk.StreamableClientTransport{
		Endpoint: server.URL, MaxRetries: -1, MaxEventSize: maxLine, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: speaks, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}}
	u.session, err = sdk.NewClient(implementation, nil).Connect(ctx, speaks.as, nil)
	if err != nil {
		u.Close()
		if speaks.refused.Load() {
			return nil, ErrKey
		}
		return nil, errors.New("the server does not speak MCP over streamable HTTP there, or cannot be reached")
	}
	go func() {
		_ = u.session.Wait() // why it ended is the server's
		close(ended)
	}()
	return u, nil
}

// speaker sends requests to one host, with the key, and reads bounded responses.
type speaker struct {
	next         http.RoundTripper
	scheme, host string
	key          string
	as           *exact
	refused      atomic.Bool // a request was
}

// RoundTrip implements [http.RoundTripper].
func (s *speaker) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != s.scheme || r.URL.Host != s.host {
		return nil, errors.New("a request to another host")
	}
	r = r.Clone(r.Context())
	s.as.addVersion(r)
	if s.key != "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	response, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		s.refused.Store(true)
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "application/json" && kind != "text/event-stream" {
		body := bufio.NewReader(response.Body)
		if first, _ := body.Peek(1); string(first) == "{" { // some do not say that it is JSON
			response.Header.Set("Content-Type", "application/json")
		}
		response.Body = struct {
			io.Reader
			io.Closer
		}{body, response.Body}
	}
	return response, nil
}
