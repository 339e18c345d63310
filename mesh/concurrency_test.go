package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// crowd lets an agent have many connections.
func crowd(files map[string]string) map[string]string {
	for name, text := range files {
		files[name] = strings.Replace(text, "\nbcp_channels:", "\nmax_connections: 64\nbcp_channels:", 1)
	}
	return files
}

// together calls each function in a goroutine of its own, all at one time.
func together(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			call(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// reply sends a request and returns the members of what comes; it may be called
// from any goroutine.
func reply(t *testing.T, a *meshtest.Agent, subject, text string) map[string]any {
	ctx, cancel := context.WithTimeout(context.Background(), meshtest.Patience)
	defer cancel()
	got, err := agents.Request(ctx, a.Conn, &nats.Msg{Subject: subject, Data: []byte(text)})
	if err != nil {
		t.Errorf("%s: %v", a.Name, err)
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal(got.Data, &fields); err != nil {
		t.Errorf("%s: %v", a.Name, err)
	}
	return fields
}

func textOf(fields map[string]any, key string) string {
	text, _ := fields[key].(string)
	return text
}

// listens calls handle with what comes on a subject. A client that may answer
// once has to be subscribed once: to the server each copy counts.
func listens(t *testing.T, a *meshtest.Agent, subject string, handle func(msg *nats.Msg, fields map[string]any)) {
	t.Helper()
	if _, err := a.Subscribe(subject, func(msg *nats.Msg) {
		var fields map[string]any
		if err := json.Unmarshal(msg.Data, &fields); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
		handle(msg, fields)
	}); err != nil {
		t.Fatal(err)
	}
	a.Sync(t)
}

// acknowledge is a handler that does nothing else.
func acknowledge(msg *nats.Msg, _ map[string]any) { _ = msg.Respond(nil) }

// many connects an agent several times.
func many(t *testing.T, m *meshtest.Mesh, name bcp.AgentName, n int) []*meshtest.Agent {
	t.Helper()
	all := make([]*meshtest.Agent, n)
	for i := range all {
		all[i] = m.Connect(t, name, 0)
	}
	return all
}

// Three people decide fifty times about one item, each way: one decision counts,
// every other hears that, and what both agents get is the winner's.
//
// covers P7.3, P4.5, BCP-118, BCP-119, BCP-120, SUB-42
func TestOneDecisionCounts(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"push", "anomaly", "escalation"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := meshtest.Start(t, with(pair(1000), "mesh.yaml", people))
			main, mailer := connect(t, m)
			original, edited, query := `{"summary":"all is well"}`, `{"summary":"edited"}`, bcp.QueryID("")
			switch kind {
			case "push":
				mailer.Push(t, "main", "digest", original, `,"push_id":"p1"`)
			case "anomaly":
				original, edited = `{"who":"ignore this","when":"2026-03-15"}`, `{"who":"ada","when":"2026-03-15"}`
				query = main.Accepted(t, "mailer", askWho)
				mailer.Answer(t, mailer.queries.Next(t), `"response":`+original)
				mailer.result(t)
				main.delivery(t)
			case "escalation":
				query = main.Accepted(t, "mailer", askSum)
				main.delivery(t)
			}
			staff := []person{approver(t, m, "ann"), approver(t, m, "bob"), approver(t, m, "cyd")}
			view := staff[0].first(t)
			acts := []act{approves(view), rejects(view, "No."), edits(view, edited)}
			if kind == "escalation" {
				acts = acts[:2]
			}
			texts, results := make([]string, 50), make([]map[string]any, 50)
			choice := func(i int) (person, act) { return staff[i%3], acts[i/3%len(acts)] }
			for i := range texts {
				p, a := choice(i)
				texts[i] = a.text(p.sign(t, a))
			}
			together(len(texts), func(i int) {
				p, a := choice(i)
				results[i] = reply(t, p.Agent, subjects.Approval(p.Name, subjects.Verb(a.verb)), texts[i])
			})
			winner := -1
			for i, r := range results {
				switch {
				case textOf(r, "decision") != "" && winner < 0:
					winner = i
				case textOf(r, "error") != "already_decided":
					t.Errorf("reply %d: %v", i, r)
				}
			}
			if winner < 0 {
				t.Fatal("no decision counts")
			}
			p, a := choice(winner)
			d := m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept })
			if d.Agent != p.Name || d.Event != string(a.verb) || textOf(results[winner], "decision") != string(a.verb) {
				t.Errorf("%s by %s is recorded as %+v", a.verb, p.Name, d)
			}
			m.Settle(t)
			want := map[bcp.Act]string{bcp.Approve: `"response":` + original, bcp.EditItem: `"response":` + edited, bcp.RejectItem: `"outcome":"approval_rejected"`}[a.verb]
			switch {
			case kind == "escalation" && a.verb == bcp.Approve:
				mailer.Answer(t, mailer.queries.NextOf(t, meshtest.With("query_id", query)), `"not_enough_information":true`)
				want = `"outcome":"not_enough_information"`
			case kind == "escalation":
				want = `"outcome":"escalation_denied"`
			case kind == "push" && a.verb == bcp.RejectItem:
				want = ""
			}
			if want != "" {
				if got := main.delivery(t); !contains(got, want) {
					t.Errorf("%s by %s: delivered %s", a.verb, p.Name, got.JSON)
				}
			}
			if kind != "escalation" {
				r := mailer.result(t)
				if status := r.Text("status"); (status == "delivered") != (a.verb != bcp.RejectItem) {
					t.Errorf("%s: the Reader hears %s", a.verb, r.JSON)
				}
				mailer.Acknowledge(t, r)
			}
			m.Settle(t)
			if more := append(main.rest(t), mailer.queries.Taken(t)...); len(more) > 0 {
				t.Errorf("and %s", more[0].JSON)
			}
			if j := checkStreams(t, m); j.Decided[string(view.ID)] != 1 {
				t.Errorf("decided %v", j.Decided)
			}
		})
	}
}

