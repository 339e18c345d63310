package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// clients go on while what they use breaks, until end.
type clients struct {
	running sync.WaitGroup
	ended   atomic.Bool

	mu    sync.Mutex // of what they know
	count int        // of what they did, since the last mark
}

func (c *clients) end() {
	c.ended.Store(true)
	c.running.Wait()
}

// await waits for something that clients know; state says what else they know.
func (c *clients) await(t *testing.T, patience time.Duration, done func() bool, state func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		is := done()
		c.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(deadline) {
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Fatal("no progress: " + state())
		}
	}
}

// traffic is what clients had acknowledged, and what they received.
type traffic struct {
	clients

	t         *testing.T
	patience  time.Duration     // how long anything may take
	last      time.Time         // when something was acknowledged
	longest   time.Duration     // without anything acknowledged, since the last mark
	asks      map[string]string // query id by "controller reader id"
	pushes    map[string]bool   // by the same key; the id of a digest begins with d
	decided   map[bcp.ItemID]bool
	delivered map[string]string   // bytes by delivery id
	arrived   map[string][]string // delivery ids by "controller reader", in the order of their first arrival
	twice     int                 // deliveries that came again
	repeats   int                 // requests that had to be repeated
}

// startTraffic connects all agents and a person, who do what they can until
// end.
func startTraffic(t *testing.T, store *accounts.Store, url string, patience time.Duration, options ...nats.Option) *traffic {
	t.Helper()
	c := &traffic{
		t: t, patience: patience, asks: map[string]string{}, pushes: map[string]bool{}, decided: map[bcp.ItemID]bool{},
		delivered: map[string]string{}, arrived: map[string][]string{}, last: time.Now(),
	}
	readers, controllers := []bcp.AgentName{"clerk", "mailer"}, []bcp.AgentName{"boss", "main"}
	conns := map[bcp.AgentName]*nats.Conn{}
	for _, reader := range readers {
		conn := dial(t, store, url, reader, options...)
		conns[reader] = conn
		c.answer(conn, reader)
		for _, controller := range controllers {
			c.running.Go(func() { c.push(conn, reader, controller) })
		}
	}
	for _, controller := range controllers {
		conn := dial(t, store, url, controller, options...)
		c.receive(conn, controller)
		for _, reader := range readers {
			c.running.Go(func() { c.ask(conn, controller, reader) })
		}
	}
	person := approver(t, store, url)
	c.running.Go(func() { c.hold(conns[readers[0]], readers[0], person) })
	return c
}

// end waits for what clients have begun, and for all deliveries.
func (c *traffic) end() {
	c.t.Helper()
	c.clients.end()
	c.await("a delivery for each ask and push", func() bool { return len(c.delivered) >= len(c.asks)+len(c.pushes) })
}

// mark begins to count anew, and returns the longest time without anything
// acknowledged since it last did.
func (c *traffic) mark() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := max(c.longest, time.Since(c.last))
	c.count, c.longest = 0, 0
	return longest
}

func (c *traffic) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.count++
	now := time.Now()
	c.longest, c.last = max(c.longest, now.Sub(c.last)), now
}

func (c *traffic) await(what string, done func() bool) {
	c.t.Helper()
	c.clients.await(c.t, c.patience, done, func() string {
		return fmt.Sprintf("%s: %d asks, %d pushes, %d deliveries: %s", what, len(c.asks), len(c.pushes), len(c.delivered), c.channels())
	})
}

// channels counts what was accepted and what came of it, by "controller reader".
func (c *traffic) channels() string {
	type counts struct{ asks, answers, pushes, pushed int }
	of := map[string]*counts{}
	channel := func(key string) *counts {
		names := strings.Fields(key)
		key = names[0] + " " + names[1]
		if of[key] == nil {
			of[key] = &counts{}
		}
		return of[key]
	}
	for key := range c.asks {
		channel(key).asks++
	}
	for key := range c.pushes {
		channel(key).pushes++
	}
	for key, ids := range c.arrived {
		for _, id := range ids {
			if strings.Contains(c.delivered[id], `"query_id"`) {
				channel(key).answers++
			} else {
				channel(key).pushed++
			}
		}
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, fmt.Sprintf("%s %+v", key, *of[key]))
	}
	return strings.Join(lines, ", ")
}

// repeat sends a request until it is answered with something that accepted
// takes.
func (c *traffic) repeat(conn *nats.Conn, subject, text string, accepted func(reply map[string]any) bool) bool {
	heard := time.Now()
	for deadline := time.Now().Add(c.patience); time.Now().Before(deadline); {
		reply, err := conn.Request(subject, []byte(text), retryAfter)
		if err != nil && len(conn.Servers()) > 1 && time.Since(heard) > leaveAfter { // it may be cut off
			heard = time.Now()
			_ = conn.ForceReconnect() // unless it is closed
		}
		if err == nil {
			heard = time.Now()
			var fields map[string]any
			expect(c.t, json.Unmarshal(reply.Data, &fields), nil, "a reply")
			if accepted(fields) {
				return true
			}
			code := fmt.Sprint(fields["error"], fields["code"])
			if strings.Contains(code, "rate_limited") { // it repeated too often while it was not accepted
				time.Sleep(retryAfter)
			} else if !strings.Contains(code, "unavailable") {
				c.t.Errorf("%s: %s", text, reply.Data)
				return false
			}
		}
		c.mu.Lock()
		c.repeats++
		c.mu.Unlock()
		time.Sleep(5 * time.Millisecond) // the connection is down
	}
	c.t.Errorf("%s: not accepted in time", text)
	return false
}

