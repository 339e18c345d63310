package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Limits of one exporter.
const (
	// maxSpans is how many spans may wait for the collector.
	maxSpans = 32 << 10
	// spanWait is how long a span waits for others.
	spanWait = time.Second
	// maxBatch is the number of spans in a request.
	maxBatch = 1024
	// sendTimeout bounds one request.
	sendTimeout = 10 * time.Second
	// patience is how long a batch is retried, with a backoff from about firstPause
	// to maxPause, or as long as the collector says.
	firstPause = time.Second
	maxPause   = 30 * time.Second
	patience   = 30 * time.Second
)

// What becomes of spans.
const (
	sent        = "sent"
	undelivered = "undelivered" // the collector could not be reached, or refused them
	dropped     = "dropped"     // too many were waiting
)

// ExportConfig configures an exporter.
type ExportConfig struct {
	// Endpoint is the collector's URL for traces. Over http it must be of this
	// machine. It is required, like Definition.
	Endpoint   string
	Definition *bcp.Mesh
	// Version is the program's.
	Version string
	// Counted, if set, is called with what became of spans. It must not block, and is
	// called concurrently.
	Counted func(outcome string, spans int)
	// Logger, nil discards.
	Logger hclog.Logger
}

// Exporter sends traces until Stop. Its methods may be used concurrently.
type Exporter struct {
	collector *collector
	provider  *sdktrace.TracerProvider

	mu         sync.Mutex
	projection *projection // nil after Stop
}

// Export begins to send. It does not wait for the collector. The error is about
// the endpoint: [ErrEndpoint] or [ErrPlaintext].
func Export(config ExportConfig) (*Exporter, error) {
	if config.Definition == nil {
		return nil, errors.New("send traces: a definition is needed")
	}
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Counted == nil {
		config.Counted = func(string, int) {}
	}
	to, err := newCollector(config)
	if err != nil {
		return nil, err
	}
	about := []attribute.KeyValue{attribute.String("service.name", "bcpmesh"), attribute.String("bcp.mesh", config.Definition.Name)}
	if config.Version != "" {
		about = append(about, attribute.String("service.version", config.Version))
	}
	// Each option is set that would otherwise be read in the environment.
	queue := sdktrace.NewBatchSpanProcessor(to, sdktrace.WithMaxQueueSize(maxSpans), sdktrace.WithMaxExportBatchSize(maxBatch),
		sdktrace.WithBatchTimeout(spanWait), sdktrace.WithExportTimeout(0))
	e := &Exporter{collector: to, provider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(bounded{queue, to}), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: -1, AttributeCountLimit: -1}), sdktrace.WithResource(resource.NewSchemaless(about...)))}
	e.projection = newProjection(e.provider.Tracer("github.com/bcpmesh/bcpmesh/mesh/telemetry", oteltrace.WithInstrumentationVersion(config.Version)), config.Definition)
	return e, nil
}

// bounded is the queue of spans that are not sent. OpenTelemetry's own drops what
// does not fit without a word.
type bounded struct {
	sdktrace.SpanProcessor
	to *collector
}

// OnEnd implements [sdktrace.SpanProcessor].
func (b bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if b.to.waiting.Add(1) > maxSpans {
		b.to.waiting.Add(-1)
		b.to.config.Counted(dropped, 1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

// Observe takes a stored decision. It does not wait for the collector.
func (e *Exporter) Observe(d *bcp.Decision) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.projection != nil {
		e.projection.add(d, now)
	}
}

// Use switches to other definitions.
func (e *Exporter) Use(definition *bcp.Mesh) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.projection != nil {
		e.projection.use(definition)
	}
}

// Stop sends the queue until ctx ends, and drops the rest. Open exchanges are
// sent as unfinished. Later decisions are ignored.
func (e *Exporter) Stop(ctx context.Context) {
	e.mu.Lock()
	last := e.projection
	e.projection = nil
	e.mu.Unlock()
	if last != nil {
		last.end(time.Now())
	}
	defer context.AfterFunc(ctx, e.collector.giveUp)()
	_ = e.provider.Shutdown(context.Background()) // the collector's errors are counted
	e.collector.giveUp()
	e.collector.transport.CloseIdleConnections()
}