// Two connections of a Reader answer each query at once, and differ.
//
// covers A-DOUBLE, P3.10, P4.5, P9.5
func TestDoubleAnswers(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", people))
	main, one := connect(t, m)
	two := reader(t, m, "mailer")
	for range 40 {
		id := main.Accepted(t, "mailer", `{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":1}]}`)
		sides := []side{one, two}
		queries := []meshtest.Message{one.queries.NextOf(t, meshtest.With("query_id", id)), two.queries.NextOf(t, meshtest.With("query_id", id))}
		together(2, func(i int) {
			if err := sides[i].Publish(queries[i].Reply, fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"response":{"n":%d}}`, id, i)); err != nil {
				t.Error(err)
			}
			_ = sides[i].Flush()
		})
		answers := m.WaitCount(t, 2, func(d *bcp.Decision) bool { return d.Kind == bcp.KindAnswer && d.Query == id })
		if answers[0].Verdict != bcp.Accept || answers[1].Code != bcp.AlreadyAnswered {
			t.Fatalf("%s, then %s %s", answers[0].Verdict, answers[1].Verdict, answers[1].Code)
		}
		if d := main.delivery(t); d.Text("query_id") != string(id) || !contains(d, string(answers[0].Payload)) {
			t.Errorf("delivery %s of %s", d.JSON, answers[0].Payload)
		}
	}
	m.Settle(t)
	if more := main.rest(t); len(more) > 0 {
		t.Errorf("and %s", more[0].JSON)
	}
	checkStreams(t, m)
}

// A hundred repeats of one request_id and of one push_id at once: one charge,
// and everybody hears the same.
//
// covers P2.6, P4.5
func TestConcurrentRepeats(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(crowd(pair(1000)), "mesh.yaml", people))
	controllers, readers := many(t, m, "main", 10), many(t, m, "mailer", 10)
	heard := make([]string, 200)
	together(len(heard), func(i int) {
		var r map[string]any
		if i%2 == 0 {
			r = reply(t, controllers[i/2%10], subjects.Ask("main", "mailer"), withID(askWho, "request_id", "r1"))
		} else {
			r = reply(t, readers[i/2%10], subjects.Push("mailer", "main", "notes"), meshtest.PushText("main", "notes", `{"note":"rain"}`, `,"push_id":"r1"`))
		}
		heard[i] = fmt.Sprint(r)
	})
	for i, h := range heard {
		if h != heard[i%2] || strings.Contains(h, "error") || strings.Contains(h, "code") {
			t.Errorf("%d heard %s, %d %s", i%2, heard[i%2], i, h)
		}
	}
	if j := checkStreams(t, m); j.Asks["main mailer r1"] != 1 || j.Pushes["main mailer r1"] != 1 {
		t.Errorf("asks %v, pushes %v", j.Asks, j.Pushes)
	} else {
		var sum bcp.Bits
		for _, b := range j.Balances {
			sum += b.Spent()
		}
		if sum != 66_000_000_000+44_000_000_000 {
			t.Errorf("charged %d", sum)
		}
	}
}

// Sessions are opened and closed while others ask and the Reader answers: every
// query ends once, those of a closed session or as they were answered, and
// nothing stays in reserve.
//
// covers P4.4, P4.5, P7.6, P9.2
func TestSessionsUnderTraffic(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(crowd(pair(20)), "mesh.yaml", people))
	controllers := many(t, m, "main", 4)
	main, mailer := controller(t, m, "main"), m.Connect(t, "mailer", bcp.RoleReader)
	listens(t, mailer, subjects.QueriesOf("mailer"), func(query *nats.Msg, fields map[string]any) {
		_ = query.Respond(fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,%s}`, fields["query_id"], isUrgent))
	})
	listens(t, mailer, subjects.DeliveriesOf(bcp.RoleReader, "mailer"), acknowledge)
	var mu sync.Mutex
	accepted, codes := map[string]bool{}, map[string]int{}
	together(len(controllers), func(i int) {
		for n := range 60 {
			if n%6 == 5 {
				verb := []string{"open", "close"}[n/6%2]
				if r := reply(t, controllers[i], subjects.Session("main"), `{"verb":"`+verb+`"}`); textOf(r, "error") != "" {
					t.Errorf("%s: %v", verb, r)
				}
				continue
			}
			r := reply(t, controllers[i], subjects.Ask("main", "mailer"), askUrgent)
			mu.Lock()
			codes[textOf(r, "error")]++
			if id := textOf(r, "query_id"); id != "" {
				accepted[id] = true
			}
			mu.Unlock()
		}
	})
	reply(t, controllers[0], subjects.Session("main"), `{"verb":"close"}`)
	for code := range codes {
		if code != "" && code != "budget_exhausted" {
			t.Errorf("heard %s", code)
		}
	}
	ended := map[string]int{}
	for range accepted {
		d := main.delivery(t)
		ended[d.Text("query_id")]++
		if o := d.Text("outcome"); o != "" && o != "cancelled" {
			t.Errorf("delivery %s", d.JSON)
		}
	}
	if len(ended) != len(accepted) {
		t.Errorf("%d of %d queries ended", len(ended), len(accepted))
	}
	m.Settle(t)
	if more := main.rest(t); len(more) > 0 {
		t.Errorf("and %s", more[0].JSON)
	}
	j := checkStreams(t, m)
	for pool, b := range j.Balances {
		if b.Reserved != 0 {
			t.Errorf("%s keeps %d in reserve", pool, b.Reserved)
		}
	}
	t.Logf("%d queries in %d epochs", len(accepted), len(j.Balances))
}

