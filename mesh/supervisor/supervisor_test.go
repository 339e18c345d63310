//go:build unix

package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// A command is started when it is set; one that ends with exit code 0 rests
// until somebody waits for it. Its caller may do with its program what it likes meanwhile.
//
// covers P1.3, P9.2
func TestExitZeroRestsUntilWake(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	programs := []Program{program("main", "child", b.path)}
	programs[0].Env = []string{"A=1"}
	b.Set(programs)
	b.expect("main", Starting, Running)
	first := b.accept()
	programs[0].Command[0], programs[0].Env[0] = "/nowhere", "A=2"
	want := []Status{{Agent: "main", State: Running, Command: status.Command{PID: first.PID, Starts: 1}}}
	equal(t, want, b.Status(), cmpopts.IgnoreFields(status.Command{}, "Since"))
	b.Wake("main") // it runs: nothing, and nothing is remembered
	b.Wake("nobody")
	first.tell("exit 0")
	s := b.expect("main", Resting)
	failIf(t, s.Exit != "exit status 0" || s.Since.IsZero(), "resting: %+v", s)
	b.Wake("main")
	b.Wake("main")
	// A Wake within backoff of the last start would be followed by a wait; the
	// child took longer than a millisecond to connect.
	s = b.expect("main", Starting, Running)
	failIf(t, s.Starts != 2, "running: %+v", s)
	second := b.accept()
	failIf(t, second.PID == first.PID || !slices.Equal(second.Env, []string{"A=1"}), "the same process, or with %q", second.Env)
	// Had one of the three calls been remembered, it would start again.
	second.tell("exit 0")
	b.expect("main", Resting)
	b.Set(nil)
	b.expect("main", Stopped)
	got := b.Status()
	failIf(t, len(got) > 0 && got[0].State != Stopped, "after all: %+v", got)
}

// Who is woken again and again by hostile text is not started in a tight loop.
//
// covers P9.2
func TestWakeStartsNotSoonerThanBackoff(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.pace.backoff = time.Hour
	b.Set([]Program{program("main", "exit", "0")})
	started := b.expect("main", Starting)
	b.expect("main", Running, Resting)
	b.Wake("main")
	s := b.expect("main", Waiting)
	wait := s.Next.Sub(started.Since)
	failIf(t, wait < time.Hour-time.Minute || wait > time.Hour+time.Minute, "started again %v after its last start", wait)
	b.stop()
	b.expect("main", Stopped)
}

// A command that fails is started again after waits, and is unavailable after
// exactly MaxFailures failures, not before. Until the cooldown has passed nobody
// can wake it; then one more failure is enough.
//
// covers P9.2
func TestFailuresThenUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		program Program
		exit    string
		starts  bool // a process comes to be
	}{
		{"exit code", program("main", "exit", "3"), "exit status 3", true},
		{"no such file", Program{Agent: "main", Command: []string{"/nowhere/program"}}, "not found", false},
		{"no such name", Program{Agent: "main", Command: []string{"no-such-program-anywhere"}}, "not found", false},
		{"no such folder", Program{Agent: "main", Command: program("main", "exit", "0").Command, Dir: "/nowhere"}, "not found", false},
		{"a folder", Program{Agent: "main", Command: []string{"/"}}, "not permitted", false},
		{"nothing", Program{Agent: "main"}, "cannot be started", false},
		{"empty word", Program{Agent: "main", Command: []string{""}}, "not found", false},
		{"NUL", Program{Agent: "main", Command: []string{"/bin/sh", "a\x00b"}}, "cannot be started", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const backoff, longest = 8 * time.Millisecond, 20 * time.Millisecond
			b := newBench(t, Config{Environ: []string{"PATH=/usr/bin:/bin"}})
			b.pace.backoff, b.pace.maxBackoff, b.pace.maxFailures, b.pace.cooldown = backoff, longest, 4, 100*time.Millisecond
			b.Set([]Program{c.program})
			attempt := func() Status {
				s := b.expect("main", Starting)
				if c.starts {
					b.expect("main", Running)
				}
				return s
			}
			attempt()
			for i, most := range []time.Duration{backoff, 2 * backoff, longest} {
				s := b.expect("main", Waiting)
				// Next was chosen a moment before Since.
				if wait := s.Next.Sub(s.Since); wait > most || s.Exit != c.exit {
					t.Errorf("failure %d (%s): waits for %v, want at most %v", i, s.Exit, wait, most)
				}
				if again := attempt(); again.Since.Before(s.Next) {
					t.Errorf("failure %d: started %v early", i, s.Next.Sub(again.Since))
				}
			}
			s := b.expect("main", Unavailable)
			failIf(t, s.Starts != 4 || s.Exit != c.exit || s.Next.Sub(s.Since) != 100*time.Millisecond, "unavailable: %+v", s)
			for len(b.of("main")) == 0 {
				b.Wake("main")
				time.Sleep(time.Millisecond)
			}
			if again := attempt(); again.Since.Before(s.Next) {
				t.Errorf("started %v before the cooldown ended", s.Next.Sub(again.Since))
			}
			b.expect("main", Unavailable)
			b.stop()
			b.expect("main", Stopped)
		})
	}
}

