package mesh

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/supervisor"
)

// A command that ends well and leaves what waits for it undone is started again
// later and later: hostile text that nobody can answer is no reason for a loop.
//
// covers P9.2
func TestRestGrows(t *testing.T) {
	t.Parallel()
	want := []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}
	for ends, pause := range want {
		got := restPause(ends)
		failIf(t, got != pause, "after %d ends the pause is %s, want %s", ends, got, pause)
	}
	got := restPause(1 << 40)
	failIf(t, got != time.Minute, "it grows to %s", got)

	c := &commands{resting: map[bcp.AgentName]restingCommand{}, supervisor: supervisor.New(supervisor.Config{})}
	ends := func(waits ...string) int {
		c.restartRested("reader", waits)
		return c.resting["reader"].ends
	}
	for i, step := range []struct {
		waits []string
		ends  int
	}{{[]string{"q1", "q2"}, 0}, {[]string{"q1", "q2"}, 1}, {[]string{"q1", "q2"}, 2}, {[]string{"q2"}, 0}, {[]string{"q2"}, 1}, {nil, 0}, {[]string{"q3"}, 0}} {
		got := ends(step.waits...)
		failIf(t, got != step.ends, "step %d, %q waits: %d ends in a row, want %d", i, step.waits, got, step.ends)
	}
}

// Credentials of commands lie in memory where keys are sealed, and what a killed mesh left there, or before they were
// sealed, goes at the next start.
//
// covers P7.5
func TestCommandCredentialsOfASealedFolder(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	open, err := makeCommandFolder(state, false)
	stopIf(t, err != nil || open != filepath.Join(state, "run"), "%q, %v", open, err)
	left := filepath.Join(open, "reader", "reader.creds")
	noError(t, os.MkdirAll(filepath.Dir(left), 0o700))
	noError(t, os.WriteFile(left, []byte("secret"), 0o600))
	first, err := makeCommandFolder(state, true)
	if runtime.GOOS != "linux" {
		failIf(t, !errors.Is(err, ErrNoMemory), "without a place in memory: %v", err)
		return
	}
	stopIf(t, err != nil || filepath.Dir(first) != memory, "%q, %v", first, err)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what lay open before: %v", err)
	}
	second, err := makeCommandFolder(state, true) // after a kill
	stopIf(t, err != nil || second == first, "%q, %v", second, err)
	info, err := os.Stat(second)
	failIf(t, err != nil || info.Mode().Perm() != 0o700, "%v, %v", info, err)
	// A file that names anything else deletes nothing.
	kept := filepath.Join(t.TempDir(), memoryPrefix+"kept")
	for name, want := range map[string]bool{second: false, kept: true} {
		noError(t, os.MkdirAll(kept, 0o700))
		noError(t, os.MkdirAll(open, 0o700))
		noError(t, os.WriteFile(filepath.Join(open, inMemory), []byte(name), 0o600))
		noError(t, removeCommandFolder(state))
		_, err := os.Stat(name)
		failIf(t, want != (err == nil), "%s: %v", name, err)
	}
	for _, gone := range []string{first, open} {
		_, err := os.Stat(gone)
		failIf(t, !os.IsNotExist(err), "%s is left: %v", gone, err)
	}
}