// history runs operations of several clients beside each other and notes when
// each began and what it returned.
type history struct {
	t           *testing.T
	m           *meshtest.Mesh
	controllers []*meshtest.Agent
	mailer      *meshtest.Agent
	operator    *meshtest.Agent

	mu      sync.Mutex
	begin   time.Time
	ops     []porcupine.Operation
	sent    map[string]chan *nats.Msg // queries as the Reader got them
	results map[string]chan struct{}  // of failed ones
}

// costs are the prices of integer fields in bits: 2^n values.
func askBits(n int, client string) string {
	text := fmt.Sprintf(`{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":%d}]}`, 1<<n-1)
	if client != "" {
		text = withID(text, "request_id", client)
	}
	return text
}

// A query that failed may have made the next one an escalation.
const askWord = `{"category":2,"questions":[{"id":"q","question":"?","max_words":1,"expected_format":"vocabulary","vocabulary":"bits"}],` +
	`"escalation":{"justification":"The fields do not say it."}}`

func (h *history) call(client int, op budgetOp, do func() budgetResult) budgetResult {
	from := time.Since(h.begin).Nanoseconds()
	out := do()
	to := time.Since(h.begin).Nanoseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Call: from, Return: to, Input: op, Output: out})
	return out
}

func (h *history) arrived(id string) chan *nats.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sent[id] == nil {
		h.sent[id] = make(chan *nats.Msg, 16)
	}
	return h.sent[id]
}