// An operator who reloads tries again at once, and from the beginning.
//
// covers P9.2
func TestSetStartsUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.pace.maxFailures, b.pace.cooldown = 2, time.Hour
	p := program("main", "exit", "1")
	b.Set([]Program{p})
	b.expect("main", Starting, Running, Waiting, Starting, Running, Unavailable)
	b.Wake("main")
	b.Set([]Program{p})
	b.expect("main", Starting, Running, Waiting, Starting, Running, Unavailable)
	b.Wake("main")
	b.Set(nil)
	b.expect("main", Stopped)
}

// What cannot be prepared is not started, which is a failure. Nothing is prepared anew
// before the process and all that it started are gone.
//
// covers P7.5
func TestPrepare(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var prepared []string
	var fails bool
	var alive []*child
	b := newBench(t, Config{
		Prepare: func(p Program) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range alive {
				failIf(t, !c.isGone(), "process %d lives on while another is prepared", c.PID)
			}
			if len(alive) > 0 && !errors.Is(syscall.Kill(alive[0].PID, 0), syscall.ESRCH) {
				t.Errorf("process %d is there while another is prepared", alive[0].PID)
			}
			alive = nil
			prepared = append(prepared, string(p.Agent)+" "+p.Dir)
			if fails {
				return nil, errors.New("no key")
			}
			return []string{"CREDS=/creds"}, nil
		},
	})
	b.pace.maxFailures = 2
	p := program("main", "child", b.path)
	p.Dir = "/"
	b.Set([]Program{p})
	b.expect("main", Starting, Running)
	first := b.accept()
	first.do("fork")
	grandchild := b.accept()
	equal(t, []string{"CREDS=/creds"}, first.Env)
	mu.Lock()
	alive = []*child{first, grandchild}
	mu.Unlock()
	p.Env = []string{"A=1"}
	fails = true // the other goroutine reads it after Set
	b.Set([]Program{p})
	b.expect("main", Stopping, Starting, Waiting, Starting)
	s := b.expect("main", Unavailable)
	failIf(t, s.Exit != "not prepared", "unavailable: %+v", s)
	b.stop()
	equal(t, []string{"main /", "main /", "main /"}, prepared)
}

// A reload starts what is new, stops what is gone with all that it started,
// restarts what changed and leaves alone what did not.
//
// covers P7.5, P9.2
func TestSetDiff(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	// The third word tells the test who it is.
	agent := func(name bcp.AgentName, env ...string) Program {
		p := program(name, "child", b.path, string(name))
		p.Env = env
		return p
	}
	b.Set([]Program{agent("same", "A=1"), agent("changed", "A=1"), agent("gone")})
	processes := map[string]*child{}
	for range 3 {
		c := b.accept()
		processes[c.Args[2]] = c
	}
	for _, name := range []bcp.AgentName{"same", "changed", "gone"} {
		b.expect(name, Starting, Running)
	}
	processes["gone"].do("fork")
	grandchild := b.accept()

	b.Set([]Program{agent("new"), agent("same", "A=0"), agent("same", "A=1"), agent("changed", "A=2")})
	b.expect("gone", Stopping, Stopped)
	processes["gone"].gone()
	grandchild.gone()
	b.expect("changed", Stopping)
	s := b.expect("changed", Starting)
	failIf(t, s.Exit != "signal: terminated", "changed: %+v", s)
	b.expect("changed", Running)
	processes["changed"].gone()
	b.expect("new", Starting, Running)
	for range 2 {
		c := b.accept()
		processes[c.Args[2]] = c
	}
	if got := processes["changed"].Env; !slices.Equal(got, []string{"A=2"}) {
		t.Errorf("changed has %q", got)
	}
	processes["same"].do("ping")
	eventually(t, "the one that is gone is not listed", func() bool { return len(b.Status()) == 3 })
	var got []string
	for _, s := range b.Status() {
		got = append(got, fmt.Sprintf("%s %s %d", s.Agent, s.State, s.PID))
	}
	var want []string
	for _, name := range []string{"changed", "new", "same"} {
		want = append(want, fmt.Sprintf("%s running %d", name, processes[name].PID))
	}
	equal(t, want, got)
	b.stop()
	for name, c := range processes {
		c.gone()
		if name != "gone" {
			b.expect(bcp.AgentName(name), Stopping, Stopped)
		}
	}
	b.Set([]Program{agent("late")})
	b.Wake("same")
	if got := b.Status(); len(got) > 0 {
		t.Errorf("after Stop: %+v", got)
	}
}

