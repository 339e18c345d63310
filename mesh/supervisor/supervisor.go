package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Program is the command of one agent.
type Program struct {
	Agent bcp.AgentName
	// Command is the argv; no shell reads it. A first word without a slash is
	// looked up in the PATH of the process to be, in absolute folders only; a
	// relative one is relative to Dir.
	Command []string
	// Dir is the working directory; empty means ours.
	Dir string
	// Env is KEY=VALUE, added to the scrubbed environment. The later of two
	// values of a key counts.
	Env []string
}

func (p Program) equal(q Program) bool {
	return p.Agent == q.Agent && p.Dir == q.Dir && slices.Equal(p.Command, q.Command) && slices.Equal(p.Env, q.Env)
}

// State is the state of an agent's command. The zero value is no state.
type State string

// The states of a command.
const (
	Starting    State = "starting"    // being prepared and started
	Running     State = "running"     // its process runs
	Resting     State = "resting"     // it ended with exit code 0; Wake starts it
	Waiting     State = "waiting"     // to be started at Status.Next
	Unavailable State = "unavailable" // given up; from Status.Next on Wake tries again
	Stopping    State = "stopping"    // terminated because it was removed or changed, or by Stop
	Stopped     State = "stopped"     // removed; the last word about it, and in no result of Supervisor.Status after it
)

// Status says how an agent's command is. Its process id, which is also the id of its process group, is there while it is
// Running or Stopping, and Next while it is Waiting or Unavailable. Exit may also be "not permitted", "not prepared",
// "cannot be started" or "not started" (stopped before). Failures is 0 after an attempt that ended well, or ran for a
// minute. LastLine is preferably of the process's stderr, and has 200 characters at most.
type Status struct {
	Agent bcp.AgentName
	State State
	status.Command
}

// Config says how to supervise. The zero value works, but gives processes an
// empty environment.
type Config struct {
	// Logger gets events and the output of processes; nil discards both.
	Logger hclog.Logger
	// Environ is our own environment, KEY=VALUE, as from the operating system.
	// Only a few harmless variables of it are passed on.
	Environ []string
	// Prepare is called before each start, when the process before and its whole group
	// are gone, and returns more environment: it mints credentials. It must not change the slices of the program. An error
	// counts as a failed start, and is logged. Nil prepares nothing.
	Prepare func(Program) (env []string, err error)
	// OnChange is called for each change of a status; for one agent in order
	// and one at a time.
	//
	// The two functions are called without a lock, for different agents
	// concurrently. They hold up their agent and must return soon; they may
	// call Set, Wake and Status, but not Stop.
	OnChange func(Status)
}

// filled returns a copy with defaults in place.
func (c Config) filled() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Prepare == nil {
		c.Prepare = func(Program) ([]string, error) { return nil, nil }
	}
	if c.OnChange == nil {
		c.OnChange = func(Status) {}
	}
	c.Environ = process.Scrub(c.Environ)
	return c
}

// Supervisor runs the commands of agents. Its methods may be used
// concurrently.
type Supervisor struct {
	config Config // filled
	pace   pace

	running  sync.WaitGroup // the goroutine of each agent
	killOnce sync.Once
	kill     chan struct{} // closed when grace has ended for all

	mu      sync.Mutex
	agents  map[bcp.AgentName]*agent // including those that are being stopped
	stopped bool
}

// New returns a supervisor that runs nothing yet. It has no goroutines before
// the first Set; Stop ends it.
func New(config Config) *Supervisor {
	return &Supervisor{config: config.filled(), pace: usual, kill: make(chan struct{}), agents: map[bcp.AgentName]*agent{}}
}

// Set sets what must run from now on. New programs are started, removed ones
// stopped, changed ones stopped and then started; unchanged ones are left alone,
// unless they are Unavailable: these are started again, since an operator who
// reloads has probably fixed them. Of two programs of one agent the last counts.
// Set does not wait and keeps none of the slices. After Stop it does nothing.
func (s *Supervisor) Set(programs []Program) {
	wanted := map[bcp.AgentName]Program{}
	for _, p := range programs {
		wanted[p.Agent] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	for name, a := range s.agents {
		if _, ok := wanted[name]; !ok {
			a.command(nil)
		}
	}
	for name, p := range wanted {
		a := s.agents[name]
		if a == nil {
			a = &agent{status: Status{Agent: name, State: Starting, Command: status.Command{Since: time.Now()}}}
			s.agents[name] = a
			s.running.Go(func() { s.run(a) })
		} else if a.order != nil && a.order.program.equal(p) && a.status.State != Unavailable {
			continue
		}
		p.Command, p.Env = slices.Clone(p.Command), slices.Clone(p.Env)
		a.command(&order{program: p, over: make(chan struct{}), wake: make(chan struct{}, 1)})
	}
}

// Wake says that something waits for the agent. A Resting agent is started, an
// Unavailable one only from its Status.Next on; for all others it does nothing
// and is not remembered: callers that still wait when OnChange reports Resting
// call Wake again. Wake does not wait.
func (s *Supervisor) Wake(name bcp.AgentName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents[name]
	if a == nil || a.order == nil {
		return
	}
	if a.status.State == Resting || a.status.State == Unavailable && !time.Now().Before(a.status.Next) {
		select {
		case a.order.wake <- struct{}{}:
		default: // it was woken already
		}
	}
}

// Status returns the status of each agent of the last Set, and of those that
// are still being stopped, sorted by agent.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.agents))
	for _, name := range slices.Sorted(maps.Keys(s.agents)) {
		list = append(list, s.agents[name].status)
	}
	return list
}

// Stop ends everything: SIGTERM to each process group, SIGKILL after
// ten seconds or when ctx ends. It returns when every process is gone and no
// function of Config will be called again; with an error if ctx ended before.
// It may be called more than once, also concurrently.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	for _, a := range s.agents {
		a.command(nil)
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.killOnce.Do(func() { close(s.kill) })
	<-done
	return fmt.Errorf("stop the supervisor: what was left was killed: %w", context.Cause(ctx))
}