func (h *history) failed(id string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.results[id] == nil {
		h.results[id] = make(chan struct{}, 16)
	}
	return h.results[id]
}

// run does what one client has to do. A query is failed by its Reader where the
// client says so, as an operation of its own.
func (h *history) run(client int, ops []budgetOp, fails []bool, ids string) {
	for i, op := range ops {
		// Client ids are fresh for each history.
		if op.client != "" {
			op.client = ids + op.client
		}
		out := h.call(client, op, func() budgetResult { return h.do(client, op) })
		if op.kind != "ask" || out.query == "" || !fails[i] || op.client != "" { // a repeat fails it once
			continue
		}
		var query *nats.Msg
		select {
		case query = <-h.arrived(out.query):
		case <-time.After(meshtest.Patience):
			h.t.Errorf("query %s did not come", out.query)
			return
		}
		h.call(client, budgetOp{kind: "fail", cost: op.cost, query: out.query}, func() budgetResult {
			if err := h.mailer.Publish(query.Reply, fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"not_enough_information":true}`, out.query)); err != nil {
				h.t.Error(err)
			}
			select {
			case <-h.failed(out.query):
			case <-time.After(meshtest.Patience):
				h.t.Errorf("no result of query %s", out.query)
			}
			return budgetResult{}
		})
	}
}

func (h *history) do(client int, op budgetOp) budgetResult {
	switch op.kind {
	case "renew":
		reply(h.t, h.operator, subjects.Control(bcp.ControlRenew), `{"agent":"main"}`)
		return budgetResult{}
	case "push":
		more := ""
		if op.client != "" {
			more = fmt.Sprintf(`,"push_id":%q`, op.client)
		}
		r := reply(h.t, h.mailer, subjects.Push("mailer", "main", bcp.SubscriptionID(fmt.Sprint("bits", op.cost))),
			meshtest.PushText("main", bcp.SubscriptionID(fmt.Sprint("bits", op.cost)), `{"n":0}`, more))
		return budgetResult{code: textOf(r, "code")}
	}
	text := askBits(op.cost, op.client)
	if op.cat2 {
		text = askWord
		if op.client != "" {
			text = withID(text, "request_id", op.client)
		}
	}
	r := reply(h.t, h.controllers[client], subjects.Ask("main", "mailer"), text)
	remaining, _ := r["remaining_bits"].(float64)
	return budgetResult{code: textOf(r, "error"), query: textOf(r, "query_id"), remaining: int(remaining)}
}

// Random operations of several clients on one channel return what they would
// have returned one after the other, in some order that respects time: asks and
// pushes with a budget for a few, repeats, failures that give bits back, and
// renewals. -rapid.checks says how many histories.
//
// covers P4.3, P4.4, P4.5, P4.7, P2.6, SUB-26, SUB-82, SUB-95, SUB-96, SUB-98, A-RACE, A-CONCQ
func TestBudgetIsLinearizable(t *testing.T) {
	t.Parallel()
	channel := channelBudget{budget: 30, pushBudget: 12, maxCat2: 2}
	subscriptions := "push_budget_bits: 12\nmax_cat2_queries: 2\nsubscriptions:\n"
	for _, n := range []int{1, 3, 6} {
		subscriptions += fmt.Sprintf("  - {id: bits%d, category: 1, fields: [{name: n, type: integer, min: 0, max: %d}]}\n", n, 1<<n-1)
	}
	m := meshtest.Prepare(t, with(crowd(map[string]string{
		"main.md": agentFile("main", "", controls("mailer", 30, subscriptions)), "mailer.md": agentFile("mailer", "", reads("main")),
	}), "mesh.yaml", "vocabularies: {bits: ["+strings.Join(words(2047), ", ")+"]}\n"))
	// Beyond what definitions may say: all histories are one session.
	c := &m.Definition.Channels[0]
	m.Definition.MaxRefusals, c.MaxEscalations, c.WindowBudget = 1<<30, 1<<30, 0
	m.Start(t)
	const clients = 5
	h := &history{t: t, m: m, controllers: many(t, m, "main", clients), mailer: m.Connect(t, "mailer", bcp.RoleReader), operator: m.Connect(t, bcp.Operator, bcp.RoleOperator)}
	listens(t, m.Connect(t, "main", bcp.RoleController), subjects.DeliveriesOf(bcp.RoleController, "main"), acknowledge)
	listens(t, h.mailer, subjects.DeliveriesOf(bcp.RoleReader, "mailer"), func(msg *nats.Msg, fields map[string]any) {
		acknowledge(msg, fields)
		if id := textOf(fields, "query_id"); id != "" {
			h.failed(id) <- struct{}{}
		}
	})
	listens(t, h.mailer, subjects.QueriesOf("mailer"), func(msg *nats.Msg, fields map[string]any) { h.arrived(textOf(fields, "query_id")) <- msg })

	operations := rapid.Custom(func(t *rapid.T) budgetOp {
		op := budgetOp{kind: rapid.SampledFrom([]string{"ask", "ask", "ask", "push", "push", "renew"}).Draw(t, "kind")}
		switch op.kind {
		case "ask":
			op.cost = rapid.SampledFrom([]int{1, 3, 6, 9}).Draw(t, "cost")
			if op.cat2 = rapid.IntRange(0, 3).Draw(t, "category") == 0; op.cat2 {
				op.cost = 11
			}
		case "push":
			op.cost = rapid.SampledFrom([]int{1, 3, 6}).Draw(t, "cost")
		case "renew":
			if rapid.IntRange(0, 2).Draw(t, "renewed") > 0 { // not too often
				op.kind, op.cost = "ask", 6
			}
			return op
		}
		if rapid.IntRange(0, 2).Draw(t, "repeats") == 0 { // the same id, the same bytes
			op.client = fmt.Sprintf("c%d%t%d", op.cost, op.cat2, rapid.IntRange(0, 1).Draw(t, "id"))
		}
		return op
	})
	number, kinds := 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		plans, fails := make([][]budgetOp, clients), make([][]bool, clients)
		for i := range plans {
			plans[i] = rapid.SliceOfN(operations, 1, 5).Draw(rt, "plan")
			fails[i] = rapid.SliceOfN(rapid.Bool(), 5, 5).Draw(rt, "fails")
		}
		number++
		reply(t, h.operator, subjects.Control(bcp.ControlRenew), `{"agent":"main"}`)
		h.mu.Lock()
		h.begin, h.ops, h.sent, h.results = time.Now(), nil, map[string]chan *nats.Msg{}, map[string]chan struct{}{}
		h.mu.Unlock()
		together(clients, func(i int) { h.run(i, plans[i], fails[i], fmt.Sprintf("h%d-", number)) })
		for _, op := range h.ops {
			kinds[op.Input.(budgetOp).kind+" "+op.Output.(budgetResult).code]++
		}
		switch result, _ := porcupine.CheckOperationsVerbose(channel.model(), h.ops, time.Minute); result {
		case porcupine.Ok:
		case porcupine.Unknown:
			t.Errorf("history %d could not be checked in time", number)
		default:
			for _, op := range h.ops {
				rt.Logf("%d %d-%d %+v -> %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
			}
			rt.Fatalf("history %d is not linearizable", number)
		}
	})
	for _, k := range []string{"ask ", "push ", "fail ", "renew ", "ask budget_exhausted", "ask query_limit_reached", "push budget_exhausted"} {
		if kinds[k] == 0 && !testing.Short() { // which draws a fifth
			t.Errorf("no %q in any history: %v", k, slices.Sorted(maps.Keys(kinds)))
		}
	}
	t.Logf("%d histories: %v", number, kinds)
	checkStreams(t, m)
}

// words are n different ones.
func words(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("w%c%c%c", 'a'+i/676%26, 'a'+i/26%26, 'a'+i%26)
	}
	return list
}
