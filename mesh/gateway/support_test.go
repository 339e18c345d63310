package gateway_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func TestMain(m *testing.M) {
	bcptest.Parallel(8)
	goleak.VerifyTestMain(m)
}

const (
	mainFile = `---
name: main
bcp_channels:
  - peer: mailer
    role: controller
    max_category: 3
    budget_bits: 10000000
    subscriptions:
      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}
      - {id: texts, category: 2, questions: [{id: text, question: "?", max_words: 1000, expected_format: short_text}]}
---
`
	mailerFile = "---\nname: mailer\nbcp_channels: [{peer: main, role: reader}]\n---\n"

	askUrgent = `{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`
)

var pushAlert = subjects.Push("mailer", "main", "alerts")

func alert(more string) string {
	return meshtest.PushText("main", "alerts", `{"urgent":true}`, more)
}

// bench is a server with streams, on which a test runs gateways and reaches
// into their journal.
type bench struct {
	*server.Server
	js         natsjs.JetStream // the gateway's permissions
	conn       *nats.Conn       // of js
	definition *bcp.Mesh
	store      *accounts.Store
	log        bcptest.Log
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := emptyBench(t)
	b.createStreams(t)
	return b
}

func (b *bench) createStreams(t testing.TB) {
	t.Helper()
	noError(t, jetstream.Create(t.Context(), b.js, jetstream.Topology{Replicas: 1}))
}

// emptyBench has no streams.
func emptyBench(t testing.TB) *bench {
	t.Helper()
	return benchOf(t, map[string]string{"main.md": mainFile, "mailer.md": mailerFile, "mesh.yaml": "max_refusals: 1000/m\n"})
}

// benchOf is emptyBench of other definitions.
func benchOf(t testing.TB, files map[string]string, kernels ...bcp.KernelRights) *bench {
	t.Helper()
	definition := meshtest.Parse(t, files)
	definition.Kernels = kernels
	return benchFor(t, definition)
}

// benchFor is emptyBench of a mesh.
func benchFor(t testing.TB, definition *bcp.Mesh) *bench {
	t.Helper()
	b := &bench{definition: definition}
	state := t.TempDir()
	store, bundle, err := mesh.Keys(state, b.definition)
	noError(t, err)
	b.store = store
	b.Server = must(server.Start(context.Background(), server.Config{StateDir: state, Bundle: bundle}))
	t.Cleanup(func() {
		err := b.Server.Stop(context.Background())
		failIf(t, err != nil, "%v", err)
	})
	b.conn = b.core(t)
	b.js = must(natsjs.New(b.conn))
	return b
}

// core connects to the gateway's account.
func (b *bench) core(t testing.TB) *nats.Conn {
	t.Helper()
	conn := must(b.Gateway())
	t.Cleanup(conn.Close)
	return conn
}

// running is a gateway of a bench and what it decided.
type running struct {
	*gateway.Gateway
	mu        sync.Mutex
	decisions []bcp.Decision
	conns     []*nats.Conn // the journal's, and those for agents
}

func (b *bench) start(t testing.TB, change ...func(*gateway.Config)) *running {
	t.Helper()
	return must(b.tryStart(t, change...))
}

// config is that of a gateway, without a connection for the journal.
func (b *bench) config() gateway.Config {
	return gateway.Config{
		State:   state.Config{Mesh: b.definition, Constraints: constraint.Compile, Version: "test"},
		Connect: func() (*nats.Conn, error) { return b.Gateway() },
		Logger:  hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &b.log}),
	}
}

// tryStart is start for a gateway that may find that another one wrote while it
// read the journal.
func (b *bench) tryStart(t testing.TB, change ...func(*gateway.Config)) (*running, error) {
	t.Helper()
	r := &running{}
	r.conns = append(r.conns, b.core(t))
	config := b.config()
	config.Conn = r.conns[0]
	config.Connect = func() (*nats.Conn, error) {
		conn, err := b.Gateway()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.conns = append(r.conns, conn)
		return conn, err
	}
	config.OnDecision = func(d *bcp.Decision) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.decisions = append(r.decisions, *d)
	}
	for _, f := range change {
		f(&config)
	}
	g, err := gateway.Start(context.Background(), config)
	if err != nil {
		r.disconnect()
		return nil, err
	}
	r.Gateway = g
	unwatch := must(b.Watch(func(c server.Connection) {
		if c.Connected {
			g.Connected(c.Agent, c.Role, c.UserKey, c.Host)
		} else {
			g.Disconnected(c.Agent, c.Role, c.UserKey, c.Host)
		}
	}))
	t.Cleanup(func() { unwatch(); _ = g.Stop() })
	return r, nil
}

