package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A mesh of the seeds' two agents and a person.
var flowFiles = map[string]string{
	"mesh.yaml": "approvers: [ann]\nsync: 1s\nmax_refusals: 6000/m\n",
	"main.md": `---
name: main
bcp_channels:
  - peer: researcher
    role: controller
    max_category: 3
    budget_bits: 100000
    max_cat2_queries: 1000
    max_escalations: 16
    subscriptions:
      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}
      - {id: findings, category: 2, questions: [{id: topic, question: "What is the topic?", max_words: 4, expected_format: short_text}]}
      - {id: digest, category: 3, directive: "Sum it up.", max_words: 10}
---
`,
	"researcher.md": "---\nname: researcher\nbcp_channels: [{peer: main, role: reader}]\n---\n",
}

// stage is the running mesh and the agents that play on it. Their connections
// outlive the process.
type stage struct {
	t          *testing.T
	dir, state string
	process    *process
	address    string

	main, researcher             *nats.Conn
	ann                          *agents.Approver
	deliveries, queries, results chan *nats.Msg

	run     int               // names the ids of this play
	earlier map[string]string // deliveries of plays before, which may come again
	// What this play knows.
	receipt string
	query   bcp.QueryID
	item    bcp.ItemView
	arrived map[string]string // deliveries by id, as they came
	order   []string
	reply   map[string]string // newest reply subject, by id of a query or delivery
	heard   []string          // results
	asked   int               // how often the query came
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), earlier: map[string]string{}, deliveries: make(chan *nats.Msg, 1000), queries: make(chan *nats.Msg, 1000), results: make(chan *nats.Msg, 1000)}
	s.state = filepath.Join(s.dir, "state")
	for name, text := range flowFiles {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.address = clustertest.FreeAddress(t)
	s.process = startProcess(t, s.dir, s.state, s.address)
	store, err := accounts.Open(s.state)
	if err != nil {
		t.Fatal(err)
	}
	s.main, s.researcher = dial(t, store, s.process.url, "main"), dial(t, store, s.process.url, "researcher")
	creds, err := store.Issue("ann", 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c, err := agents.Connect(t.Context(), s.process.url, agents.CredsText(creds.Text()), agents.Options{Name: "ann", Attempt: retryAfter})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s.ann = agents.NewApprover(c)
	for _, listen := range []struct {
		conn    *nats.Conn
		subject string
		to      chan *nats.Msg
	}{
		{s.main, subjects.DeliveriesOf(bcp.RoleController, "main"), s.deliveries},
		{s.researcher, subjects.QueriesOf("researcher"), s.queries},
		{s.researcher, subjects.DeliveriesOf(bcp.RoleReader, "researcher"), s.results},
	} {
		if _, err := listen.conn.ChanSubscribe(listen.subject, listen.to); err != nil {
			t.Fatal(err)
		}
		if err := listen.conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// restart is a power cut, and the same mesh on the same state and port.
func (s *stage) restart() {
	s.t.Helper()
	s.process.kill(s.t)
	s.process = startProcess(s.t, s.dir, s.state, s.address)
}

// send publishes, and does not care whether it arrives.
func (s *stage) send(conn *nats.Conn, subject, text string) {
	_ = conn.Publish(subject, []byte(text))
	_ = conn.FlushTimeout(retryAfter)
}

// repeat sends a request until it is answered, and returns the answer.
func (s *stage) repeat(conn *nats.Conn, subject, text string) string {
	s.t.Helper()
	for deadline := time.Now().Add(stepPatience); time.Now().Before(deadline); {
		reply, err := conn.Request(subject, []byte(text), retryAfter)
		if err == nil && !strings.Contains(string(reply.Data), `"unavailable"`) {
			return string(reply.Data)
		}
		time.Sleep(5 * time.Millisecond) // the connection is down
	}
	s.t.Fatalf("no answer to %s", text)
	return ""
}

// until takes what comes until done, or fails the test.
func (s *stage) until(what string, done func() bool) {
	s.t.Helper()
	timeout := time.NewTimer(stepPatience)
	defer timeout.Stop()
	for !done() {
		select {
		case m := <-s.deliveries:
			s.delivered(m)
		case m := <-s.queries:
			s.reply[member(m, "query_id")] = m.Reply
			s.asked++
		case m := <-s.results:
			s.result(m)
		case <-timeout.C:
			s.t.Fatalf("waited for %s: heard %v, delivered %v", what, s.heard, s.order)
		}
	}
}

func (s *stage) delivered(m *nats.Msg) {
	id := member(m, "delivery_id")
	if before, again := s.earlier[id]; again {
		if before != string(m.Data) {
			s.t.Errorf("delivered %s, then %s", before, m.Data)
		}
		s.send(s.main, m.Reply, "")
		return
	}
	if before, again := s.arrived[id]; again && before != string(m.Data) {
		s.t.Errorf("delivered %s, then %s", before, m.Data)
	} else if !again {
		s.order = append(s.order, id)
	}
	s.arrived[id], s.reply[id] = string(m.Data), m.Reply
}

// result takes what the Reader hears. Everything is acknowledged at once but
// final results, which are a step.
func (s *stage) result(m *nats.Msg) {
	if member(m, "type") != "bcp_validation_result" {
		s.send(s.researcher, m.Reply, "")
		return
	}
	text := member(m, "status") + " " + member(m, "code") + " " + member(m, "detail")
	if id := member(m, "query_id"); id != "" && id != string(s.query) {
		return // of an earlier play
	}
	s.heard = append(s.heard, text)
	s.reply["result "+member(m, "status")] = m.Reply
}

func member(m *nats.Msg, key string) string {
	var fields map[string]any
	_ = json.Unmarshal(m.Data, &fields)
	text, _ := fields[key].(string)
	return text
}

// step is one arrow of a diagram. It tolerates that what came before was lost, as
// any client has to that does not know whether its message arrived.
type step struct {
	arrow string
	play  func(*stage)
}

func (s *stage) id(prefix string) string { return fmt.Sprintf("%s%d", prefix, s.run) }

// The steps of the diagrams.

func asks(spec string) []step {
	text := func(s *stage) string {
		return strings.TrimSuffix(spec, "}") + fmt.Sprintf(`,"request_id":%q}`, s.id("r"))
	}
	return []step{
		{"C->>G: bcp_query_request (BCPQuery tool, …", func(s *stage) { s.send(s.main, subjects.Ask("main", "researcher"), text(s)) }},
		{"… returns immediately)", func(s *stage) {
			s.receipt = s.repeat(s.main, subjects.Ask("main", "researcher"), text(s))
			var accepted struct {
				ID bcp.QueryID `json:"query_id"`
			}
			if err := json.Unmarshal([]byte(s.receipt), &accepted); err != nil || accepted.ID == "" {
				s.t.Fatalf("receipt %s", s.receipt)
			}
			s.query = accepted.ID
		}},
		// G->>G: Validate channel + category + bandwidth has happened: the receipt
		// of a repeat, perhaps by another process, is the same.
		{"G->>G: Validate channel + category + bandwidth", func(s *stage) {
			if again := s.repeat(s.main, subjects.Ask("main", "researcher"), text(s)); again != s.receipt {
				s.t.Errorf("receipt %s, then %s", s.receipt, again)
			}
		}},
	}
}

func answers(members string) []step {
	answer := func(s *stage) {
		s.send(s.researcher, s.reply[string(s.query)], fmt.Sprintf(`{"type":"bcp_response","query_id":%q,%s}`, s.query, members))
	}
	return []step{
		{"G->>R: bcp_query (route to Reader session)", func(s *stage) {
			s.until("the query", func() bool { return s.reply[string(s.query)] != "" })
		}},
		{"R->>G: bcp_response (query_id, response)", answer},
		{"G->>G: Validate response against query spec; G->>R: bcp_validation_result (query_id, success)", func(s *stage) {
			// The Reader hears the result, or sees its query again, or neither: then
			// the answer was recorded, and what comes of it shows that.
			known := s.asked
			s.until("the result", func() bool {
				if s.asked > known {
					known = s.asked
					answer(s)
				}
				return len(s.heard) > 0 || s.has(`"response"`) || s.waits()
			})
		}},
	}
}

// has reports whether something with this text was delivered.
func (s *stage) has(text string) bool {
	for _, d := range s.arrived {
		if strings.Contains(d, text) && (s.query == "" || strings.Contains(d, string(s.query))) {
			return true
		}
	}
	return false
}

// waits reports whether an item of category 3 content waits for ann.
func (s *stage) waits() bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), retryAfter)
	defer cancel()
	items, err := s.ann.List(ctx)
	return err == nil && slices.ContainsFunc(items, func(it bcp.Item) bool { return it.Kind != bcp.ItemEscalation })
}

