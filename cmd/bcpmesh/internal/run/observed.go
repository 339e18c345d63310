package run

import (
	"context"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
	"github.com/bcpmesh/bcpmesh/mesh/trace/otlp"
)

// observed are the flags of what looks at a gateway from outside, and what came of
// them.
type observed struct {
	metricsAt string
	tokenFile string
	token     string // that who scrapes has to send
	measured  bool   // serve them
	tracesTo  string

	traces   otlp.Config
	metrics  *telemetry.Metrics // nil where none are served
	exporter *otlp.Exporter     // nil where none are sent
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
		traces.Counter = o.metrics
	}
	if traces.Endpoint == "" {
		return of, nil
	}
	traces.Definition, traces.Version, traces.Logger = def, cli.ProgramVersion(), logger.Named("traces")
	if o.exporter, err = otlp.Start(traces); err != nil {
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
