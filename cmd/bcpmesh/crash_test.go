package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

var rounds = flag.Int("rounds", 3, "how often TestCrash kills the mesh")

const (
	// roundLength is how many acknowledged asks, pushes and deliveries there
	// are between two kills.
	roundLength = 120
	// retryAfter is how long a client waits for a reply before it repeats.
	retryAfter = 500 * time.Millisecond
	// stepPatience is how long anything may take before the test fails.
	stepPatience = 30 * time.Second
)

var crashFiles = map[string]string{
	"main.md":   crashController("main"),
	"boss.md":   crashController("boss"),
	"mailer.md": crashReader("mailer"),
	"clerk.md":  crashReader("clerk"),
}

func crashController(name string) string {
	text := "---\nname: " + name + "\nbcp_channels:\n"
	for _, peer := range []string{"clerk", "mailer"} {
		text += "  - {peer: " + peer + ", role: controller, max_category: 1, budget_bits: 1000000, subscriptions: [{id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}]}\n"
	}
	return text + "---\n"
}

func crashReader(name string) string {
	return "---\nname: " + name + "\nbcp_channels: [{peer: boss, role: reader}, {peer: main, role: reader}]\n---\n"
}

// The process is killed in the middle of traffic, again and again, and started
// again on the same state and port. Clients repeat what was not acknowledged.
// Afterwards a checker that knows nothing of the writer reads the journal.
//
// covers P4.5, P9.1, P9.5, P2.6, A-RECONN, BCP-145, SUB-128
func TestCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	for name, text := range crashFiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mesh := startProcess(t, dir, state, "127.0.0.1:0")
	address := mesh.address(t)
	store, err := accounts.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	traffic := &traffic{t: t, asks: map[string]string{}, pushes: map[string]bool{}, delivered: map[string]string{}, stop: make(chan struct{})}
	traffic.progress.L = &traffic.mu
	for _, reader := range []bcp.AgentName{"clerk", "mailer"} {
		conn := dial(t, store, mesh.url, reader)
		traffic.answer(conn, reader)
		for _, controller := range []bcp.AgentName{"boss", "main"} {
			traffic.run(func() { traffic.push(conn, reader, controller) })
		}
	}
	for _, controller := range []bcp.AgentName{"boss", "main"} {
		conn := dial(t, store, mesh.url, controller)
		traffic.receive(conn, controller)
		for _, reader := range []bcp.AgentName{"clerk", "mailer"} {
			traffic.run(func() { traffic.ask(conn, controller, reader) })
		}
	}
	for range *rounds {
		traffic.await("progress", func() bool { return traffic.count >= roundLength })
		mesh.kill(t)
		traffic.mu.Lock()
		traffic.count = 0
		traffic.mu.Unlock()
		mesh = startProcess(t, dir, state, address)
	}
	traffic.await("progress", func() bool { return traffic.count >= roundLength })
	close(traffic.stop)
	traffic.running.Wait()
	traffic.await("a delivery for each ask and push", func() bool { return len(traffic.delivered) >= len(traffic.asks)+len(traffic.pushes) })
	mesh.end(t)
	traffic.check(state)
}

// traffic is what clients had acknowledged, and what they received.
type traffic struct {
	t       *testing.T
	stop    chan struct{}
	running sync.WaitGroup

	mu        sync.Mutex
	progress  sync.Cond
	count     int               // since the last kill
	asks      map[string]string // query id by "controller reader id"
	pushes    map[string]bool   // by the same key
	delivered map[string]string // bytes by delivery id
	twice     int               // deliveries that came again
	repeats   int               // requests that had to be repeated
}

func (c *traffic) run(client func()) { c.running.Go(client) }

func (c *traffic) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.count++
	c.progress.Broadcast()
}