func delivers(text string) []step {
	return []step{
		{"G->>C: bcp_response_delivery — as prompt", func(s *stage) { s.until("the delivery", func() bool { return s.has(text) }) }},
		{"C: session starts or resumes with validated data", func(s *stage) { s.acknowledgeAll() }},
	}
}

func (s *stage) acknowledgeAll() {
	for _, id := range s.order {
		s.send(s.main, s.reply[id], "")
	}
}

func pushes(subscription bcp.SubscriptionID, response, want string) []step {
	text := func(s *stage) string {
		return meshtest.PushText("main", subscription, response, fmt.Sprintf(`,"push_id":%q`, s.id("p")))
	}
	return []step{
		{"R->>G: bcp_response (subscription_id, controller, response)", func(s *stage) { s.send(s.researcher, subjects.Push("researcher", "main", subscription), text(s)) }},
		{"G->>G: Look up, validate, charge; G->>R: bcp_validation_result (subscription_id, success)", func(s *stage) {
			if r := s.repeat(s.researcher, subjects.Push("researcher", "main", subscription), text(s)); !strings.Contains(r, want) {
				s.t.Errorf("result %s, not %s", r, want)
			}
		}},
	}
}

// try calls f until it succeeds; a person tries again too.
func (s *stage) try(what string, f func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepPatience)
	defer cancel()
	if err := f(ctx); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// reviews routes an item to the person, who decides.
