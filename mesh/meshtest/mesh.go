package meshtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Patience is how long everything here waits before it fails the test. A
// working mesh never takes that long.
const Patience = 45 * time.Second

// settler is a person in every mesh of this package, for [Mesh.Settle].
const settler bcp.AgentName = "settler"

// Mesh is a mesh that ends with its test. Its methods may be used
// concurrently, except Start, Stop and Restart.
type Mesh struct {
	*mesh.Mesh        // nil while it rests
	State      string // its state folder
	Definition *bcp.Mesh

	t       testing.TB
	change  []func(*mesh.Config)
	log     bcptest.Log
	settler *Agent

	mu        sync.Mutex
	grown     chan struct{} // closed and replaced when decisions grows
	decisions []bcp.Decision
}

// Start runs a mesh of these definition files until the test ends. Each change
// is applied to its config before it starts, and again after a restart.
func Start(t testing.TB, files map[string]string, change ...func(*mesh.Config)) *Mesh {
	t.Helper()
	m := Prepare(t, files, change...)
	m.Start(t)
	return m
}

// Prepare returns a stopped mesh, with no state yet.
func Prepare(t testing.TB, files map[string]string, change ...func(*mesh.Config)) *Mesh {
	t.Helper()
	m := &Mesh{State: t.TempDir(), Definition: Parse(t, files), t: t, change: change, grown: make(chan struct{})}
	t.Cleanup(func() { m.Stop(t) })
	return m
}

// Parse returns the mesh of these definition files, or fails the test. Unless
// mesh.yaml says otherwise, its journal is not written through to disk: no test
// cuts the power.
func Parse(t testing.TB, files map[string]string) *bcp.Mesh {
	t.Helper()
	texts := make(map[string][]byte, len(files))
	for name, text := range files {
		texts[name] = []byte(text)
	}
	parsed, report := definition.Parse(texts)
	bcptest.StopIf(t, parsed == nil, "the definitions are wrong: %v", report.Errors)
	parsed.Approvers = append(parsed.Approvers, settler)
	for i := range parsed.Channels {
		c := &parsed.Channels[i]
		c.Approvers = append(slices.Clip(c.Approvers), settler)
	}
	if !strings.Contains(files["mesh.yaml"], "sync:") {
		parsed.SyncInterval = time.Hour
	}
	return parsed
}

// Start starts a stopped mesh, on its state.
func (m *Mesh) Start(t testing.TB) {
	t.Helper()
	noError(t, m.TryStart(t))
}

// TryStart is Start for a mesh that may refuse to start.
func (m *Mesh) TryStart(t testing.TB) error {
	t.Helper()
	config := mesh.Config{
		Definition: m.Definition, State: m.State, Version: "test", OnDecision: m.note,
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &m.log}),
	}
	for _, change := range m.change {
		change(&config)
	}
	running, err := mesh.Start(context.Background(), config)
	m.Mesh = running
	return err
}

// Stop stops the mesh; Start may follow. It does nothing if the mesh is stopped.
func (m *Mesh) Stop(t testing.TB) {
	t.Helper()
	if m.Mesh == nil {
		return
	}
	if m.settler != nil {
		m.settler.Close()
		m.settler = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := m.Mesh.Stop(ctx); err != nil {
		t.Errorf("stopping the mesh: %v", err)
	}
	m.Mesh = nil
}

// Restart stops the mesh and starts it again on its state. Agents are
// disconnected, since the port changes.
func (m *Mesh) Restart(t testing.TB) {
	t.Helper()
	m.Stop(t)
	m.Start(t)
}

// Streams opens the streams of a stopped mesh, with its own server and the
// gateway's permissions, until the returned function ends it.
func (m *Mesh) Streams(t testing.TB) (js natsjs.JetStream, end func()) {
	t.Helper()
	bcptest.StopIf(t, m.Mesh != nil, "the mesh runs")
	return OpenStreams(t, m.State, m.Definition)
}

// OpenStreams opens the streams of a state folder without a running mesh.
func OpenStreams(t testing.TB, state string, definition *bcp.Mesh) (js natsjs.JetStream, end func()) {
	t.Helper()
	_, bundle, err := mesh.Keys(state, definition)
	noError(t, err)
	s, err := server.Start(context.Background(), server.Config{StateDir: state, Bundle: bundle})
	noError(t, err)
	conn, err := s.Gateway()
	if err != nil {
		t.Fatal(errors.Join(err, s.Stop(context.Background())))
	}
	end = sync.OnceFunc(func() {
		conn.Close()
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stopping the server: %v", err)
		}
	})
	t.Cleanup(end)
	js, err = natsjs.New(conn)
	noError(t, err)
	return js, end
}

// note is the mesh's OnDecision.
func (m *Mesh) note(d *bcp.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decisions = append(m.decisions, *d)
	close(m.grown)
	m.grown = make(chan struct{})
}

// Decisions returns all decisions since the first start, oldest first.
func (m *Mesh) Decisions() []bcp.Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]bcp.Decision(nil), m.decisions...)
}

// Wait returns the first decision that matches, once it is stored. Earlier
// decisions count too.
func (m *Mesh) Wait(t testing.TB, match func(*bcp.Decision) bool) bcp.Decision {
	t.Helper()
	return m.WaitCount(t, 1, match)[0]
}

// WaitCount returns the first n decisions that match.
func (m *Mesh) WaitCount(t testing.TB, n int, match func(*bcp.Decision) bool) []bcp.Decision {
	t.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	var found []bcp.Decision
	for seen := 0; ; {
		m.mu.Lock()
		grown := m.grown
		for ; seen < len(m.decisions) && len(found) < n; seen++ {
			if match(&m.decisions[seen]) {
				found = append(found, m.decisions[seen])
			}
		}
		m.mu.Unlock()
		if len(found) == n {
			return found
		}
		select {
		case <-grown:
		case <-timeout.C:
			for _, d := range m.Decisions() {
				t.Logf("%d %s by %s: %s %s %s", d.Seq, d.Kind, d.Agent, d.Verdict, d.Code, d.Outcome)
			}
			t.Fatalf("waited for %d decisions, found %d among the %d above", n, len(found), seen)
		}
	}
}

// Count returns how many decisions match so far.
func (m *Mesh) Count(match func(*bcp.Decision) bool) int {
	n := 0
	for _, d := range m.Decisions() {
		if match(&d) {
			n++
		}
	}
	return n
}

// Settle returns when everything decided before has been sent to connected
// clients: a flush of the receiver then shows all of it.
func (m *Mesh) Settle(t testing.TB) {
	t.Helper()
	if m.settler == nil {
		m.settler = m.Connect(t, settler, bcp.RoleApprover)
	}
	// The first answer may come during a step, the second only after that step
	// has ended.
	for range 2 {
		m.settler.Request(t, subjects.Approval(settler, subjects.VerbList), "")
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	noError(t, m.Flush(ctx))
}

// Log returns everything that the mesh has logged, down to debug.
func (m *Mesh) Log() string { return m.log.String() }

// Of matches decisions of one kind.
func Of(kind bcp.DecisionKind) func(*bcp.Decision) bool {
	return func(d *bcp.Decision) bool { return d.Kind == kind }
}

var noError = bcptest.NoError
