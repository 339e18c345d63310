package run

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
	"github.com/bcpmesh/bcpmesh/mesh/trace"
)

// observed are the flags of what looks at a gateway from outside, and what came of
// them.
type observed struct {
	metricsAt string
	tokenFile string
	token     string // that who scrapes has to send
	measured  bool   // serve them
	tracesTo  string

	traces   trace.Config
	metrics  *telemetry.Metrics // nil where none are served
	exporter *trace.Exporter    // nil where none are sent
	serves   *telemetry.Server
}

func (o *observed) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.metricsAt, "metrics", "", "serve metrics at `HOST:PORT` of this machine; port 0 means any free one")
	cmd.Flags().StringVar(&o.tokenFile, "metrics-token", "", "serve /metrics to clients with the token in `FILE`, also from other machines")
	cmd.Flags().StringVar(&o.tracesTo, "traces", "", "send traces to the OpenTelemetry collector at `URL`")
}

// check reads the flags, and the environment.
func (o *observed) check(p *cli.Program) (err error) {
	if o.tokenFile != "" && !o.measured {
		return cli.Usagef("up: --metrics-token needs --metrics").WithHint("for example --metrics 0.0.0.0:9464 --metrics-token FILE")
	}
	if o.measured {
		if o.tokenFile != "" {
			if o.token, err = readToken(o.tokenFile); err != nil {
				return err
			}
		}
		if err := meshdir.CheckListen("--metrics", o.metricsAt, o.token != ""); err != nil {
			return err
		}
	}
	o.traces, err = traceConfig(o.tracesTo, p.Env)
	return err
}

// readToken reads the token of a file, whose last line break is none of it.
func readToken(file string) (string, error) {
	content, err := cli.ReadSmall(file)
	if err != nil {
		return "", cli.Failf("--metrics-token: %s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
	}
	token := strings.TrimRight(string(content), "\r\n")
	if err := telemetry.CheckToken(token); err != nil {
		return "", cli.Failf("--metrics-token: %s holds no token: %s", cli.Quoted(file), err).WithHint("openssl rand -hex 32 >%s", file)
	}
	return token, nil
}

// observer is what is to be called with each decision, and with the definitions of a
// reload; nil if nobody looks.
type observer struct {
	decision func(*bcp.Decision)
	reload   func(*bcp.Mesh)
	notified func(route string, err error)
}

// start begins to look at a mesh.
func (o *observed) start(def *bcp.Mesh, logger hclog.Logger) (of observer, err error) {
	traces := o.traces
	if o.measured {
		o.metrics = telemetry.New(def)
		of = observer{o.metrics.Observe, o.metrics.Use, o.metrics.Notified}
		traces.Counted = o.metrics.Spans
	}
	if traces.Endpoint == "" {
		return of, nil
	}
	traces.Definition, traces.Version, traces.Logger = def, cli.ProgramVersion(), logger.Named("traces")
	if o.exporter, err = trace.Start(traces); err != nil {
		return observer{}, tracesFailure(err, "traces", traces.Endpoint)
	}
	return observer{callBoth(of.decision, o.exporter.Observe), callBoth(of.reload, o.exporter.Use), of.notified}, nil
}

// serve serves the metrics of what runs, and says where they and the traces are.
func (o *observed) serve(ctx context.Context, about *meshdir.Ready, source telemetry.Source) (err error) {
	about.Traces = o.traces.Endpoint
	if o.metrics == nil {
		return nil
	}
	if o.serves, err = telemetry.Serve(ctx, o.metricsAt, o.token, o.metrics, source); err != nil {
		return metricsFailure(err, o.metricsAt)
	}
	about.Metrics = o.serves.URL()
	return nil
}

// stop ends both.
func (o *observed) stop() {
	if o.serves != nil {
		stopMetrics(o.serves)
	}
	if o.exporter != nil {
		stopTraces(o.exporter)
	}
}

// maxRoots bounds a file of certificates, in bytes.
const maxRoots = 1 << 20

// tracesTimeout is how long the end of a mesh waits for the collector.
const tracesTimeout = 3 * time.Second

// traceConfig returns where traces go, by the flag or by the environment variables of
// OpenTelemetry, and an empty endpoint if they go nowhere.
func traceConfig(flag string, env func(string) string) (trace.Config, error) {
	var c trace.Config
	from, endpoint := "--traces", flag
	switch {
	case endpoint != "":
		endpoint = tracesBelow(endpoint)
	case env("OTEL_SDK_DISABLED") == "true", env("OTEL_TRACES_EXPORTER") == "none":
		return c, nil
	case env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "":
		from, endpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	case env("OTEL_EXPORTER_OTLP_ENDPOINT") != "":
		from, endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT", strings.TrimSuffix(env("OTEL_EXPORTER_OTLP_ENDPOINT"), "/")+trace.Path
	default:
		return c, nil
	}
	if protocol := tracesVariable(env, "PROTOCOL"); flag == "" && protocol != "" && protocol != "http/protobuf" {
		return c, cli.Failf("OTEL_EXPORTER_OTLP_PROTOCOL is %s: traces are sent as http/protobuf only", cli.Quoted(protocol)).
			WithHint("collectors accept it on port 4318; or set OTEL_TRACES_EXPORTER=none")
	}
	c.Endpoint, c.Service = endpoint, env("OTEL_SERVICE_NAME")
	if err := trace.CheckEndpoint(endpoint); err != nil {
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
		return u.JoinPath(trace.Path).String()
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
	if errors.Is(err, trace.ErrPlaintext) {
		return cli.Failf("%s %s is on another machine, and there is no TLS", from, cli.Quoted(withoutQuery(endpoint))).
			WithHint("use https://…, or a collector on this machine that forwards them")
	}
	bad := cli.Failf
	if from == "--traces" {
		bad, from = cli.Usagef, "up: --traces"
	}
	return bad("%s: %s, got %s", from, trace.ErrEndpoint, cli.Quoted(withoutQuery(endpoint))).WithHint("for example http://127.0.0.1:4318")
}

func stopTraces(e *trace.Exporter) {
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	e.Stop(ctx)
}