func (c *traffic) ask(conn *nats.Conn, controller, reader bcp.AgentName) {
	for n := 0; !c.ended.Load(); n++ {
		id := fmt.Sprintf("r%d", n)
		text := fmt.Sprintf(`{"type":"bcp_query_request","request_id":%q,"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`, id)
		query := ""
		if !c.repeat(conn, subjects.Ask(controller, reader), text, func(reply map[string]any) bool {
			query, _ = reply["query_id"].(string)
			return query != ""
		}) {
			return
		}
		c.note(func() { c.asks[fmt.Sprintf("%s %s %s", controller, reader, id)] = query })
	}
}

func (c *traffic) push(conn *nats.Conn, reader, controller bcp.AgentName) {
	for n := 0; !c.ended.Load(); n++ {
		id := fmt.Sprintf("p%d", n)
		text := meshtest.PushText(controller, "alerts", `{"urgent":true}`, fmt.Sprintf(`,"push_id":%q`, id))
		if !c.repeat(conn, subjects.Push(reader, controller, "alerts"), text, func(reply map[string]any) bool { return reply["success"] == true }) {
			return
		}
		c.note(func() { c.pushes[fmt.Sprintf("%s %s %s", controller, reader, id)] = true })
	}
}

// hold pushes digests, which wait for a person, and is that person.
func (c *traffic) hold(conn *nats.Conn, reader bcp.AgentName, person *agents.Approver) {
	controllers := []bcp.AgentName{"boss", "main"}
	for n := 0; !c.ended.Load(); n++ {
		for _, controller := range controllers {
			id := fmt.Sprintf("d%d", n)
			text := meshtest.PushText(controller, "digest", `{"summary":"All is well."}`, fmt.Sprintf(`,"push_id":%q`, id))
			if !c.repeat(conn, subjects.Push(reader, controller, "digest"), text, func(reply map[string]any) bool { return reply["success"] == true || reply["status"] == "held" }) {
				return
			}
			c.note(func() { c.pushes[fmt.Sprintf("%s %s %s", controller, reader, id)] = true })
			if err := c.approveAll(person); err != nil {
				c.t.Errorf("approving: %v", err)
				return
			}
		}
	}
}

func (c *traffic) approveAll(person *agents.Approver) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	items, err := person.List(ctx)
	if err != nil {
		return err
	}
	for _, item := range items {
		view, err := person.View(ctx, item.ID)
		if err == nil {
			err = person.Approve(ctx, view)
		}
		var refused *agents.RefusedError // by itself, before the gateway was killed
		if err != nil && (!errors.As(err, &refused) || refused.Code != bcp.AlreadyDecided) {
			return err
		}
		c.note(func() { c.decided[item.ID] = true })
	}
	return nil
}

// approver connects the person whom every mesh has.
func approver(t *testing.T, store *accounts.Store, url string) *agents.Approver {
	t.Helper()
	creds := must(store.Issue(bcp.Operator, bcp.RoleApprover, time.Hour))(t)
	conn := must(agents.Connect(t.Context(), url, agents.CredsText(creds.Text()), agents.Options{Name: bcp.Operator, Encoding: bcp.JSON, Attempt: retryAfter, MaxWait: 50 * time.Millisecond}))(t)
	t.Cleanup(conn.Close)
	return agents.NewApprover(conn)
}

