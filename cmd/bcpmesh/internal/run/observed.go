package run

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

// observed are the flags of what looks at a gateway from outside, and what came of
// them.
type observed struct {
	ReadyFile string
	LogLevel  cli.WordFlag `words:"debug info warn error"`
	Metrics   string       // an address
	TokenFile string
	Traces    string // a URL
	Command   *cobra.Command

	measured bool // --metrics is given
	level    hclog.Level
	token    string              // that who scrapes has to send
	metrics  *telemetry.Metrics  // nil where none are served
	exporter *telemetry.Exporter // nil where none are sent
	serves   *telemetry.Server
}

// check reads the flags.
func (o *observed) check() (err error) {
	o.level, o.measured = hclog.LevelFromString(o.LogLevel.Value), o.Command.Flags().Changed("metrics")
	if o.TokenFile != "" && !o.measured {
		return cli.Usagef("up: --token-file needs --metrics").WithHint("for example --metrics 0.0.0.0:9464 --token-file FILE")
	}
	if o.measured {
		if o.TokenFile != "" {
			if o.token, err = readToken(o.TokenFile); err != nil {
				return err
			}
		}
		if err := meshdir.CheckListen("--metrics", o.Metrics, o.token != ""); err != nil {
			return err
		}
	}
	if o.Traces == "" {
		return nil
	}
	o.Traces = tracesBelow(o.Traces)
	if err := telemetry.CheckEndpoint(o.Traces); err != nil {
		return tracesFailure(err, o.Traces)
	}
	return nil
}

// readToken reads the token of a file, whose last line break is none of it.
func readToken(file string) (string, error) {
	content, err := cli.ReadSmall(file)
	if err != nil {
		return "", cli.Failf("--token-file: %s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
	}
	token := strings.TrimRight(string(content), "\r\n")
	if err := telemetry.CheckToken(token); err != nil {
		return "", cli.Failf("--token-file: %s holds no token: %s", cli.Quoted(file), err).WithHint("openssl rand -hex 32 >%s", file)
	}
	return token, nil
}

// start begins to look at a mesh, which tells of each decision and each reload.
func (o *observed) start(def *bcp.Mesh, config *mesh.Config) (err error) {
	traces := telemetry.ExportConfig{Endpoint: o.Traces, Definition: def, Version: cli.ProgramVersion(), Logger: config.Logger.Named("traces")}
	var decided []func(*bcp.Decision)
	var loaded []func(*bcp.Mesh)
	if o.measured {
		o.metrics = telemetry.New(def)
		decided, loaded = append(decided, o.metrics.Observe), append(loaded, o.metrics.Use)
		config.OnNotified, traces.Counted = o.metrics.Notified, o.metrics.Spans
	}
	if traces.Endpoint != "" {
		if o.exporter, err = telemetry.Export(traces); err != nil {
			return tracesFailure(err, traces.Endpoint)
		}
		decided, loaded = append(decided, o.exporter.Observe), append(loaded, o.exporter.Use)
	}
	config.OnDecision, config.OnReload = each(decided), each(loaded)
	return nil
}

// each calls some functions one after the other; nil of none.
func each[T any](functions []func(T)) func(T) {
	if len(functions) == 0 {
		return nil
	}
	return func(v T) {
		for _, f := range functions {
			f(v)
		}
	}
}

// announce serves the metrics of what runs, and says to files and people what there is.
func (o *observed) announce(ctx context.Context, p *cli.Program, about meshdir.Ready, source telemetry.Source, files []string, says func()) (err error) {
	about.Traces = o.Traces
	if o.metrics != nil {
		if o.serves, err = telemetry.Serve(ctx, o.Metrics, o.token, o.metrics, source); err != nil {
			return metricsFailure(err, o.Metrics)
		}
		about.Metrics = o.serves.URL()
	}
	for _, name := range files {
		if err := meshdir.WriteReady(name, about); err != nil {
			return cli.NotWritten(name, err)
		}
	}
	if err := p.Out.Show(about, func() {
		says()
		for _, at := range [][2]string{{"metrics at", about.Metrics}, {"pages at", about.Web}, {"traces go to", about.Traces}} {
			if at[1] != "" {
				p.Out.Talkf("%s %s", at[0], cli.Plain(at[1]))
			}
		}
	}); err != nil {
		return err
	}
	return p.Out.Flush()
}

// stop ends both.
func (o *observed) stop() {
	if o.serves != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = o.serves.Stop(ctx) // what is scraped now is lost, and nothing else
	}
	if o.exporter != nil {
		ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
		defer cancel()
		o.exporter.Stop(ctx)
	}
}

// tracesTimeout is how long the end of a mesh waits for the collector.
const tracesTimeout = 3 * time.Second

// tracesBelow completes a URL that names a collector and no path.
func tracesBelow(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" && strings.Trim(u.Path, "/") == "" {
		return u.JoinPath(telemetry.TracesPath).String()
	}
	return endpoint
}

// withoutQuery is what people are shown: a query may hold a password.
func withoutQuery(endpoint string) string {
	shown, _, _ := strings.Cut(endpoint, "?")
	return shown
}

// tracesFailure says why traces cannot be sent there. The mesh does not go on
// without them: whoever asked for them would miss them when it counts.
func tracesFailure(err error, endpoint string) *cli.Failure {
	if errors.Is(err, telemetry.ErrPlaintext) {
		return cli.Failf("--traces %s is on another machine, and there is no TLS", cli.Quoted(withoutQuery(endpoint))).
			WithHint("use https://…, or a collector on this machine that forwards them")
	}
	return cli.Usagef("up: --traces: %s, got %s", telemetry.ErrEndpoint, cli.Quoted(withoutQuery(endpoint))).WithHint("for example http://127.0.0.1:4318")
}
