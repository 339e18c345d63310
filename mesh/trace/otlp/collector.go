package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

var (
	// ErrEndpoint says that an endpoint is not an http or https URL, or contains a
	// password or a query.
	ErrEndpoint = errors.New("expected an http or https URL without password and query")
	// ErrPlaintext says that traces would leave the machine in cleartext.
	ErrPlaintext = errors.New("traces would leave this machine without TLS")
)

// Path is the path for traces below a collector's URL.
const Path = "/v1/traces"

const (
	contentType = "application/x-protobuf"
	// maxReply bounds how much of a collector's reply is read.
	maxReply = 64 << 10
)

// collector is the client of one collector. Only the sender uses it.
type collector struct {
	endpoint string
	headers  map[string]string
	gzip     bool
	sender   sender
	client   *http.Client
}

// CheckEndpoint returns an error for a URL that traces cannot be sent to:
// [ErrEndpoint] or [ErrPlaintext].
func CheckEndpoint(endpoint string) error {
	_, err := parseEndpoint(endpoint)
	return err
}

func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return nil, ErrEndpoint
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, ErrPlaintext
	case u.RawQuery != "":
		return nil, ErrEndpoint // it may contain a password, which logs would show
	}
	return u, nil
}

func newCollector(c Config) (*collector, error) {
	u, err := parseEndpoint(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	return &collector{endpoint: c.Endpoint, headers: c.Headers, gzip: c.Gzip, sender: newSender(c), client: &http.Client{
		Transport: newTransport(u.Scheme, c.Roots), Timeout: sendTimeout,
		// Elsewhere may be in the clear.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// newTransport allows cleartext only to this machine, and uses no proxy:
// cleartext must not pass one, and TLS does not need one.
func newTransport(scheme string, roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: sendTimeout}
	if scheme == "http" {
		// What localhost is, the system says.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if host, _, err := net.SplitHostPort(address); err != nil || !isLoopback(host) {
				return ErrPlaintext
			}
			return nil
		}
	}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: sendTimeout, MaxIdleConns: 1, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxReply,
	}
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// send sends spans, with retries if they may help, and returns how many of them the
// collector does not have. The error contains none of the collector's text.
func (c *collector) send(ctx context.Context, spans []*tracepb.Span) (lost int, err error) {
	body, err := c.sender.request(spans)
	if err == nil && c.gzip {
		body, err = packed(body)
	}
	if err != nil {
		return len(spans), err
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, maxPause
	rejected, err := backoff.Retry(ctx, func() (int64, error) { return c.post(ctx, body) },
		backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(patience))
	if err != nil {
		return len(spans), err
	}
	return int(min(rejected, int64(len(spans)))), nil
}

// post sends one request, and returns how many spans the collector rejected.
func (c *collector) post(ctx context.Context, body []byte) (rejected int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, backoff.Permanent(err)
	}
	for name, value := range c.headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", contentType)
	if c.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := c.client.Do(request)
	if err != nil {
		var failed interface{ Timeout() bool }
		if errors.As(err, &failed) && failed.Timeout() {
			return 0, err
		}
		return 0, backoff.Permanent(err) // no listener, or an invalid certificate
	}
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	_ = response.Body.Close() // it was only read
	switch code := response.StatusCode; code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if pause, ok := retryAfter(response.Header.Get("Retry-After"), time.Now()); ok {
			return 0, fmt.Errorf("it answers %d: %w", code, &backoff.RetryAfterError{Duration: pause})
		}
		return 0, fmt.Errorf("it answers %d", code)
	default:
		if code < 200 || code > 299 {
			return 0, backoff.Permanent(fmt.Errorf("it answers %d", code))
		}
	}
	if err != nil || len(reply) > maxReply || response.Header.Get("Content-Type") != contentType {
		return 0, nil // an unreadable reply changes nothing
	}
	return parseRejected(reply), nil
}

// retryAfter parses the header of that name: seconds or a date (RFC 9110, section
// 10.2.3).
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(text)
	return max(0, date.Sub(now)), err == nil
}

// parseRejected reads partial_success.rejected_spans of an ExportTraceServiceResponse,
// field 1 of field 1. What cannot be read says nothing.
func parseRejected(reply []byte) int64 {
	partial, _ := fieldOne(reply, protowire.BytesType)
	_, rejected := fieldOne(partial, protowire.VarintType)
	return max(0, int64(rejected))
}

// fieldOne returns the last field of number 1 and a type; nothing if the message is damaged.
func fieldOne(message []byte, want protowire.Type) (content []byte, number uint64) {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, 0
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
			return nil, 0
		}
		if field == 1 && kind == want {
			if want == protowire.BytesType {
				content, _ = protowire.ConsumeBytes(message)
			} else {
				number, _ = protowire.ConsumeVarint(message)
			}
		}
		message = message[n:]
	}
	return content, number
}

func packed(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (c *collector) close() { c.client.CloseIdleConnections() }
