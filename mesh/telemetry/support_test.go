package telemetry_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

func TestMain(m *testing.M) {
	bcptest.Parallel(8)
	bcptest.LeaveOut("TestAnswersOfCollectors")
	goleak.VerifyTestMain(m)
}

// office has two channels: main and mailer with three subscriptions, boss and
// clerk with none. The clerk has a command and a schedule.
func office(more string) map[string]string {
	return map[string]string{
		"mesh.yaml": "max_refusals: 1000/m\napprovers: [ann]\nauditors: [aud]\n",
		"main.md": `---
name: main
bcp_channels:
  - peer: mailer
    role: controller
    max_category: 3
    budget_bits: 1000
` + more + `    subscriptions:
      - id: alerts
        category: 1
        fields: [{name: urgent, type: boolean}]
      - id: notes
        category: 2
        questions: [{id: note, question: "What is new?", max_words: 4, expected_format: short_text}]
      - id: digest
        category: 3
        directive: "Sum it up."
        max_words: 10
---
`,
		"mailer.md": "---\nname: mailer\nmax_connections: 8\nbcp_channels: [{peer: main, role: reader}]\n---\n",
		"boss.md":   "---\nname: boss\nbcp_channels: [{peer: clerk, role: controller, max_category: 1, budget_bits: 2}]\n---\n",
		"clerk.md":  "---\nname: clerk\nnetwork: [docs.example.org]\negress_budget_bits: 100\ncommand: [clerk]\nsandbox: none\ncron_schedules: [{schedule: \"0 4 1 1 *\", message: m}]\nbcp_channels: [{peer: boss, role: reader}]\n---\n",
	}
}

const (
	askUrgent = `{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`
	askWho    = `{"category":2,"questions":[{"id":"who","question":"Who wrote?","max_words":3,"expected_format":"person_name"}]}`
	askNote   = `{"category":2,"questions":[{"id":"note","question":"What is new?","max_words":4,"expected_format":"short_text"}]}`
	askSum    = `{"category":3,"directive":"Sum it up.","max_words":10,"escalation":{"justification":"The fields do not say it."}}`
)

// measured is a mesh with metrics, which are other ones after each start, as in
// a new process.
type measured struct {
	*meshtest.Mesh
	metrics atomic.Pointer[telemetry.Metrics]
}

func start(t testing.TB, files map[string]string) *measured {
	t.Helper()
	m := &measured{}
	m.Mesh = meshtest.Start(t, files, func(c *mesh.Config) {
		metrics := telemetry.New(c.Definition)
		m.metrics.Store(metrics)
		note := c.OnDecision
		c.OnDecision = func(d *bcp.Decision) { metrics.Observe(d); note(d) }
		c.OnReload = metrics.Use
	})
	return m
}

// scrape is what one scrape shows: values by series, the count and sum of a
// histogram in its place, and the families.
type scrape struct {
	text     string
	values   map[string]float64
	families map[string]*dto.MetricFamily
}

func (m *measured) scrape(t testing.TB) scrape {
	t.Helper()
	return scrapeOf(t, m.metrics.Load(), m.Mesh)
}

func scrapeOf(t testing.TB, metrics *telemetry.Metrics, source telemetry.Source) scrape {
	t.Helper()
	w := get(telemetry.Handler("", metrics, source), telemetry.MetricsPath)
	stopIf(t, w.Code != http.StatusOK, "status %d: %s", w.Code, w.Body)
	return parse(t, w.Body.String())
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:9464"
	h.ServeHTTP(w, r)
	return w
}

func parse(t testing.TB, text string) scrape {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	stopIf(t, err != nil, "%v in\n%s", err, text)
	s := scrape{text: text, values: map[string]float64{}, families: parsed}
	for name, family := range parsed {
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				s.values[series(name, labels...)] = m.Counter.GetValue()
			case dto.MetricType_GAUGE:
				s.values[series(name, labels...)] = m.Gauge.GetValue()
			case dto.MetricType_HISTOGRAM:
				s.values[series(name+"_count", labels...)] = float64(m.Histogram.GetSampleCount())
				s.values[series(name+"_sum", labels...)] = m.Histogram.GetSampleSum()
			default:
				t.Errorf("%s is a %s", name, family.GetType())
			}
		}
	}
	return s
}

// series names a series; labels are name=value.
func series(name string, labels ...string) string {
	sorted := slices.Sorted(slices.Values(labels))
	return name + "{" + strings.Join(sorted, ",") + "}"
}

// names returns the series that there are.
func (s scrape) names() []string { return slices.Sorted(maps.Keys(s.values)) }

// expect compares one series.
func (s scrape) expect(t testing.TB, want float64, name string, labels ...string) {
	t.Helper()
	key := series("bcpmesh_"+name, labels...)
	got, ok := s.values[key]
	failIf(t, !ok || got != want, "%s is %v (%v), not %v", key, got, ok, want)
}

// differences lists the series of a whose values differ from b, or that b does
// not have.
func differences(a, b map[string]float64) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		const rounding = 1e-6
		if got, ok := b[key]; !ok || got-a[key] > rounding || a[key]-got > rounding {
			lines = append(lines, fmt.Sprintf("%s: %v and %v (%v)", key, a[key], got, ok))
		}
	}
	return lines
}

// body reads a response.
func body(t testing.TB, r *http.Response) string {
	t.Helper()
	defer func() { _ = r.Body.Close() }()
	b := must(io.ReadAll(r.Body))(t)
	return string(b)
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
