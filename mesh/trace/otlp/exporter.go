package otlp

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/trace"
)

// Limits of one exporter.
const (
	// maxFacts is how many decisions may wait to become spans, while others are sent.
	maxFacts = 16384
	// factWait is how long a decision waits for others, unless the queue is half
	// full: waking the goroutine for each would cost more than its spans do.
	factWait = time.Second
	// maxBatch is the number of spans in a request, or a few more.
	maxBatch = 1024
	// sendTimeout bounds one request.
	sendTimeout = 10 * time.Second
	// patience is how long a batch is retried, with a backoff from about firstPause
	// to maxPause, or as long as the collector says.
	firstPause = time.Second
	maxPause   = 30 * time.Second
	patience   = 30 * time.Second
)

// Counter counts results. Its methods must not block, and are called
// concurrently.
type Counter interface {
	SpansSent(n int)
	SpansLost(n int)         // the collector could not be reached, or refused them
	DecisionsUntraced(n int) // too many were waiting
}

// Config configures an exporter.
type Config struct {
	// Endpoint is the collector's URL for traces. Over http it must be of this
	// machine. It is required, like Definition.
	Endpoint   string
	Definition *bcp.Mesh
	// Headers go with each request: a collector's password, perhaps.
	Headers map[string]string
	// Gzip compresses requests.
	Gzip bool
	// Roots verify the collector's certificate; nil means the system's.
	Roots *x509.CertPool
	// Service names the sender; the default is "bcpmesh". Version is the program's.
	Service, Version string
	// Counter, nil counts nothing. Logger, nil discards.
	Counter Counter
	Logger  hclog.Logger
}

// Exporter sends traces until Stop. Its methods may be used concurrently.
type Exporter struct {
	config    Config
	collector *collector

	mu    sync.Mutex
	facts []fact        // not yet taken
	came  chan struct{} // has an element if there are facts
	many  chan struct{} // has an element if there are many

	stopping chan struct{}
	stop     sync.Once
	cancel   context.CancelFunc // cancels the current request
	done     chan struct{}
}

// fact is a queued fact, or definitions for the facts after it.
type fact struct {
	trace.Fact
	use *bcp.Mesh
}

// Start begins to send. It does not wait for the collector. The error is about
// the endpoint: [ErrEndpoint] or [ErrPlaintext].
func Start(config Config) (*Exporter, error) {
	if config.Definition == nil {
		return nil, errors.New("send traces: a definition is needed")
	}
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Counter == nil {
		config.Counter = uncounted{}
	}
	if config.Service == "" {
		config.Service = "bcpmesh"
	}
	collector, err := newCollector(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Exporter{
		config: config, collector: collector, came: make(chan struct{}, 1), many: make(chan struct{}, 1),
		stopping: make(chan struct{}), cancel: cancel, done: make(chan struct{}),
	}
	var key trace.Key
	_, _ = rand.Read(key[:]) // it does not fail
	go e.run(ctx, trace.New(key, config.Definition))
	return e, nil
}

// Observe queues a stored decision. It keeps only its [trace.Fact], and does
// not block.
func (e *Exporter) Observe(d *bcp.Decision) {
	if !trace.Traced(d.Kind) {
		return
	}
	f := fact{Fact: trace.FactOf(d, time.Now())}
	e.mu.Lock()
	full := len(e.facts) >= maxFacts
	if !full {
		e.add(f)
	}
	e.mu.Unlock()
	if full {
		e.config.Counter.DecisionsUntraced(1)
	}
}

// Use switches to other definitions.
func (e *Exporter) Use(definition *bcp.Mesh) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(fact{use: definition})
}

// add needs mu.
func (e *Exporter) add(f fact) {
	e.facts = append(e.facts, f)
	switch len(e.facts) {
	case 1:
		signal(e.came)
	case maxFacts / 2:
		signal(e.many)
	}
}

// signal fills a channel with room for one element.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stop sends the queue until ctx ends, and drops the rest. Open exchanges are
// sent as unfinished. Later decisions are ignored.
func (e *Exporter) Stop(ctx context.Context) {
	e.stop.Do(func() { close(e.stopping) })
	undo := context.AfterFunc(ctx, e.cancel)
	<-e.done
	undo()
	e.cancel()
	e.collector.close()
}

// run makes spans of facts and sends them, until Stop.
func (e *Exporter) run(ctx context.Context, p *trace.Projection) {
	defer close(e.done)
	var facts []fact
	var spans []*tracepb.Span
	failing := false
	add := func(more []trace.Span, least int) {
		if spans = appendSpans(spans, more); len(spans) >= least {
			failing = e.send(ctx, spans, failing)
			spans = nil
		}
	}
	for more := true; more; {
		more = e.wait()
		e.mu.Lock()
		facts, e.facts = e.facts, facts[:0]
		e.mu.Unlock()
		for i := range facts {
			if f := &facts[i]; f.use != nil {
				p.Use(f.use)
			} else {
				add(p.Add(f.Fact), maxBatch)
			}
		}
		clear(facts)
		var unfinished []trace.Span
		if !more {
			unfinished = p.End(time.Now())
		}
		add(unfinished, 1)
	}
}

// wait waits for facts, and for those that come soon after; it returns false at
// the end.
func (e *Exporter) wait() (more bool) {
	select {
	case <-e.came:
	case <-e.stopping:
		return false
	}
	timer := time.NewTimer(factWait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.many:
		return true
	case <-e.stopping:
		return false
	}
}

// send sends a batch, and reports whether some of it is lost. It logs the first of several
// such batches, and the first that is not.
func (e *Exporter) send(ctx context.Context, spans []*tracepb.Span, failing bool) (lost bool) {
	n, err := e.collector.send(ctx, spans)
	if n > 0 {
		e.config.Counter.SpansLost(n)
	}
	e.config.Counter.SpansSent(len(spans) - n)
	switch lost = n > 0; {
	case lost == failing || ctx.Err() != nil:
	case lost:
		e.config.Logger.Warn("traces are lost: the collector does not take them", "error", err)
	default:
		e.config.Logger.Warn("the collector takes traces again")
	}
	return lost
}

// uncounted is a Counter that counts nothing.
type uncounted struct{}

func (uncounted) SpansSent(int)         {}
func (uncounted) SpansLost(int)         {}
func (uncounted) DecisionsUntraced(int) {}