// answer answers every query that comes.
func (c *traffic) answer(conn *nats.Conn, reader bcp.AgentName) {
	c.subscribe(conn, subjects.QueriesOf(reader), func(m *nats.Msg) {
		var query struct {
			ID string `json:"query_id"`
		}
		expect(c.t, json.Unmarshal(m.Data, &query), nil, "a query")
		_ = m.Respond(fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"response":{"urgent":false}}`, query.ID))
	})
	c.subscribe(conn, subjects.DeliveriesOf(bcp.RoleReader, reader), func(m *nats.Msg) {
		if m.Reply != "" {
			_ = m.Respond(nil)
		}
	})
}

// receive acknowledges every delivery.
func (c *traffic) receive(conn *nats.Conn, controller bcp.AgentName) {
	c.subscribe(conn, subjects.DeliveriesOf(bcp.RoleController, controller), func(m *nats.Msg) {
		var delivery struct {
			ID string `json:"delivery_id"`
		}
		err := json.Unmarshal(m.Data, &delivery)
		failIf(c.t, err != nil || delivery.ID == "", "a delivery: %s", m.Data)
		c.note(func() {
			before, again := c.delivered[delivery.ID]
			if channel := string(controller) + " " + m.Subject[strings.LastIndex(m.Subject, ".")+1:]; !again {
				c.arrived[channel] = append(c.arrived[channel], delivery.ID)
			} else {
				c.twice++
				failIf(c.t, before != string(m.Data), "delivered %s, then %s", before, m.Data)
			}
			c.delivered[delivery.ID] = string(m.Data)
		})
		_ = m.Respond(nil)
	})
}

func (c *traffic) subscribe(conn *nats.Conn, subject string, handle func(*nats.Msg)) {
	c.t.Helper()
	must(conn.Subscribe(subject, handle))(c.t)
}

// journalOf checks the journal of a mesh that has ended, after one more start,
// so that the projections have caught up with it. The streams can be read until
// the test ends.
func journalOf(t *testing.T, files map[string]string, state string, budgets map[string]int64) (meshtest.Journal, natsjs.JetStream) {
	t.Helper()
	m := meshtest.Prepare(t, files)
	m.State = state
	m.Start(t)
	started := m.Wait(t, meshtest.Of(bcp.KindStart))
	ctx, cancel := context.WithTimeout(t.Context(), stepPatience)
	defer cancel()
	noError(t, m.Projected(ctx, started.Seq))
	m.Stop(t)
	js, end := m.Streams(t)
	t.Cleanup(end)
	journal := must(meshtest.CheckStream(t, js, budgets))(t)
	return journal, js
}

// crashBudgets are those of the pools of crashFiles, in nano-bits.
var crashBudgets = map[string]int64{"boss clerk": 1e15, "boss mailer": 1e15, "main clerk": 1e15, "main mailer": 1e15}

// check compares what clients know with the journal of a mesh that was killed.
func (c *traffic) check(state string) {
	c.t.Helper()
	journal, js := journalOf(c.t, crashFiles, state, crashBudgets)
	c.t.Logf("%d kills", *rounds)
	expect(c.t, journal.Kinds[bcp.KindStart], *rounds+2, "starts")
	c.compare(journal, js)
}

// compare compares what clients know with a journal and what is shown of it.
func (c *traffic) compare(journal meshtest.Journal, js natsjs.JetStream) {
	t := c.t
	t.Helper()
	t.Logf("%d asks, %d pushes, %d approvals, %d deliveries acknowledged to or by clients; %d requests repeated, %d deliveries came again; %d decisions in %d records",
		len(c.asks), len(c.pushes), len(c.decided), len(c.delivered), c.repeats, c.twice, journal.Decisions, journal.Records)
	spent := map[string]int64{}
	for key, query := range c.asks {
		failIf(t, journal.Asks[key] != 1 || journal.Query[key] != query || journal.Answered[query] != 1,
			"ask %s: %d times, query %s (%s), answered %d times", key, journal.Asks[key], journal.Query[key], query, journal.Answered[query])
	}
	for key := range c.pushes {
		failIf(t, journal.Pushes[key] != 1, "push %s: %d times", key, journal.Pushes[key])
	}
	for item := range c.decided {
		failIf(t, journal.Decided[string(item)] != 1, "item %s: decided %d times", item, journal.Decided[string(item)])
	}
	for _, counts := range []map[string]int{journal.Asks, journal.Pushes} {
		for key := range counts {
			channel, id := key[:strings.LastIndex(key, " ")], key[strings.LastIndex(key, " ")+1:]
			if id[0] == 'd' {
				spent[channel] += digestCost * int64(bcp.Bit)
			} else {
				spent[channel] += int64(bcp.Bit)
			}
		}
	}
	settled := map[string]int64{}
	for pool, balance := range journal.Balances {
		// A session renews what was pushed before it.
		if settled[pool[:strings.LastIndex(pool, " ")]] += int64(balance.Settled); balance.Reserved != 0 {
			t.Errorf("%s holds %d in reserve", pool, balance.Reserved)
		}
	}
	failIf(t, !maps.Equal(settled, spent), "settled %v, spent %v", settled, spent)
	failIf(t, len(journal.Delivered) != len(c.delivered),
		"%d deliveries in the journal, %d received", len(journal.Delivered), len(c.delivered))
	for id := range c.delivered {
		failIf(t, journal.Delivered[id] != 1, "delivery %s: %d times", id, journal.Delivered[id])
	}
	meshtest.CheckProjections(t, js, journal.Decisions)
}

func dial(t *testing.T, store *accounts.Store, url string, name bcp.AgentName, more ...nats.Option) *nats.Conn {
	t.Helper()
	creds := must(store.Issue(name, 0, time.Hour))(t)
	conn, err := nats.Connect(url, append(more, nats.UserCredentialBytes(creds.Text()), nats.CustomInboxPrefix(subjects.InboxPrefix(name)),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond),
		nats.ReconnectBufSize(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	noError(t, err)
	t.Cleanup(conn.Close)
	return conn
}
