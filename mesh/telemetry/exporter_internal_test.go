package telemetry

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

var branch = map[string]string{
	"mesh.yaml": "approvers: [ann]\nmax_refusals: 1000/m\n",
	"main.md": `---
name: main
bcp_channels:
  - peer: mailer
    role: controller
    max_category: 2
    budget_bits: 100000
    subscriptions:
      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}
      - id: notes
        category: 2
        questions: [{id: note, question: "What is new?", max_words: 4, expected_format: short_text}]
---
`,
	"mailer.md": "---\nname: mailer\nbcp_channels: [{peer: main, role: reader}]\n---\n",
}

const askWho = `{"category":2,"questions":[{"id":"who","question":"Who wrote?","max_words":3,"expected_format":"person_name"}]}`

// receiver is an OTLP receiver that keeps what it gets, and answers as it is told.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	answers  []func(w http.ResponseWriter) // of the next requests; then it takes all
	requests []*http.Request
	bodies   []byte
	spans    []*tracepb.Span
	resource map[string]string
}

func receive(t testing.TB, start func(http.Handler) *httptest.Server, answers ...func(http.ResponseWriter)) *receiver {
	t.Helper()
	c := &receiver{answers: answers, resource: map[string]string{}}
	c.Server = start(c)
	t.Cleanup(c.Close)
	return c
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, "not packed", http.StatusBadRequest)
			return
		}
		text = unpacked
	}
	body, err := io.ReadAll(text)
	var request collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != TracesPath || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.requests = append(c.requests, r)
	var answer func(http.ResponseWriter)
	if len(c.answers) > 0 {
		answer, c.answers = c.answers[0], c.answers[1:]
	} else {
		c.bodies = append(c.bodies, body...)
		for _, rs := range request.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				c.resource[a.Key] = a.Value.GetStringValue()
			}
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}
	c.mu.Unlock()
	if answer != nil {
		answer(w)
	}
}

func (c *receiver) taken() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracepb.Span(nil), c.spans...)
}

func (c *receiver) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.requests)
}

// await waits until so many requests have come.
func (c *receiver) await(t *testing.T, requests int) {
	t.Helper()
	for patience := time.Now().Add(meshtest.Patience); c.asked() < requests; time.Sleep(time.Millisecond) {
		stopIf(t, time.Now().After(patience), "%d requests came, not %d", c.asked(), requests)
	}
}

// counts are what became of spans.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(outcome string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[outcome] += n
}

// overfull reports whether spans were dropped.
func (c *counts) overfull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[dropped] > 0
}

func (c *counts) expect(t testing.TB, taken, lost int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	failIf(t, c.of[sent] != taken || c.of[undelivered] != lost || c.of[dropped] != 0,
		"%v, and not %d sent and %d lost", c.of, taken, lost)
}

// export starts an exporter to an endpoint; stop ends it, with time for what is
// left.
func export(t testing.TB, config ExportConfig) (e *Exporter, counted *counts, stop func()) {
	t.Helper()
	counted = &counts{of: map[string]int{}}
	config.Counted = counted.add
	if config.Definition == nil {
		config.Definition = meshtest.Parse(t, branch)
	}
	e, err := Export(config)
	noError(t, err)
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), meshtest.Patience)
		defer cancel()
		e.Stop(ctx)
	}
	t.Cleanup(stop)
	return e, counted, stop
}

// trusts has it believe a collector's certificate.
func (e *Exporter) trusts(c *receiver) {
	e.collector.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	e.collector.transport.TLSClientConfig.RootCAs.AddCert(c.Certificate())
}

// refusedPush is a decision that is a trace of two spans.
func refusedPush(seq uint64) *bcp.Decision {
	return &bcp.Decision{Seq: seq, Time: int64(seq), Kind: bcp.KindPush, Agent: "mailer", Controller: "main", Reader: "mailer", Subscription: "alerts",
		Verdict: bcp.Reject, Code: bcp.Malformed, Check: bcp.CheckMessage}
}

// traced is a mesh whose traces go to a collector.
func traced(t testing.TB, endpoint string) (*meshtest.Mesh, *counts, func()) {
	t.Helper()
	e, counted, stop := export(t, ExportConfig{Endpoint: endpoint, Version: "test"})
	m := meshtest.Start(t, branch, func(c *mesh.Config) {
		note := c.OnDecision
		c.OnDecision = func(d *bcp.Decision) { note(d); e.Observe(d) }
		c.OnReload = e.Use
	})
	return m, counted, stop
}

