package run

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/trace/otlp"
)

// maxRoots bounds a file of certificates, in bytes.
const maxRoots = 1 << 20

// tracesTimeout is how long the end of a mesh waits for the collector.
const tracesTimeout = 3 * time.Second

// traceConfig returns where traces go, by the flag or by the environment variables of
// OpenTelemetry, and an empty endpoint if they go nowhere.
func traceConfig(flag string, env func(string) string) (otlp.Config, error) {
	var c otlp.Config
	from, endpoint := "--traces", flag
	switch {
	case endpoint != "":
		endpoint = tracesBelow(endpoint)
	case env("OTEL_SDK_DISABLED") == "true", env("OTEL_TRACES_EXPORTER") == "none":
		return c, nil
	case env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "":
		from, endpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	case env("OTEL_EXPORTER_OTLP_ENDPOINT") != "":
		from, endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT", strings.TrimSuffix(env("OTEL_EXPORTER_OTLP_ENDPOINT"), "/")+otlp.Path
	default:
		return c, nil
	}
	if protocol := tracesVariable(env, "PROTOCOL"); flag == "" && protocol != "" && protocol != "http/protobuf" {
		return c, cli.Failf("OTEL_EXPORTER_OTLP_PROTOCOL is %s: traces are sent as http/protobuf only", cli.Quoted(protocol)).
			WithHint("collectors accept it on port 4318; or set OTEL_TRACES_EXPORTER=none")
	}
	c.Endpoint, c.Service = endpoint, env("OTEL_SERVICE_NAME")
	if err := otlp.CheckEndpoint(endpoint); err != nil {
		return c, tracesFailure(err, from, endpoint)
	}
	var err error
	if c.Headers, err = parseHeaders(tracesVariable(env, "HEADERS")); err != nil {
		return c, cli.Failf("OTEL_EXPORTER_OTLP_HEADERS: %s", err).WithHint("for example Authorization=Bearer%%20…")
	}
	if name := tracesVariable(env, "CERTIFICATE"); name != "" {
		pem, err := folder.ReadFile(name, maxRoots)
		if err != nil {
			return c, cli.Failf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		c.Roots = x509.NewCertPool()
		if !c.Roots.AppendCertsFromPEM(pem) {
			return c, cli.Failf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s holds no certificate", cli.Quoted(name))
		}
	}
	switch packing := tracesVariable(env, "COMPRESSION"); packing {
	case "", "none":
	case "gzip":
		c.Gzip = true
	default:
		return c, cli.Failf("OTEL_EXPORTER_OTLP_COMPRESSION is %s: expected gzip or none", cli.Quoted(packing))
	}
	return c, nil
}

// tracesVariable is a variable for traces, or the one for all signals.
func tracesVariable(env func(string) string, name string) string {
	if value := env("OTEL_EXPORTER_OTLP_TRACES_" + name); value != "" {
		return value
	}
	return env("OTEL_EXPORTER_OTLP_" + name)
}

// tracesBelow completes a URL that names a collector and no path.
func tracesBelow(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" && strings.Trim(u.Path, "/") == "" {
		return u.JoinPath(otlp.Path).String()
	}
	return endpoint
}

// withoutQuery is what people are shown: a query may hold a password.
func withoutQuery(endpoint string) string {
	shown, _, _ := strings.Cut(endpoint, "?")
	return shown
}

var errHeaders = errors.New("expected NAME=VALUE, separated by commas, values percent-encoded")

// parseHeaders reads headers as OpenTelemetry writes them.
func parseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errHeaders
		}
		headers[name] = value
	}
	return headers, nil
}

// tracesFailure says why traces cannot be sent there. The mesh does not go on
// without them: whoever asked for them would miss them when it counts.
func tracesFailure(err error, from, endpoint string) *cli.Failure {
	if errors.Is(err, otlp.ErrPlaintext) {
		return cli.Failf("%s %s is on another machine, and there is no TLS", from, cli.Quoted(withoutQuery(endpoint))).
			WithHint("use https://…, or a collector on this machine that forwards them")
	}
	bad := cli.Failf
	if from == "--traces" {
		bad, from = cli.Usagef, "up: --traces"
	}
	return bad("%s: %s, got %s", from, otlp.ErrEndpoint, cli.Quoted(withoutQuery(endpoint))).WithHint("for example http://127.0.0.1:4318")
}

func stopTraces(e *otlp.Exporter) {
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	e.Stop(ctx)
}
