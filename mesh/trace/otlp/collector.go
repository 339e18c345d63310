package otlp

import (
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
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

var (
	// ErrEndpoint says that an endpoint is no http or https URL, or holds a password or a
	// query.
	ErrEndpoint = errors.New("expected an http or https URL without password and query")
	// ErrPlaintext says that traces would leave the machine in the clear.
	ErrPlaintext = errors.New("traces would leave this machine without TLS")
)

// Path is where collectors take traces, below the URL that they are known by.
const Path = "/v1/traces"

const (
	contentType = "application/x-protobuf"
	// maxReply bounds what is read of a collector's reply.
	maxReply = 64 << 10
)

// collector is the way to one collector. The sender alone uses it.
type collector struct {
	*otlptrace.Exporter

	transport *http.Transport
	rejected  int64 // spans, by the last reply
}

// CheckEndpoint reports what is wrong with a URL to send traces to: [ErrEndpoint]
// or [ErrPlaintext].
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
		return nil, ErrEndpoint // the exporter would leave it out
	}
	return u, nil
}

func newCollector(c Config) (*collector, error) {
	u, err := parseEndpoint(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	to := &collector{transport: newTransport(u.Scheme, c.Roots)}
	// The exporter reads the environment too: options come before it. Without the
	// nil, it would refuse http where a variable names a certificate.
	to.Exporter, err = otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(c.Endpoint), otlptracehttp.WithHeaders(c.Headers), otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithTLSClientConfig(nil), otlptracehttp.WithMaxResponseSize(maxReply),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: maxPause, MaxElapsedTime: patience}),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: to, Timeout: sendTimeout,
			// Elsewhere may be in the clear.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	return to, nil
}

// newTransport goes in the clear to this machine alone, and has no proxy: in the
// clear nothing may pass one, and TLS need not.
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

// RoundTrip reads how many spans a collector rejected, which the exporter puts into
// a text, and hides the collector's own words, which it would put there as well.
// The exporter calls it on the sender's goroutine.
func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	c.rejected = 0
	response, err := c.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	_ = response.Body.Close() // it was only read
	code := response.StatusCode
	said := ""
	if code < 200 || code > 299 {
		said = fmt.Sprintf("it answers %d", code)
	} else if err == nil && response.Header.Get("Content-Type") == contentType {
		// A reply that cannot be read takes nothing back.
		var answer collectorpb.ExportTraceServiceResponse
		if proto.Unmarshal(reply, &answer) == nil {
			c.rejected = max(0, answer.GetPartialSuccess().GetRejectedSpans())
		}
	}
	response.Status, response.Body = strconv.Itoa(code), io.NopCloser(strings.NewReader(said))
	return response, nil
}

// send sends spans, several times where that may help, and returns how many of
// them the collector does not have.
func (c *collector) send(ctx context.Context, spans []sdk.ReadOnlySpan) (lost int, err error) {
	if err := c.ExportSpans(ctx, spans); err != nil {
		return len(spans), err
	}
	return int(min(c.rejected, int64(len(spans)))), nil
}

func (c *collector) close(ctx context.Context) {
	_ = c.Shutdown(ctx) // nothing is sent any more
	c.transport.CloseIdleConnections()
}