func reviews(kind bcp.ItemKind, act bcp.Act) []step {
	decide := func(s *stage, ctx context.Context) error {
		var err error
		if act == bcp.RejectItem {
			err = s.ann.Reject(ctx, s.item, "Not today.")
		} else {
			err = s.ann.Approve(ctx, s.item)
		}
		var refused *agents.RefusedError
		if errors.As(err, &refused) && refused.Code == bcp.AlreadyDecided {
			return nil // by the attempt before
		}
		return err
	}
	return []step{
		{"G->>H: Route to approval queue", func(s *stage) {
			s.try("viewing", func(ctx context.Context) error {
				for {
					items, err := s.ann.List(ctx)
					if err != nil {
						return err
					}
					if i := slices.IndexFunc(items, func(it bcp.Item) bool { return it.Kind == kind }); i >= 0 {
						s.item, err = s.ann.View(ctx, items[i].ID)
						return err
					}
				}
			})
		}},
		{"H->>G: Approved / Rejected", func(s *stage) {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Millisecond)
			defer cancel()
			_ = decide(s, ctx) // whether it arrives is not known
		}},
		{"H->>G: Approved / Rejected (heard)", func(s *stage) {
			s.try("deciding", func(ctx context.Context) error { return decide(s, ctx) })
		}},
	}
}

// concludes is the result behind a person's decision.
func concludes(want string) []step {
	return []step{
		{"G->>R: bcp_validation_result (subscription_id, success / rejected)", func(s *stage) {
			s.until("the final result", func() bool { return slices.Contains(s.heard, want) })
			for _, reply := range s.reply {
				if to, err := subjects.Parse(reply); err == nil && to.Kind == subjects.KindReply && to.Role == bcp.RoleReader && to.ID[0] == 'n' {
					s.send(s.researcher, reply, "")
				}
			}
		}},
	}
}