// The context of a trace is the gateway's own: what agents send for one, in
// headers or anywhere, has no effect on it, is passed on to nobody, and no byte of
// theirs is in what leaves for the collector.
//
// covers P2.5, P11.1, A-TRACE, ALF-50
func TestAgentsHaveNoPartInTraces(t *testing.T) {
	t.Parallel()
	const canary, theirs = "kanarienvogel", "0af7651916cd43dd8448eb211c80319c"
	c := receive(t, httptest.NewServer)
	m, counted, stop := traced(t, c.URL+TracesPath)
	main, mailer := m.Connect(t, "main", bcp.RoleController), m.Connect(t, "mailer", bcp.RoleReader, nats.Name(canary))
	header := nats.Header{
		"traceparent": {"00-" + theirs + "-b7ad6b7169203331-01"}, "Traceparent": {"00-" + theirs + "-b7ad6b7169203331-01"},
		"tracestate": {canary + "=1"}, "baggage": {canary + "=1"}, "b3": {theirs + "-b7ad6b7169203331-1"}, "uber-trace-id": {theirs + ":b7ad6b7169203331:0:1"},
		canary: {canary},
	}
	send := func(from *meshtest.Agent, subject, text string) {
		t.Helper()
		noError(t, from.PublishMsg(&nats.Msg{Subject: subject, Reply: subjects.InboxPrefix(from.Name) + ".x", Data: []byte(text), Header: header}))
	}
	queries, deliveries := make(chan *nats.Msg, 8), make(chan *nats.Msg, 8)
	for subject, to := range map[string]chan *nats.Msg{subjects.QueriesOf("mailer"): queries, subjects.DeliveriesOf(bcp.RoleController, "main"): deliveries} {
		from := main
		if to == queries {
			from = mailer
		}
		_, err := from.ChanSubscribe(subject, to)
		noError(t, err)
		from.Sync(t)
	}
	next := func(from chan *nats.Msg) *nats.Msg {
		t.Helper()
		msg := bcptest.Next(t, from, "a message")
		failIf(t, len(msg.Header) > 0, "%s has the headers %v", msg.Subject, msg.Header)
		return msg
	}
	send(main, subjects.Ask("main", "mailer"), strings.Replace(askWho, "{", `{"request_id":"`+canary+`",`, 1))
	query := next(queries)
	var asked bcp.Query
	noError(t, bcp.Decode(query.Data, bcp.JSON, &asked))
	send(mailer, query.Reply, fmt.Sprintf(`{"type":"bcp_response","query_id":%q,"response":{"who":"%s %s"}}`, asked.QueryID, canary, canary))
	send(main, next(deliveries).Reply, "")
	send(mailer, subjects.Push("mailer", "main", "notes"), meshtest.PushText("main", "notes", `{"note":"`+canary+`"}`, `,"push_id":"`+canary+`"`))
	send(main, next(deliveries).Reply, "")
	send(mailer, subjects.Push("mailer", "main", "notes"), meshtest.PushText("main", "notes", `{"`+canary+`":"`+canary+`"}`, ""))
	send(mailer, subjects.Push("mailer", "main", "alerts"), `{"`+canary+`":1`)
	send(mailer, subjects.Push("mailer", "main", bcp.SubscriptionID(canary)), canary)
	// The server's own tracing has it push what it tells, as the Reader could itself.
	header["Nats-Trace-Dest"] = []string{subjects.Push("mailer", "main", "alerts")}
	send(mailer, subjects.Push("mailer", "main", "notes"), canary)
	header["Nats-Trace-Dest"] = []string{canary + " " + canary}
	send(mailer, subjects.Push("mailer", "main", "notes"), canary)
	m.WaitCount(t, 2, meshtest.Of(bcp.KindAcknowledge))
	m.WaitCount(t, 6, meshtest.Of(bcp.KindPush))
	m.Stop(t)
	stop()
	failIf(t, strings.Contains(strings.ToLower(m.Log()), canary), "the canary is in the log")

	c.mu.Lock()
	defer c.mu.Unlock()
	if i := strings.Index(strings.ToLower(string(c.bodies)), canary); i >= 0 {
		t.Errorf("the canary is in a request: %q", c.bodies[max(0, i-80):min(len(c.bodies), i+40)])
	}
	roots, names := map[string]int{}, map[string]int{}
	for _, s := range c.spans {
		names[s.Name]++
		failIf(t, fmt.Sprintf("%x", s.TraceId) == theirs || s.TraceState != "" || len(s.Links) > 0 || fmt.Sprintf("%x", s.ParentSpanId) == "b7ad6b7169203331",
			"%s took its context from an agent", s.Name)
		if len(s.ParentSpanId) == 0 {
			roots[s.Name]++
		}
	}
	failIf(t, roots["query"] != 1 || roots["push"] < 6 || names["reader"] != 1 || names["deliver"] != 2,
		"roots %v of spans %v", roots, names)
	for key, want := range map[string]string{"service.name": "bcpmesh", "service.version": "test", "bcp.mesh": m.Definition.Name} {
		failIf(t, c.resource[key] != want, "%s is %q", key, c.resource[key])
	}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	failIf(t, counted.of[sent] != len(c.spans) || counted.of[undelivered]+counted.of[dropped] != 0,
		"%d spans came, and %v", len(c.spans), counted.of)
}