func (c *traffic) await(what string, done func() bool) {
	c.t.Helper()
	late := false
	defer time.AfterFunc(stepPatience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		late = true
		c.progress.Broadcast()
	}).Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !done() {
		if late {
			c.t.Fatalf("waited for %s: %d asks, %d pushes, %d deliveries", what, len(c.asks), len(c.pushes), len(c.delivered))
		}
		c.progress.Wait()
	}
}

// repeat sends a request until it is answered with something that accepted
// takes.
func (c *traffic) repeat(conn *nats.Conn, subject, text string, accepted func(reply map[string]any) bool) bool {
	for deadline := time.Now().Add(stepPatience); time.Now().Before(deadline); {
		reply, err := conn.Request(subject, []byte(text), retryAfter)
		if err == nil {
			var fields map[string]any
			if err := json.Unmarshal(reply.Data, &fields); err != nil {
				c.t.Errorf("a reply: %v", err)
			}
			if accepted(fields) {
				return true
			}
			if code := fmt.Sprint(fields["error"], fields["code"]); !strings.Contains(code, "unavailable") {
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

func (c *traffic) ended() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *traffic) ask(conn *nats.Conn, controller, reader bcp.AgentName) {
	for n := 0; !c.ended(); n++ {
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
	for n := 0; !c.ended(); n++ {
		id := fmt.Sprintf("p%d", n)
		text := meshtest.PushText(controller, "alerts", `{"urgent":true}`, fmt.Sprintf(`,"push_id":%q`, id))
		if !c.repeat(conn, subjects.Push(reader, controller, "alerts"), text, func(reply map[string]any) bool { return reply["success"] == true }) {
			return
		}
		c.note(func() { c.pushes[fmt.Sprintf("%s %s %s", controller, reader, id)] = true })
	}
}

// answer answers every query that comes.
func (c *traffic) answer(conn *nats.Conn, reader bcp.AgentName) {
	c.subscribe(conn, subjects.QueriesOf(reader), func(m *nats.Msg) {
		var query struct {
			ID string `json:"query_id"`
		}
		if err := json.Unmarshal(m.Data, &query); err != nil {
			c.t.Errorf("a query: %v", err)
		}
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
		if err := json.Unmarshal(m.Data, &delivery); err != nil || delivery.ID == "" {
			c.t.Errorf("a delivery: %s", m.Data)
		}
		c.note(func() {
			before, again := c.delivered[delivery.ID]
			if again {
				c.twice++
				if before != string(m.Data) {
					c.t.Errorf("delivered %s, then %s", before, m.Data)
				}
			}
			c.delivered[delivery.ID] = string(m.Data)
		})
		_ = m.Respond(nil)
	})
}

func (c *traffic) subscribe(conn *nats.Conn, subject string, handle func(*nats.Msg)) {
	c.t.Helper()
	if _, err := conn.Subscribe(subject, handle); err != nil {
		c.t.Fatal(err)
	}
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
	if err := m.Projected(ctx, started.Seq); err != nil {
		t.Fatal(err)
	}
	m.Stop(t)
	js, end := m.Streams(t)
	t.Cleanup(end)
	var records [][]byte
	for _, r := range meshtest.ReadStream(t, js, jetstream.CommitStream) {
		records = append(records, r.Data)
	}
	journal, err := meshtest.CheckJournal(records, budgets)
	if err != nil {
		t.Fatal(err)
	}
	return journal, js
}

// check compares what clients know with the journal.
func (c *traffic) check(state string) {
	t := c.t
	budgets := map[string]int64{}
	for _, controller := range []string{"boss ", "main "} {
		budgets[controller+"clerk"], budgets[controller+"mailer"] = 1e15, 1e15
	}
	journal, js := journalOf(t, crashFiles, state, budgets)
	t.Logf("%d kills: %d asks, %d pushes, %d deliveries acknowledged to or by clients; %d requests repeated, %d deliveries came again; %d decisions in %d records",
		*rounds, len(c.asks), len(c.pushes), len(c.delivered), c.repeats, c.twice, journal.Decisions, journal.Records)
	if starts := journal.Kinds[uint64(bcp.KindStart)]; starts != *rounds+2 {
		t.Errorf("%d starts", starts)
	}
	spent := map[string]int64{}
	for key, query := range c.asks {
		if journal.Asks[key] != 1 || journal.Query[key] != query || journal.Answered[query] != 1 {
			t.Errorf("ask %s: %d times, query %s (%s), answered %d times", key, journal.Asks[key], journal.Query[key], query, journal.Answered[query])
		}
	}
	for key := range c.pushes {
		if journal.Pushes[key] != 1 {
			t.Errorf("push %s: %d times", key, journal.Pushes[key])
		}
	}
	for _, counts := range []map[string]int{journal.Asks, journal.Pushes} {
		for key := range counts {
			spent[key[:strings.LastIndex(key, " ")]+" 1"] += int64(bcp.Bit)
		}
	}
	settled := map[string]int64{}
	for pool, balance := range journal.Balances {
		if settled[pool] = balance.Settled; balance.Reserved != 0 {
			t.Errorf("%s holds %d in reserve", pool, balance.Reserved)
		}
	}
	if !maps.Equal(settled, spent) {
		t.Errorf("settled %v, spent %v", settled, spent)
	}
	if len(journal.Delivered) != len(c.delivered) {
		t.Errorf("%d deliveries in the journal, %d received", len(journal.Delivered), len(c.delivered))
	}
	for id := range c.delivered {
		if journal.Delivered[id] != 1 {
			t.Errorf("delivery %s: %d times", id, journal.Delivered[id])
		}
	}
	audit := meshtest.ReadStream(t, js, jetstream.AuditStream)
	if len(audit) != journal.Decisions {
		t.Errorf("the audit has %d records of %d decisions", len(audit), journal.Decisions)
	}
	for i, m := range audit {
		if m.Header.Get("Bcp-Decision") != fmt.Sprint(i+1) {
			t.Errorf("record %d of the audit is decision %s", i+1, m.Header.Get("Bcp-Decision"))
		}
	}
	if n := len(meshtest.ReadStream(t, js, jetstream.ValidatedStream)); n != len(journal.Delivered) {
		t.Errorf("%d validated messages of %d deliveries", n, len(journal.Delivered))
	}
}

func dial(t *testing.T, store *accounts.Store, url string, name bcp.AgentName) *nats.Conn {
	t.Helper()
	creds, err := store.Issue(name, 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(
		url, nats.UserCredentialBytes(creds.Text()), nats.CustomInboxPrefix(subjects.InboxPrefix(name)),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond),
		nats.ReconnectBufSize(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// process is a running bcpmesh up.
type process struct {
	cmd    *exec.Cmd
	url    string
	stderr *bytes.Buffer
}

func startProcess(t *testing.T, dir, state, listen string) *process {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := &process{cmd: exec.Command("bcpmesh", "up", dir, "--listen", listen, "--state", state, "--ready-file", ready), stderr: &bytes.Buffer{}}
	p.cmd.Stderr = p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.awaitReady(t, ready)
	return p
}

// awaitReady waits for the ready file.
func (p *process) awaitReady(t *testing.T, ready string) {
	t.Helper()
	deadline := time.Now().Add(stepPatience)
	for {
		var about struct{ URL string }
		if b, err := os.ReadFile(ready); err == nil && json.Unmarshal(b, &about) == nil {
			p.url = about.URL
			return
		}
		if time.Now().After(deadline) || p.cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Fatalf("the mesh is not ready: %s", p.stderr)
		}
		time.Sleep(5 * time.Millisecond) // between two looks at the file
	}
}

func (p *process) address(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// kill ends the process as a power cut would.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err == nil {
		t.Fatal("the mesh ended by itself")
	}
}

// end asks the process to end and expects that it does so cleanly.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the mesh ended with %v: %s", err, p.stderr)
	}
}
