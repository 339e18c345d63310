package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

var office = map[string]string{
	"mesh.yaml": "approvers: [ann]\n",
	"main.md": `---
name: main
bcp_channels:
  - peer: mailer
    role: controller
    max_category: 3
    budget_bits: 1000
    subscriptions:
      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}
      - {id: digest, category: 3, directive: "Sum it up.", max_words: 10}
---
`,
	"mailer.md": "---\nname: mailer\nbcp_channels: [{peer: main, role: reader}]\n---\n",
}

const (
	askUrgent = `{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`
	askSum    = `{"category":3,"directive":"Sum it up.","max_words":10,"escalation":{"justification":"The fields do not say it."}}`
)

// projected is a projection whose spans are kept.
func projected(definition *bcp.Mesh) (*projection, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return newProjection(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test"), definition), spans
}

// spansOf makes the spans of decisions, each of which was stored at once.
func spansOf(definition *bcp.Mesh, decisions []bcp.Decision) []tracetest.SpanStub {
	p, spans := projected(definition)
	end := time.Unix(0, 0)
	for i := range decisions {
		end = decisions[i].At()
		p.add(&decisions[i], end)
	}
	p.end(end)
	return spans.GetSpans()
}

// says is what a span says of a key, and empty for nothing.
func says(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// tree writes traces as an outline, in the order of their beginnings.
func tree(spans []tracetest.SpanStub) string {
	shown := []string{"bcp.verdict", "bcp.code", "bcp.rule", "bcp.act", "bcp.attempt", "bcp.repeat", "bcp.outcome", "bcp.acknowledged", "bcp.continued", "bcp.unfinished"}
	children := map[oteltrace.SpanID][]tracetest.SpanStub{}
	var roots []tracetest.SpanStub
	for _, s := range spans {
		if s.Parent.IsValid() {
			children[s.Parent.SpanID()] = append(children[s.Parent.SpanID()], s)
		} else {
			roots = append(roots, s)
		}
	}
	byBegin := func(a, b tracetest.SpanStub) int {
		return cmp.Or(a.StartTime.Compare(b.StartTime), a.EndTime.Compare(b.EndTime), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(roots, byBegin)
	var b strings.Builder
	write := func(indent string, s tracetest.SpanStub) {
		b.WriteString(indent + s.Name)
		for _, key := range shown {
			if v := says(s, key); v != "" {
				fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(key, "bcp."), v)
			}
		}
		b.WriteByte('\n')
	}
	for _, root := range roots {
		write("", root)
		below := children[root.SpanContext.SpanID()]
		slices.SortFunc(below, byBegin)
		for _, child := range below {
			write("  ", child)
		}
	}
	return b.String()
}

// day lives a day of the office and returns its decisions.
func day(t *testing.T) (*meshtest.Mesh, []bcp.Decision) {
	t.Helper()
	m := meshtest.Start(t, office)
	main, mailer := m.Connect(t, "main", bcp.RoleController), m.Connect(t, "mailer", bcp.RoleReader)
	told, queries := main.Deliveries(t), mailer.Queries(t)
	conn, err := agents.Connect(t.Context(), m.URL(), agents.CredsText(m.Creds(t, "ann", bcp.RoleApprover)), agents.Options{Name: "ann"})
	noError(t, err)
	t.Cleanup(conn.Close)
	ann := agents.NewApprover(conn)
	approve := func() {
		t.Helper()
		items, err := ann.List(t.Context())
		stopIf(t, err != nil || len(items) != 1, "items %v, %v", items, err)
		view, err := ann.View(t.Context(), items[0].ID)
		if err == nil {
			err = ann.Approve(t.Context(), view)
		}
		noError(t, err)
	}
	// What comes next is decided after the acknowledgement: they come over two connections.
	acknowledge := func(d meshtest.Message) {
		t.Helper()
		before := m.Count(meshtest.Of(bcp.KindAcknowledge))
		main.Acknowledge(t, d)
		m.WaitCount(t, before+1, meshtest.Of(bcp.KindAcknowledge))
	}
	heard := func(id bcp.QueryID, outcome string) {
		t.Helper()
		acknowledge(told.NextOf(t, func(d meshtest.Message) bool { return d.Text("query_id") == string(id) && d.Text("outcome") == outcome }))
	}

	// An answer that is asked for twice.
	id := main.Accepted(t, "mailer", askUrgent)
	mailer.Answer(t, queries.NextOf(t, meshtest.With("query_id", id)), `"response":{"urgent":1}`)
	mailer.Answer(t, queries.NextOf(t, meshtest.With("query_id", id)), `"response":{"urgent":true}`)
	heard(id, "")
	// A summary, which a person lets through twice.
	id = main.Accepted(t, "mailer", askSum)
	heard(id, "held")
	approve()
	mailer.Answer(t, queries.NextOf(t, meshtest.With("query_id", id)), `"response":{"summary":"All is well."}`)
	m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindAnswer && d.Query == id && d.Verdict == bcp.Hold })
	approve()
	heard(id, "")
	// Pushes: delivered, repeated, refused, held.
	mailer.Push(t, "main", "alerts", `{"urgent":true}`, `,"push_id":"p1"`)
	acknowledge(told.NextOf(t, meshtest.With("subscription_id", "alerts")))
	mailer.Push(t, "main", "alerts", `{"urgent":true}`, `,"push_id":"p1"`)
	mailer.Push(t, "main", "alerts", `{"urgent":1}`, "")
	mailer.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
	approve()
	acknowledge(told.NextOf(t, meshtest.With("subscription_id", "digest")))
	// A refused ask, a query that stays open, and an answer to none, which the
	// server would have refused.
	main.Ask(t, "mailer", `{"category":3,"directive":"Sum it up.","max_words":10}`)
	main.Accepted(t, "mailer", askUrgent)
	decisions := m.Decisions()
	last := decisions[len(decisions)-1]
	return m, append(decisions, bcp.Decision{
		Seq: last.Seq + 1, Time: last.Time + 1, Kind: bcp.KindAnswer, Agent: "mailer", Reader: "mailer", Query: "kanarienvogel",
		Verdict: bcp.Reject, Code: bcp.QueryUnknown, Check: bcp.CheckQuery,
	})
}

// Each exchange is one trace, with a span for each of its steps; what belongs to
// none, such as an answer to nothing, is one of its own.
//
// covers P11.1
func TestExchangesAreTraces(t *testing.T) {
	t.Parallel()
	m, decisions := day(t)
	spans := spansOf(m.Definition, decisions)
	want := `query outcome=delivered
  decide ask verdict=accept
  reader
  decide answer verdict=reject code=validation_failed rule=P3.1
  reader attempt=1
  decide answer verdict=accept
  deliver outcome=delivered acknowledged=true
query outcome=delivered
  decide ask verdict=hold rule=P6.3
  deliver outcome=held acknowledged=true
  approval
  decide approval verdict=accept rule=P7.3 act=approve
  reader
  decide answer verdict=hold rule=P3.5
  approval
  decide approval verdict=accept rule=P7.3 act=approve
  deliver outcome=delivered acknowledged=true
push outcome=delivered
  decide push verdict=accept
  deliver outcome=delivered acknowledged=true
push outcome=repeated
  decide push verdict=accept rule=P2.6 repeat=true
push outcome=refused
  decide push verdict=reject code=validation_failed rule=P3.1
push outcome=delivered
  decide push verdict=hold rule=P3.5
  approval
  decide approval verdict=accept rule=P7.3 act=approve
  deliver outcome=delivered acknowledged=true
query outcome=refused
  decide ask verdict=reject code=escalation_required rule=P6.1
query unfinished=true
  decide ask verdict=accept
  reader unfinished=true
answer outcome=refused
  decide answer verdict=reject code=query_unknown rule=P3.10
`
	diff := gocmp.Diff(want, tree(spans))
	failIf(t, diff != "", "-want +got:\n%s", diff)
	checkSpans(t, spans)
	for _, s := range spans {
		id := says(s, "bcp.query_id")
		failIf(t, s.Name == "answer" && id != "", "an answer to nothing names the query %s, which its sender made up", id)
		failIf(t, !s.Parent.IsValid() && (says(s, "bcp.controller") == "") == (s.Name != "answer"),
			"%s has %v", s.Name, s.Attributes)
	}
}

// A push that waits for the end of its window ends there; the window is a trace of
// its own, with the delivery.
func TestWindowsAreTraces(t *testing.T) {
	t.Parallel()
	decisions := []bcp.Decision{
		{Kind: bcp.KindPush, Agent: "mailer", Verdict: bcp.Accept, Release: 9},
		{Kind: bcp.KindPush, Agent: "mailer", Verdict: bcp.Hold, Item: "i1"},
		{Kind: bcp.KindApproval, Agent: "ann", Verdict: bcp.Accept, Event: string(bcp.Approve), Item: "i1", Release: 9},
		{Kind: bcp.KindPush, Agent: "mailer", Verdict: bcp.Hold, Item: "i2"},
		{Kind: bcp.KindApproval, Agent: "ann", Verdict: bcp.Accept, Event: string(bcp.RejectItem), Item: "i2"},
		{Kind: bcp.KindBatch, Delivery: "d1", Release: 9, Prepaid: true, Count: 2},
		{Kind: bcp.KindAcknowledge, Agent: "main", Delivery: "d1"},
	}
	for i := range decisions {
		d := &decisions[i]
		d.Seq, d.Time, d.Controller, d.Reader, d.Subscription = uint64(i+1), int64(10+i), "main", "mailer", "alerts"
	}
	spans := spansOf(meshtest.Parse(t, office), decisions)
	checkSpans(t, spans)
	want := `push outcome=gathered
  decide push verdict=accept
push outcome=gathered
  decide push verdict=hold rule=P3.6
  approval
  decide approval verdict=accept rule=P7.3 act=approve
push outcome=approval_rejected
  decide push verdict=hold rule=P3.6
  approval
  decide approval verdict=accept rule=P7.3 act=reject
batch outcome=delivered
  decide batch rule=P12.3
  deliver outcome=delivered acknowledged=true
`
	diff := gocmp.Diff(want, tree(spans))
	failIf(t, diff != "", "-want +got:\n%s", diff)
}

// What a span says of a decision is none of what an agent wrote: decisions that
// differ in that alone make the same spans.
//
// covers P2.5
func TestWhatAgentsWroteIsInNoFact(t *testing.T) {
	t.Parallel()
	m, decisions := day(t)
	before := tree(spansOf(m.Definition, decisions))
	for i := range decisions {
		d := &decisions[i]
		d.Private = bcp.Private{Client: "kanarienvogel", Payload: []byte("kanarienvogel"), Spec: []byte("kanarienvogel"), RawBytes: 77}
		d.Field, d.Justification, d.Note, d.Family, d.Key = "kanarienvogel", "kanarienvogel", "kanarienvogel", "kanarienvogel", "kanarienvogel"
		d.RawCommitment, d.PayloadCommitment, d.Sealed, d.SealedRaw = bcp.Digest{7}, bcp.Digest{7}, []byte("x"), []byte("x")
		if d.Kind != bcp.KindApproval {
			d.Event = "kanarienvogel"
		}
	}
	after := spansOf(m.Definition, decisions)
	diff := gocmp.Diff(before, tree(after))
	failIf(t, diff != "", "-as it was +as agents would have it:\n%s", diff)
	for _, s := range after {
		text := fmt.Sprint(s.Name, s.Attributes)
		failIf(t, strings.Contains(text, "kanarienvogel"), "a span is %s", text)
	}
}

// Names that the definitions do not have, or no longer, are not shown.
//
// covers P2.5
func TestOnlyDeclaredNamesAreShown(t *testing.T) {
	t.Parallel()
	m, decisions := day(t)
	other := meshtest.Parse(t, map[string]string{
		"main.md":   "---\nname: main\nbcp_channels: [{peer: clerk, role: controller, max_category: 1, budget_bits: 2}]\n---\n",
		"clerk.md":  "---\nname: clerk\nbcp_channels: [{peer: main, role: reader}]\n---\n",
		"mesh.yaml": "approvers: [bob]\n",
	})
	for _, s := range spansOf(other, decisions) {
		for _, a := range s.Attributes {
			switch a.Value.String() {
			case "mailer", "ann", "alerts", "digest":
				t.Errorf("%s says %s=%s", s.Name, a.Key, a.Value.String())
			}
		}
	}
	// After a reload the names of then hold.
	p, spans := projected(other)
	p.use(m.Definition)
	for i := range decisions {
		p.add(&decisions[i], decisions[i].At())
	}
	named := 0
	for _, s := range spans.GetSpans() {
		if says(s, "bcp.reader") == "mailer" {
			named++
		}
	}
	failIf(t, named < 6, "%d roots name the reader", named)
}

// An exchange that began before goes on in a trace of its own, and a projection
// that knows nothing of the past takes whatever comes.
func TestTracesBeginAnywhere(t *testing.T) {
	t.Parallel()
	m, decisions := day(t)
	for from := range decisions {
		checkSpans(t, spansOf(m.Definition, decisions[from:]))
	}
	answer := slices.IndexFunc(decisions, func(d bcp.Decision) bool { return d.Kind == bcp.KindAnswer && d.Verdict == bcp.Accept })
	got, _, _ := strings.Cut(tree(spansOf(m.Definition, decisions[answer:])), "query outcome=delivered\n")
	want := `query outcome=delivered continued=true
  decide answer verdict=accept
  deliver outcome=delivered acknowledged=true
`
	diff := gocmp.Diff(want, got)
	failIf(t, diff != "", "-want +got:\n%s", diff)
}

// checkSpans checks what holds of any spans.
func checkSpans(t rapid.TB, spans []tracetest.SpanStub) {
	t.Helper()
	ids, roots := map[oteltrace.SpanID]bool{}, map[oteltrace.TraceID]tracetest.SpanStub{}
	for _, s := range spans {
		stopIf(t, !s.SpanContext.IsValid() || ids[s.SpanContext.SpanID()], "%s has the ids %v", s.Name, s.SpanContext)
		ids[s.SpanContext.SpanID()] = true
		stopIf(t, s.StartTime.After(s.EndTime), "%s ends before it begins", s.Name)
		if s.Parent.IsValid() {
			continue
		}
		if _, twice := roots[s.SpanContext.TraceID()]; twice {
			t.Fatalf("two roots of %v", s.SpanContext.TraceID())
		}
		roots[s.SpanContext.TraceID()] = s
	}
	for _, s := range spans {
		root, rooted := roots[s.SpanContext.TraceID()]
		stopIf(t, !rooted, "%s has no root", s.Name)
		if s.Parent.IsValid() && (s.Parent.SpanID() != root.SpanContext.SpanID() || s.StartTime.Before(root.StartTime) || s.EndTime.After(root.EndTime)) {
			t.Fatalf("%s is not below %s", s.Name, root.Name)
		}
	}
}

// Whatever decisions say, spans are well-formed, and each decision is in one.
func TestAnyDecisionsMakeSoundSpans(t *testing.T) {
	t.Parallel()
	definition := meshtest.Parse(t, office)
	rapid.Check(t, func(t *rapid.T) {
		var decisions []bcp.Decision
		traced := 0
		for seq := range rapid.IntRange(1, 60).Draw(t, "decisions") {
			id := func(name, letter string) string {
				return rapid.SampledFrom([]string{"", letter + "1", letter + "2", letter + "3"}).Draw(t, name)
			}
			d := bcp.Decision{
				Seq: uint64(seq + 1), Time: int64(seq) * 1000, Kind: rapid.SampledFrom(bcp.DecisionKinds()).Draw(t, "kind"),
				Agent: "main", Controller: bcp.AgentName(rapid.SampledFrom([]string{"", "main"}).Draw(t, "controller")), Reader: "mailer",
				Query: bcp.QueryID(id("query", "q")), Item: bcp.ItemID(id("item", "i")), Attempt: rapid.IntRange(0, 2).Draw(t, "attempt"),
				Verdict: bcp.Outcome(rapid.IntRange(0, 4).Draw(t, "verdict")), Outcome: bcp.Code(rapid.SampledFrom([]string{"", "held", "expired"}).Draw(t, "outcome")),
				Repeat: rapid.Bool().Draw(t, "repeat"), Release: int64(rapid.IntRange(0, 100_000).Draw(t, "release")),
			}
			if d.Kind == bcp.KindAcknowledge {
				d.Delivery = bcp.DeliveryID(fmt.Sprint("d", rapid.IntRange(0, seq).Draw(t, "of")))
			} else if rapid.Bool().Draw(t, "delivers") {
				d.Delivery = bcp.DeliveryID(fmt.Sprint("d", seq)) // the gateway makes each once
			}
			if d.Kind == bcp.KindAsk && d.Query != "" && !d.Repeat {
				d.Query = bcp.QueryID(fmt.Sprint("q", seq))
			}
			if decisionNames[d.Kind] != "" {
				traced++
			}
			decisions = append(decisions, d)
		}
		decided := 0
		spans := spansOf(definition, decisions)
		checkSpans(t, spans)
		for _, s := range spans {
			if strings.HasPrefix(s.Name, "decide ") {
				decided++
			}
		}
		stopIf(t, decided != traced, "%d spans of %d decisions", decided, traced)
	})
}

// What is open is bounded, at the limit and one past it: the oldest is sent as
// unfinished.
func TestOpenExchangesAreBounded(t *testing.T) {
	t.Parallel()
	p, spans := projected(meshtest.Parse(t, office))
	for i := range maxOpen + 1 {
		if i == maxOpen && len(spans.GetSpans()) != maxOpen { // that of each decision
			t.Fatalf("%d spans at the limit", len(spans.GetSpans()))
		}
		d := bcp.Decision{Seq: uint64(i + 1), Time: int64(i), Kind: bcp.KindAsk, Controller: "main", Reader: "mailer", Verdict: bcp.Accept, Query: bcp.QueryID(fmt.Sprint("q", i))}
		p.add(&d, d.At())
	}
	roots := slices.DeleteFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Parent.IsValid() })
	failIf(t, len(roots) != 1 || says(roots[0], "bcp.query_id") != "q0" || says(roots[0], "bcp.unfinished") != "true",
		"the roots are %v", roots)
}