// A collector that takes a request and never answers harms nothing: the mesh
// decides and receipts as before, what waits is bounded, and the end comes when it
// is told to. Each span is accounted for.
//
// covers A-TRACE
func TestCollectorThatHangsHarmsNothing(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hang := func(http.ResponseWriter) { <-release }
	c := receive(t, httptest.NewServer, hang, hang, hang, hang)
	t.Cleanup(func() { close(release) }) // before the collector closes
	e, counted, _ := export(t, ExportConfig{Endpoint: c.URL + TracesPath})
	m := meshtest.Start(t, branch, func(c *mesh.Config) {
		note := c.OnDecision
		c.OnDecision = func(d *bcp.Decision) { note(d); e.Observe(d) }
	})
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	push := func() {
		t.Helper()
		reply := mailer.Push(t, "main", "alerts", `{"urgent":true}`, "")
		stopIf(t, reply.Text("status") != "delivered", "the receipt is %v", reply)
	}
	push()
	c.await(t, 1)
	// It hangs now. More comes than may wait.
	many := 0
	for patience := time.Now().Add(meshtest.Patience); !counted.overfull() && time.Now().Before(patience); {
		for range 10_000 {
			many++
			e.Observe(refusedPush(uint64(1000 + many)))
		}
	}
	push()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Stop(ctx)
	push()
	counted.mu.Lock()
	defer counted.mu.Unlock()
	// Two spans of each, and up to three of the pushes that were delivered, of which the last came too late.
	spans, least := counted.of[undelivered]+counted.of[dropped], 2*many
	failIf(t, counted.of[sent] != 0 || counted.of[undelivered] > maxSpans || counted.of[dropped] == 0 || spans < least || spans > least+6,
		"spans of %d pushes: %v", many, counted.of)
}

// A collector that is not there harms nothing either.
func TestCollectorThatIsGone(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	e, counted, stop := export(t, ExportConfig{Endpoint: gone.URL + TracesPath})
	e.Observe(refusedPush(1))
	stop()
	counted.expect(t, 0, 2)
	e.Observe(refusedPush(2)) // of a mesh that ends later
}

// What a collector answers decides whether a batch is sent again, and whether its
// spans count as sent.
func TestAnswersOfCollectors(t *testing.T) {
	t.Parallel()
	status := func(code int, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(code)
		}
	}
	partly, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "no"}})
	noError(t, err)
	elsewhere := receive(t, httptest.NewServer)
	for _, c := range []struct {
		name                string
		answers             []func(http.ResponseWriter)
		requests, sent, not int
	}{
		{"taken", nil, 1, 2, 0},
		{"busy, then taken", []func(http.ResponseWriter){status(503, "Retry-After", "1")}, 2, 2, 0},
		{"refused", []func(http.ResponseWriter){status(400)}, 1, 0, 2},
		{"elsewhere", []func(http.ResponseWriter){status(307, "Location", elsewhere.URL+TracesPath)}, 1, 0, 2},
		{"partly", []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(partly)
		}}, 1, 1, 1},
		{"busy for too long", []func(http.ResponseWriter){status(429, "Retry-After", "3600")}, 1, 0, 2},
		{"nonsense", []func(http.ResponseWriter){func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}}, 1, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to := receive(t, httptest.NewServer, c.answers...)
			e, counted, stop := export(t, ExportConfig{Endpoint: to.URL + TracesPath})
			e.Observe(refusedPush(1))
			to.await(t, c.requests)
			stop()
			counted.expect(t, c.sent, c.not)
			failIf(t, to.asked() != c.requests, "%d requests", to.asked())
			failIf(t, elsewhere.asked() != 0, "it follows a collector elsewhere")
		})
	}
}

