//go:build unix

package supervisor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

const patience = 30 * time.Second

// follows says which states may follow each.
var follows = map[State][]State{
	"":          {Starting, Stopped},
	Starting:    {Running, Waiting, Unavailable, Starting, Stopped},
	Running:     {Resting, Waiting, Unavailable, Stopping, Starting, Stopped},
	Resting:     {Waiting, Starting, Stopped},
	Waiting:     {Starting, Stopped},
	Unavailable: {Waiting, Starting, Stopped},
	Stopping:    {Starting, Stopped},
	Stopped:     {Starting, Stopped},
}

// bench is a supervisor whose changes a test reads.
type bench struct {
	*Supervisor
	*switchboard
	t        *testing.T
	text     *bcptest.Log
	onChange func(Status) // the test's own, if it has one

	mu      sync.Mutex
	last    map[bcp.AgentName]State
	starts  map[bcp.AgentName]int
	changes map[bcp.AgentName]chan Status
}

// newBench fills in what a test does not care for: the logger, and a wait that
// is short.
func newBench(t *testing.T, config Config) *bench {
	t.Helper()
	b := &bench{
		switchboard: newSwitchboard(t), t: t, text: &bcptest.Log{}, onChange: config.OnChange,
		last: map[bcp.AgentName]State{}, starts: map[bcp.AgentName]int{}, changes: map[bcp.AgentName]chan Status{},
	}
	if config.Logger == nil {
		config.Logger = hclog.New(&hclog.LoggerOptions{Output: b.text, DisableTime: true})
	}
	config.OnChange = b.note
	b.Supervisor = New(config)
	b.pace.backoff = time.Millisecond
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = b.Stop(ctx)
	})
	return b
}

// note checks what holds for all changes, and keeps them.
func (b *bench) note(s Status) {
	b.mu.Lock()
	last := b.last[s.Agent]
	failIf(b.t, !slices.Contains(follows[last], s.State), "%s: %s follows %q", s.Agent, s.State, last)
	if s.State == Starting {
		b.starts[s.Agent]++
	}
	failIf(b.t, s.Starts != b.starts[s.Agent], "%s: %d starts, want %d", s.Agent, s.Starts, b.starts[s.Agent])
	if s.State == Stopped {
		b.starts[s.Agent] = 0
	}
	b.last[s.Agent] = s.State
	b.mu.Unlock()
	hasPID := s.State == Running || s.State == Stopping
	failIf(b.t, hasPID != (s.PID != 0), "%s is %s with PID %d", s.Agent, s.State, s.PID)
	hasNext := s.State == Waiting || s.State == Unavailable
	failIf(b.t, hasNext == s.Next.IsZero(), "%s is %s, and is next started %v", s.Agent, s.State, s.Next)
	if b.onChange != nil {
		b.onChange(s)
	}
	b.of(s.Agent) <- s
}

func (b *bench) of(agent bcp.AgentName) chan Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changes[agent] == nil {
		b.changes[agent] = make(chan Status, 10_000)
	}
	return b.changes[agent]
}

// expect wants exactly these changes of an agent next, and returns the last.
func (b *bench) expect(agent bcp.AgentName, states ...State) (last Status) {
	b.t.Helper()
	for i, want := range states {
		last = bcptest.Next(b.t, b.of(agent), "%s: change %d, to %s", agent, i, want)
		stopIf(b.t, last.State != want, "%s: change %d is %s (exit %q), want %s", agent, i, last.State, last.Exit, want)
	}
	return last
}

// stop stops all and wants it to succeed.
func (b *bench) stop() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	err := b.Stop(ctx)
	failIf(b.t, err != nil, "%v", err)
}

// start sets one program, a child of the test, and returns it when it has
// connected.
func (b *bench) start(agent bcp.AgentName) *child {
	b.t.Helper()
	b.Set([]Program{program(agent, "child", b.path)})
	b.expect(agent, Starting, Running)
	return b.accept()
}

var noError, failIf, stopIf, eventually = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Eventually

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }

// equal compares what is wanted with what there is.
func equal(t testing.TB, want, got any, options ...cmp.Option) {
	t.Helper()
	diff := cmp.Diff(want, got, options...)
	failIf(t, diff != "", "%v", diff)
}