// served is a bench whose gateway serves main and mailer, which are connected.
func served(t *testing.T, change ...func(*gateway.Config)) (b *bench, g *running, main, mailer *meshtest.Agent) {
	t.Helper()
	b = newBench(t)
	g = b.start(t, change...)
	main, mailer = b.agent(t, "main"), b.agent(t, "mailer")
	g.wait(t, 2, of(bcp.KindConnect))
	return b, g, main, mailer
}

// disconnect closes what the gateway's caller has to.
func (r *running) disconnect() {
	for _, conn := range r.conns {
		conn.Close()
	}
}

// wait returns the decisions that match, once there are n.
func (r *running) wait(t testing.TB, n int, match func(*bcp.Decision) bool) (found []bcp.Decision) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d such decisions", n), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		found = nil
		for i := range r.decisions {
			if match(&r.decisions[i]) {
				found = append(found, r.decisions[i])
			}
		}
		return len(found) >= n
	})
	return found
}

// agent connects a stock client.
func (b *bench) agent(t *testing.T, name bcp.AgentName) *meshtest.Agent {
	t.Helper()
	creds := must(b.store.Issue(name, 0, time.Hour))
	definition, _ := b.definition.Agent(name)
	a := meshtest.NewAgent(definition)
	a.Dial(t, b.URL(), creds.Text())
	return a
}

// operator connects as whoever owns the mesh.
func (b *bench) operator(t *testing.T) *meshtest.Agent {
	t.Helper()
	creds := must(b.store.Issue(bcp.Operator, bcp.RoleOperator, time.Hour))
	a := meshtest.NewAgent(bcp.Agent{Name: bcp.Operator, Encoding: bcp.JSON})
	a.Dial(t, b.URL(), creds.Text())
	return a
}

// journal reads and checks the journal.
func (b *bench) journal(t *testing.T) meshtest.Journal {
	t.Helper()
	return must(meshtest.CheckStream(t, b.js, nil))
}

// full makes a stream refuse further messages, or accept them again.
func (b *bench) full(t *testing.T, name string, full bool) {
	t.Helper()
	stream := must(b.js.Stream(t.Context(), name))
	info := stream.CachedInfo()
	info.Config.MaxMsgs, info.Config.Discard = -1, natsjs.DiscardNew
	if full {
		info.Config.MaxMsgs = int64(info.State.Msgs)
	}
	must(b.js.UpdateStream(t.Context(), info.Config))
}

// silent has the journal store what comes and acknowledge nothing, or as before.
func (b *bench) silent(t *testing.T, silent bool) {
	t.Helper()
	stream := must(b.js.Stream(t.Context(), jetstream.CommitStream))
	config := stream.CachedInfo().Config
	config.NoAck = silent
	must(b.js.UpdateStream(t.Context(), config))
}

func of(kind bcp.DecisionKind) func(*bcp.Decision) bool {
	return func(d *bcp.Decision) bool { return d.Kind == kind }
}

var noError, failIf, fails, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.Fails, bcptest.StopIf

var eventually, within = bcptest.Eventually, bcptest.Within

// process tells a gateway of an agent's command.
func process(g *running, agent bcp.AgentName, event, note string) {
	g.Happened(bcp.Decision{Kind: bcp.KindProcess, Agent: agent, Event: event, Note: note}, nil)
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

// coded expects that a reply has an error or a code; an empty one is none. What says in which case.
func coded[C ~string](t testing.TB, reply meshtest.Message, code C, what ...any) {
	t.Helper()
	got := reply.Text("error") + reply.Text("code")
	failIf(t, got != string(code), "%s got %s, not %q", fmt.Sprint(what...), reply.JSON, code)
}

// succeeded ends a test whose message was refused.
func succeeded(t testing.TB, reply meshtest.Message, what ...any) {
	t.Helper()
	stopIf(t, reply.Fields["success"] != true, "%s got %s", fmt.Sprint(what...), reply.JSON)
}

// next waits for what comes on a channel.
func next[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	return bcptest.Next(t, from, "%s", what)
}

// clock is a clock that a test sets.
type clock struct{ atomic.Int64 }

func newClock(at time.Time) *clock {
	c := new(clock)
	c.Store(at.UnixNano())
	return c
}

func (c *clock) now() time.Time { return time.Unix(0, c.Load()) }

func (c *clock) pass(d time.Duration) { c.Add(int64(d)) }

func (c *clock) set(config *gateway.Config) { config.Now = c.now }

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