// Traces leave the machine over TLS alone, and only for a collector whose
// certificate holds.
//
// covers A-TRACE
func TestTracesLeaveOverTLSAlone(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]error{
		"": ErrEndpoint, "127.0.0.1:4318": ErrEndpoint, "grpc://127.0.0.1:4317": ErrEndpoint, "http://": ErrEndpoint,
		"https://me:secret@collector.example/": ErrEndpoint, "https://collector.example/?key=secret": ErrEndpoint, "http://collector.example:4318/v1/traces": ErrPlaintext,
		"HTTP://192.0.2.1/": ErrPlaintext, "http://0.0.0.0:4318/": ErrPlaintext, "http://localhost.example:4318/": ErrPlaintext,
		"http://[::1]:4318/v1/traces": nil, "http://127.8.9.1:4318/v1/traces": nil, "HTTP://localhost:4318/v1/traces": nil, "https://collector.example/v1/traces": nil,
	} {
		if err := CheckEndpoint(endpoint); !errors.Is(err, want) {
			t.Errorf("%q: %v", endpoint, err)
		}
		e, err := Export(ExportConfig{Endpoint: endpoint, Definition: meshtest.Parse(t, branch)})
		failIf(t, !errors.Is(err, want), "%q starts: %v", endpoint, err)
		if e != nil {
			e.Stop(t.Context())
		}
	}
	_, err := Export(ExportConfig{Endpoint: "http://127.0.0.1:4318"})
	failIf(t, err == nil, "it starts without definitions")

	c := receive(t, httptest.NewTLSServer)
	c.Config.ErrorLog = nil
	e, counted, stop := export(t, ExportConfig{Endpoint: c.URL + TracesPath})
	e.Observe(refusedPush(1))
	stop()
	counted.expect(t, 0, 2)
	e, counted, stop = export(t, ExportConfig{Endpoint: c.URL + TracesPath})
	e.trusts(c)
	e.Observe(refusedPush(1))
	stop()
	counted.expect(t, 2, 0)
	n := len(c.taken())
	failIf(t, n != 2, "%d spans", n)
}

// The environment neither sends traces elsewhere, nor takes their TLS away, nor sends a
// header that was not given: what counts is the configuration.
//
// covers A-TRACE
func TestVariablesSendTracesNowhereElse(t *testing.T) {
	elsewhere := receive(t, httptest.NewServer)
	for name, value := range map[string]string{
		"ENDPOINT": elsewhere.URL, "TRACES_ENDPOINT": elsewhere.URL + TracesPath, "INSECURE": "true", "TRACES_INSECURE": "true",
		"HEADERS": "Authorization=other", "TRACES_HEADERS": "Authorization=other", "PROTOCOL": "http/json", "TRACES_PROTOCOL": "http/json", "COMPRESSION": "gzip",
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, elsewhere.URL)
	}
	to := receive(t, httptest.NewTLSServer)
	e, counted, stop := export(t, ExportConfig{Endpoint: to.URL + TracesPath})
	e.trusts(to)
	e.Observe(refusedPush(1))
	stop()
	counted.expect(t, 2, 0)
	stopIf(t, elsewhere.asked() != 0 || to.asked() != 1, "%d requests, and %d elsewhere", to.asked(), elsewhere.asked())
	got := to.requests[0].Header.Values("Authorization")
	failIf(t, got != nil, "the header is %q", got)
	if got := to.requests[0].Header.Get("Content-Encoding"); got != "" {
		t.Errorf("it is packed as %q", got)
	}
}

// What a collector says is in no log: it may be anybody's text.
//
// covers A-TRACE
func TestLogHasNoWordOfCollectors(t *testing.T) {
	t.Parallel()
	const canary = "kanarienvogel"
	c := receive(t, httptest.NewServer, func(w http.ResponseWriter) { http.Error(w, canary, http.StatusTeapot) })
	var log strings.Builder
	e, counted, stop := export(t, ExportConfig{Endpoint: c.URL + TracesPath, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	e.Observe(refusedPush(1))
	c.await(t, 1)
	stop()
	counted.expect(t, 0, 2)
	text := log.String()
	failIf(t, strings.Contains(text, canary) || !strings.Contains(text, "it answers 418"), "the log is %q", text)
}
