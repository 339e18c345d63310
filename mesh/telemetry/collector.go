package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

var (
	// ErrEndpoint says that an endpoint is not an http or https URL, or contains a
	// password or a query.
	ErrEndpoint = errors.New("expected an http or https URL without password and query")
	// ErrPlaintext says that traces would leave the machine in cleartext.
	ErrPlaintext = errors.New("traces would leave this machine without TLS")
)

// TracesPath is the path for traces below a collector's URL.
const TracesPath = "/v1/traces"

// maxReply bounds how much of a collector's reply is read.
const maxReply = 64 << 10

// collector sends to one collector, by OpenTelemetry's client. It sends one batch at a time.
type collector struct {
	*otlptrace.Exporter
	config    ExportConfig
	transport *http.Transport
	status    int // of the last answer, 0 for none
	failing   bool
	waiting   atomic.Int64    // spans that are not sent
	patient   context.Context // ends when nothing more is to be sent
	giveUp    context.CancelFunc
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
	case u.Scheme == "http" && !guard.Loopback(u.Hostname()):
		return nil, ErrPlaintext
	case u.RawQuery != "":
		return nil, ErrEndpoint // it may contain a password, which logs would show
	}
	return u, nil
}

// newCollector sets each option that the client would otherwise read in the environment.
func newCollector(c ExportConfig) (*collector, error) {
	u, err := parseEndpoint(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	to := &collector{config: c, transport: fetch.NewServiceTransport(u.Scheme, sendTimeout, ErrPlaintext)}
	to.transport.MaxIdleConns, to.transport.MaxConnsPerHost, to.transport.IdleConnTimeout = 1, 1, time.Minute
	to.patient, to.giveUp = context.WithCancel(context.Background())
	otel.SetLogger(logr.Discard()) // it would write variables that it cannot read to stderr
	to.Exporter = otlptrace.NewUnstarted(otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithHeaders(map[string]string{}), otlptracehttp.WithCompression(otlptracehttp.NoCompression),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf), otlptracehttp.WithMaxResponseSize(maxReply),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: maxPause, MaxElapsedTime: patience}),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: to, Timeout: sendTimeout,
			// Elsewhere may be in the clear.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		})))
	return to, to.Start(context.Background())
}

// RoundTrip notes what the collector answers: the client's errors hold its text.
func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	c.status = 0
	response, err := c.transport.RoundTrip(r)
	if err == nil {
		c.status = response.StatusCode
	}
	return response, err
}

// rejectedSpans is the end of the client's error for spans that the collector took and
// did not keep. The collector's own text is before it.
var rejectedSpans = regexp.MustCompile(`\(([0-9]+) spans rejected\)$`)

// ExportSpans implements [sdktrace.SpanExporter]. It retries if that may help, counts what the collector does not have,
// and logs the first of several batches of which some is lost, and the first that is not. None of the collector's text is
// in the log, and there is no error, which OpenTelemetry would write to stderr.
func (c *collector) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	defer c.waiting.Add(-int64(len(spans)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.patient, cancel)()
	lost, err := c.send(ctx, spans)
	if lost > 0 {
		c.config.Counted(undelivered, lost)
	}
	c.config.Counted(sent, len(spans)-lost)
	switch failing := lost > 0; {
	case failing == c.failing || c.patient.Err() != nil:
	case failing:
		c.config.Logger.Warn("traces are lost: the collector does not take them", "error", err)
	default:
		c.config.Logger.Warn("the collector takes traces again")
	}
	c.failing = lost > 0
	return nil
}

// send returns how many spans the collector does not have, and why in our words.
func (c *collector) send(ctx context.Context, spans []sdktrace.ReadOnlySpan) (lost int, err error) {
	c.status = 0
	err = c.Exporter.ExportSpans(ctx, spans)
	switch {
	case err == nil:
		return 0, nil
	case c.status >= 200 && c.status <= 299:
		if rejected := rejectedSpans.FindStringSubmatch(err.Error()); rejected != nil {
			lost, _ = strconv.Atoi(rejected[1]) // beyond all numbers it is 0 or more
		}
		return min(lost, len(spans)), fmt.Errorf("it rejects %d spans", lost)
	case c.status != 0:
		return len(spans), fmt.Errorf("it answers %d", c.status)
	}
	return len(spans), err // it was not reached
}