const (
	flowUrgent = `{"type":"bcp_query_request","category":1,"fields":[{"name":"urgent","type":"boolean"}]}`
	flowTopic  = `{"type":"bcp_query_request","category":2,"questions":[{"id":"topic","question":"What is the topic?","max_words":4,"expected_format":"short_text"}]}`
	flowSum    = `{"type":"bcp_query_request","category":3,"directive":"Sum it up.","max_words":10,"escalation":{"justification":"The fields do not say what the letter wants."}}`
)

// flows are the diagrams, arrow by arrow. Cost is what one play is charged.
var flows = []struct {
	name  string
	cost  bcp.Bits
	want  []string // deliveries, without their ids
	steps []step
}{
	{
		"query of category 1", bcp.Bit, []string{`{"urgent":true}`},
		slices.Concat(asks(flowUrgent), answers(`"response":{"urgent":true}`), delivers(`{"urgent":true}`)),
	},
	{
		"query of category 2", 44 * bcp.Bit, []string{`{"topic":"quantum computing"}`},
		slices.Concat(asks(flowTopic), answers(`"response":{"topic":"Quantum Computing"}`), delivers(`{"topic":"quantum computing"}`)),
	},
	{
		"query of category 3, approved twice", 110 * bcp.Bit, []string{`held`, `{"summary":"all is well"}`},
		slices.Concat(asks(flowSum), reviews(bcp.ItemEscalation, bcp.Approve), answers(`"response":{"summary":"All is well."}`),
			reviews(bcp.ItemSummary, bcp.Approve), concludes("delivered  "), delivers(`{"summary":"all is well"}`)),
	},
	{
		"query of category 3, the summary rejected", 110 * bcp.Bit, []string{`held`, `approval_rejected`},
		slices.Concat(asks(flowSum), reviews(bcp.ItemEscalation, bcp.Approve), answers(`"response":{"summary":"All is well."}`),
			reviews(bcp.ItemSummary, bcp.RejectItem), concludes("refused approval_rejected Publish rejected by reviewer: Not today."), delivers(`"approval_rejected"`)),
	},
	{
		"query of category 3, the escalation denied", bcp.Bit, []string{`held`, `escalation_denied`},
		slices.Concat(asks(flowSum), reviews(bcp.ItemEscalation, bcp.RejectItem), delivers(`"escalation_denied"`)),
	},
	{
		"push of category 1", bcp.Bit, []string{`{"urgent":true}`},
		slices.Concat(pushes("alerts", `{"urgent":true}`, "Published to controller main (Cat-1, 1.0 bits)"), delivers(`{"urgent":true}`)),
	},
	{
		"push of category 2", 44 * bcp.Bit, []string{`{"topic":"quantum computing"}`},
		slices.Concat(pushes("findings", `{"topic":"Quantum Computing"}`, "Published to controller main (Cat-2, 44.0 bits)"), delivers(`{"topic":"quantum computing"}`)),
	},
	{
		"push of category 3, approved", 110 * bcp.Bit, []string{`{"summary":"all is well"}`},
		slices.Concat(pushes("digest", `{"summary":"All is well."}`, `"status":"held"`), reviews(bcp.ItemSummary, bcp.Approve),
			concludes("delivered  Published to controller main (Cat-3, 110.0 bits)"), delivers(`{"summary":"all is well"}`)),
	},
	{
		"push of category 3, rejected", 110 * bcp.Bit, nil,
		slices.Concat(pushes("digest", `{"summary":"All is well."}`, `"status":"held"`), reviews(bcp.ItemSummary, bcp.RejectItem),
			concludes("refused approval_rejected Publish rejected by reviewer: Not today.")),
	},
}

