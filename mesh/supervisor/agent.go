package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// agent is one agent. Only its goroutine, run, starts and stops its processes,
// so that there is one at a time and none is prepared before the previous one
// is gone.
type agent struct {
	// Guarded by Supervisor.mu.
	order  *order // nil: it shall end
	status Status // only run writes it
}

// order is a program to run until the order is over.
type order struct {
	program Program
	over    chan struct{} // closed when another order, or none, replaces it
	wake    chan struct{} // capacity 1
}

func (o *order) isOver() bool {
	select {
	case <-o.over:
		return true
	default:
		return false
	}
}

// command replaces the current order with another, or none. Supervisor.mu must
// be held.
func (a *agent) command(o *order) {
	if a.order != nil {
		close(a.order.over)
	}
	a.order = o
}

// run carries out the orders of one agent until there is none.
func (s *Supervisor) run(a *agent) {
	for {
		if o := s.order(a); o != nil {
			s.fulfil(a, o)
		} else if s.forget(a) {
			return
		}
	}
}

func (s *Supervisor) order(a *agent) *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.order
}

// forget removes an agent without an order from the list, unless it got one
// again: then it counts as new. It reports the change first: the next agent of
// this name may report as soon as this one is not listed.
func (s *Supervisor) forget(a *agent) bool {
	s.change(a, func(status *Status) { status.State = Stopped })
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.order != nil {
		a.status.Command = status.Command{Since: a.status.Since}
		return false
	}
	delete(s.agents, a.status.Agent)
	return true
}

// fulfil starts the program of an order repeatedly, until the order is over.
func (s *Supervisor) fulfil(a *agent, o *order) {
	failures := 0
	for {
		begin := time.Now()
		end := s.attempt(a, o)
		state, wait := s.pace.decideNext(&failures, end)
		if o.isOver() {
			failures = 0 // it was stopped on purpose
		}
		s.mu.Lock() // the following changes tell it
		a.status.Exit, a.status.LastLine, a.status.Failures = end.exit, end.line, failures
		s.mu.Unlock()
		if o.isOver() {
			return
		}
		if state == Waiting {
			if !s.waitUntil(a, o, time.Now().Add(wait)) {
				return
			}
			continue
		}
		s.change(a, func(status *Status) {
			status.State = state
			if state == Unavailable {
				status.Next = status.Since.Add(wait)
			}
			// A call of Wake counts for the state that it found; mu is held.
			select {
			case <-o.wake:
			default:
			}
		})
		select {
		case <-o.over:
			return
		case <-o.wake:
		}
		// Who is woken by hostile text must not be started in a tight loop.
		if soonest := begin.Add(s.pace.backoff); time.Now().Before(soonest) && !s.waitUntil(a, o, soonest) {
			return
		}
	}
}

// waitUntil waits for a time, and reports whether the order is still in force
// then.
func (s *Supervisor) waitUntil(a *agent, o *order, next time.Time) bool {
	s.change(a, func(status *Status) { status.State, status.Next = Waiting, next })
	select {
	case <-o.over:
		return false
	case <-time.After(time.Until(next)):
		return true
	}
}

// ending is how an attempt to run a program ended.
type ending struct {
	exit    string // as in Status
	line    string // as in Status
	success bool
	ran     time.Duration // zero if it was not started
}

// decideNext decides the state after an ending, and its duration. It counts the
// failures in a row.
func (p pace) decideNext(failures *int, end ending) (State, time.Duration) {
	if end.success || end.ran >= p.healthy {
		*failures = 0
	}
	if end.success {
		return Resting, 0
	}
	if *failures++; *failures >= p.maxFailures {
		return Unavailable, p.cooldown
	}
	wait := p.backoff
	for range *failures - 1 {
		wait = min(2*wait, p.maxBackoff)
	}
	return Waiting, wait - rand.N(wait/4+1)
}

// attempt runs the program of an order once, until it ends by itself or the
// order is over. When it returns, nothing of it is left.
func (s *Supervisor) attempt(a *agent, o *order) ending {
	s.change(a, func(status *Status) { status.State, status.Starts = Starting, status.Starts+1 })
	program, logger := o.program, s.config.Logger.With("agent", string(o.program.Agent))
	env, err := s.config.Prepare(program)
	if err != nil {
		logger.Warn("an agent's command cannot be prepared", "error", err)
		return ending{exit: "not prepared"}
	}
	if o.isOver() {
		return ending{exit: "not started"}
	}
	out := process.NewOutput(logger)
	stdout, stderr := out.Stdout(), out.Stderr()
	var p *process.Process
	if err = errEmpty; len(program.Command) > 0 {
		p, err = process.Start(&exec.Cmd{Args: program.Command, Env: slices.Concat(s.config.Environ, program.Env, env), Dir: program.Dir, Stdout: stdout, Stderr: stderr})
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && Find(program, s.config.Environ) == nil {
			err = fmt.Errorf("the first line of the script names a program that is not there, or ends with a carriage return: %w", err)
		}
		logger.Warn("an agent's command cannot be started", "error", err)
		return ending{exit: process.Reason(err)}
	}
	begin := time.Now()
	s.change(a, func(status *Status) { status.State, status.PID = Running, p.PID() })
	select {
	case <-p.Done():
	case <-o.over:
		s.change(a, func(status *Status) { status.State, status.PID = Stopping, p.PID() })
		s.end(p)
	}
	stdout.End()
	stderr.End()
	out.End()
	return ending{exit: p.State().String(), line: out.LastLine(), success: p.State().Success(), ran: time.Since(begin)}
}

var errEmpty = errors.New("the command is empty")

// end stops a process, first with a word and then without.
func (s *Supervisor) end(p *process.Process) {
	p.Terminate()
	select {
	case <-p.Done():
		return
	case <-time.After(s.pace.grace):
	case <-s.kill:
	}
	p.Kill()
	<-p.Done()
}

// change gives an agent a new status and reports it. PID and Next belong to one
// state and are reset.
func (s *Supervisor) change(a *agent, set func(*Status)) {
	s.mu.Lock()
	a.status.PID, a.status.Next, a.status.Since = 0, time.Time{}, time.Now()
	set(&a.status)
	status := a.status
	s.mu.Unlock()
	level, what := hclog.Info, "an agent's command changed"
	fields := []any{"agent", string(status.Agent), "state", string(status.State), "pid", status.PID, "exit", status.Exit}
	if status.Failures > 0 && !status.Next.IsZero() {
		level, what = hclog.Warn, "an agent's command failed; its status has what it printed last"
		fields = append(fields, "failures", status.Failures, "next", status.Next.Format(time.RFC3339))
	}
	s.config.Logger.Log(level, what, fields...)
	s.config.OnChange(status)
}
