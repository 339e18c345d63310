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
	must(a.Subscribe(subject, func(msg *nats.Msg) {
		var fields map[string]any
		if err := json.Unmarshal(msg.Data, &fields); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
		handle(msg, fields)
	}))
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
			err := h.mailer.Publish(query.Reply, fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"not_enough_information":true}`, out.query))
			failIf(h.t, err != nil, "%v", err)
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