// What is removed and set again while it is still being stopped comes back, one
// process after the other.
//
// covers P9.2
func TestSetAgainWhileStopping(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.pace.grace = time.Hour
	first := b.start("main")
	first.do("ignore")
	b.Set(nil)
	b.expect("main", Stopping)
	b.Set([]Program{program("main", "child", b.path)})
	first.do("ping") // it takes its time
	first.tell("exit 0")
	b.expect("main", Starting, Running)
	b.accept().tell("exit 0")
	b.expect("main", Resting)
}

// The functions of Config may call Set. An agent that is set when its end is
// told is as new; one that is removed while it is prepared is not started.
//
// covers P7.5, P9.2
func TestSetFromWithin(t *testing.T) {
	t.Parallel()
	var b *bench
	programs := []Program{program("main", "exit", "0")}
	stops := 0
	b = newBench(t, Config{
		Prepare: func(Program) ([]string, error) {
			b.Set(nil)
			return nil, nil
		},
		OnChange: func(s Status) {
			if s.State != Stopped {
				return
			}
			if stops++; stops == 1 {
				b.Set(programs)
			}
		},
	})
	b.Set(programs)
	for range 2 {
		b.expect("main", Starting)
		s := b.expect("main", Stopped)
		failIf(t, s.Starts != 1 || s.Exit != "not started", "removed while it was prepared: %+v", s)
	}
}

// All methods may be used at the same time: each agent's states follow each
// other (which note checks), and in the end nothing is left.
//
// covers P9.2
func TestRaces(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.pace.maxFailures, b.pace.cooldown = 2, time.Millisecond
	names := []bcp.AgentName{"a", "b", "c"}
	commands := [][]string{{"/bin/sh", "-c", "exit 0"}, {"/bin/sh", "-c", "exit 1"}, {"/bin/sh", "-c", "echo x; exec sleep 60"}, {"/nowhere"}}
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 60 {
				switch random.IntN(4) {
				case 0:
					var programs []Program
					for _, name := range names {
						if random.IntN(3) > 0 {
							programs = append(programs, Program{Agent: name, Command: commands[random.IntN(len(commands))]})
						}
					}
					b.Set(programs)
				case 1:
					b.Status()
				default:
					b.Wake(names[random.IntN(len(names))])
				}
				time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
			}
			if seed == 0 {
				b.stop() // while the others go on
			}
		})
	}
	all.Wait()
	b.stop()
	for name, state := range b.last {
		failIf(t, state != Stopped, "%s is %s", name, state)
	}
}

// A status counts the failures in a row. One that ends well ends the row, and so does
// being told to end; then nothing of the process before is said.
//
// covers P9.2
func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.pace.maxFailures = 9
	c := b.start("main")
	for n := range 3 {
		c.print("stderr", fmt.Sprintf("failure %d\n", n))
		c.tell("exit 1")
		s := b.expect("main", Waiting)
		failIf(t, s.Failures != n+1 || s.LastLine != fmt.Sprintf("failure %d", n), "failure %d: %+v", n, s)
		s = b.expect("main", Starting, Running)
		failIf(t, s.Failures != n+1, "started again: %+v", s)
		c = b.accept()
	}
	c.tell("exit 0")
	s := b.expect("main", Resting)
	failIf(t, s.Failures != 0 || s.LastLine != "" || s.Exit != "exit status 0", "ended well: %+v", s)
	b.Wake("main")
	b.expect("main", Starting, Running)
	b.accept()
	b.stop()
	s = b.expect("main", Stopping, Stopped)
	failIf(t, s.Failures != 0, "told to end: %+v", s)
	failIf(t, strings.Count(b.text.String(), "agent=main stream=stderr text=\"failure 2\"") != 1, "log:\n%s", b.text)
}