// Every arrow of the seeds' diagrams is played over a mesh that runs as a
// process of its own, with stock clients. Each flow is played once as it is, and
// once for each place between two arrows with the process killed there and
// started again. However it was played, the Controller has the same deliveries,
// under ids that do not change, and the same is charged.
//
// covers BCP-68, BCP-69, BCP-71, BCP-84, BCP-85, BCP-118, BCP-119, BCP-173, SUB-42, SUB-79, SUB-80, SUB-82, SUB-83, SUB-84, SUB-85, SUB-88, SUB-89, SUB-141
// covers P4.5, P7.3, P7.6, P9.1, P9.5, P2.6, A-RECONN
func TestFlowsWithRestarts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var total bcp.Bits
	deliveries, starts := 0, 1
	begin := time.Now()
	every := 3
	if effort.Long() {
		every = 1
	}
	for _, flow := range flows {
		for place := 0; place < len(flow.steps); place += every { // 0 is nowhere
			s.run++
			s.query, s.receipt, s.item = "", "", bcp.ItemView{}
			maps.Copy(s.earlier, s.arrived)
			s.arrived, s.order, s.reply, s.heard = map[string]string{}, nil, map[string]string{}, nil
			for i, step := range flow.steps {
				if i > 0 && i == place {
					s.restart()
					starts++
				}
				step.play(s)
			}
			s.quiesce()
			s.compare(flow.want)
			s.repeat(s.main, subjects.Session("main"), `{"verb":"close"}`) // and with it the escalations
			total += flow.cost
			deliveries += len(flow.want)
			if t.Failed() {
				t.Fatalf("%s, killed before %q", flow.name, flow.steps[place].arrow)
			}
		}
	}
	t.Logf("%d plays, %d kills, %s", s.run, starts-1, time.Since(begin).Round(time.Millisecond))
	s.process.end(t)
	s.check(total, deliveries, starts)
}

// quiesce takes and acknowledges what is left of a play, until nothing comes any
// more: an ask is answered behind everything that was sent before.
func (s *stage) quiesce() {
	s.t.Helper()
	s.until("quiet", func() bool {
		s.acknowledgeAll()
		s.repeat(s.main, subjects.Session("main"), `{"verb":"open"}`)
		_ = s.main.Flush()
		_ = s.researcher.Flush()
		return len(s.deliveries) == 0 && len(s.results) == 0 && len(s.queries) == 0
	})
}

// compare looks at what was delivered in this play.
func (s *stage) compare(want []string) {
	s.t.Helper()
	var got []string
	for _, id := range s.order {
		var d bcp.Delivery
		if err := bcp.Decode([]byte(s.arrived[id]), bcp.JSON, &d); err != nil {
			s.t.Error(err)
		}
		if d.QueryID != s.query {
			s.t.Errorf("a delivery of query %q while %q is played", d.QueryID, s.query)
		}
		got = append(got, string(d.Outcome)+string(d.Response))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("delivered %q, not %q", got, want)
	}
}

// check reads the journal and its projections once the mesh has ended.
func (s *stage) check(total bcp.Bits, deliveries, starts int) {
	t := s.t
	t.Helper()
	journal, js := journalOf(t, flowFiles, s.state, map[string]int64{"main researcher": int64(100_000 * bcp.Bit)})
	if n := journal.Kinds[bcp.KindStart]; n != starts+1 {
		t.Errorf("%d starts, not %d", n, starts+1)
	}
	var settled, reserved bcp.Bits
	for _, b := range journal.Balances {
		settled, reserved = settled+b.Settled, reserved+b.Reserved
	}
	if settled != total || reserved != 0 {
		t.Errorf("charged %d and %d in reserve, not %d", settled, reserved, total)
	}
	if len(journal.Delivered) != deliveries || len(journal.Acknowledged) != deliveries {
		t.Errorf("%d deliveries, %d acknowledged, not %d", len(journal.Delivered), len(journal.Acknowledged), deliveries)
	}
	for id, n := range journal.Decided {
		if n != 1 {
			t.Errorf("item %s is decided %d times", id, n)
		}
	}
	audit := meshtest.ReadStream(t, js, jetstream.AuditStream)
	if len(audit) != journal.Decisions {
		t.Errorf("the audit has %d records of %d decisions", len(audit), journal.Decisions)
	}
}
