//go:build unix

package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The environment of a process is what its program and its preparation say, and
// of ours no more than a closed list. It has no file of ours, no input and no
// terminal, and is the leader of its own group.
//
// covers P7.5
func TestProcessGetsNothingOfOurs(t *testing.T) {
	t.Setenv("NATS_CREDS", "secret of the test's own process")
	harmless := []string{
		"HOME=/home/u", "LANG=C", "LC_ALL=C.UTF-8", "LC_TIME=de_DE", "PATH=/usr/bin:/bin", "TMPDIR=/tmp", "TZ=UTC", "USER=u",
	}
	secrets := []string{
		"NATS_URL=x", "NATS_CREDS=x", "NATS_TOKEN=x", "OPENAI_API_KEY=x", "ANTHROPIC_API_KEY=x", "GITHUB_TOKEN=x", "AWS_SECRET_ACCESS_KEY=x",
		"SSH_AUTH_SOCK=x", "DBUS_SESSION_BUS_ADDRESS=x", "LD_PRELOAD=x", "LC_API_TOKEN=x", "LC_=x", "PATHS=x", "path=x", "MY_HOME=x", "BCPMESH_PASSPHRASE=x",
		"LOGNAME=x", "SHELL=x", "PWD=x", "PATH", "=PATH", "",
	}
	t.Run("scrubbed", func(t *testing.T) {
		b := newBench(t, Config{
			Environ: slices.Concat(secrets, harmless, secrets),
			Prepare: func(Program) ([]string, error) { return []string{"CREDS=/creds", "B=prepared"}, nil },
		})
		p := program("main", "child", b.path, "two words", "$HOME;*")
		p.Env, p.Dir = []string{"A=1", "B=program", "USER=agent"}, "/"
		b.Set([]Program{p})
		c := b.accept()
		want := slices.Concat(harmless[:len(harmless)-1], []string{"A=1", "B=prepared", "CREDS=/creds", "USER=agent"})
		slices.Sort(want)
		slices.Sort(c.Env)
		equal(t, want, c.Env)
		equal(t, p.Command[1:], c.Args)
		failIf(t, c.Dir != "/" || c.Stdin != `"" <nil>` || c.Terminal || c.Group != c.PID, "%+v", c.hello)
	})
	t.Run("empty", func(t *testing.T) {
		b := newBench(t, Config{})
		c := b.start("main")
		failIf(t, len(c.Env) > 0, "a process got %q", c.Env)
	})
}

// A command without a slash is found in the PATH that its process has, not in
// ours, and in no relative folder.
//
// covers P7.5
func TestCommandIsFoundInItsOwnPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path string
		want []State
	}{
		{"PATH=/nowhere:/usr/bin:/bin", []State{Running, Resting}},
		{"PATH=/nowhere", []State{Unavailable}},
		{"PATH=bin:.:", []State{Unavailable}},
		{"PATH=", []State{Unavailable}},
	} {
		t.Run(strings.ReplaceAll(c.path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{Environ: []string{"PATH=/usr/bin:/bin"}})
			b.pace.maxFailures = 1
			b.Set([]Program{{Agent: "main", Command: []string{"true"}, Dir: "/usr", Env: []string{c.path}}})
			b.expect("main", append([]State{Starting}, c.want...)...)
		})
	}
}

// A process that ignores SIGTERM is killed after the grace, or when the context
// of Stop ends; Stop can be called again.
//
// covers P7.5
func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	t.Run("grace", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{})
		b.pace.grace = 20 * time.Millisecond
		c := b.start("main")
		c.do("ignore")
		c.do("fork")
		grandchild := b.accept()
		b.stop()
		c.gone()
		grandchild.gone()
		b.expect("main", Stopping)
		s := b.expect("main", Stopped)
		failIf(t, s.Exit != "signal: killed", "stopped: %+v", s)
		b.stop()
	})
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{})
		b.pace.grace = time.Hour
		c := b.start("main")
		c.do("ignore")
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("no more time")
		var both sync.WaitGroup
		both.Go(b.stop) // waits for as long as it takes
		b.expect("main", Stopping)
		cancel(cause)
		err := b.Stop(ctx)
		failIf(t, !errors.Is(err, cause), "Stop: %v", err)
		both.Wait()
		c.gone()
		s := b.expect("main", Stopped)
		failIf(t, s.Exit != "signal: killed", "stopped: %+v", s)
	})
	t.Run("nothing was set", func(t *testing.T) {
		t.Parallel()
		newBench(t, Config{}).stop()
	})
}

// A process that ends leaves nothing behind in its group, and nobody who holds
// its output open holds up its agent.
//
// covers P7.5
func TestOutputHeldOpen(t *testing.T) {
	t.Parallel()
	t.Run("by its group", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{})
		c := b.start("main")
		c.do("fork")
		grandchild := b.accept()
		c.tell("exit 0")
		grandchild.gone()
		b.expect("main", Resting)
	})
	t.Run("by one who left the group", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{})
		c := b.start("main")
		c.do("leave")
		fugitive := b.accept()
		c.tell("exit 0")
		b.expect("main", Resting)
		fugitive.do("ping")
	})
	t.Run("by nobody", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{})
		c := b.start("main")
		c.do("close")
		c.do("ping")
		s := b.Status()
		failIf(t, len(s) != 1 || s[0].State != Running, "without output: %+v", s)
		c.tell("exit 0")
		b.expect("main", Resting)
	})
}
