package meshdir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// The ready file of a mesh that was killed is taken away, that of a running one
// is left alone, and so is a file of anybody else.
func TestPrepareReady(t *testing.T) {
	t.Parallel()
	ended := exec.Command(os.Args[0], "-test.run=^$")
	noError(t, ended.Run())
	for name, c := range map[string]struct {
		content string
		kept    bool
	}{
		"running": {mustReady(t, os.Getpid()), true},
		"killed":  {mustReady(t, ended.Process.Pid), false},
		"other":   {"to do: milk", true},
		"no pid":  {mustReady(t, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ready.json")
			noError(t, os.WriteFile(file, []byte(c.content), 0o600))
			noError(t, PrepareReady(file))
			_, err := os.Stat(file)
			failIf(t, (err == nil) != c.kept, "after it: %v", err)
		})
	}
}

// A mesh is alive while its process is there and holds the lock of its state folder: the
// number of one that was killed may be another process's by now.
func TestAlive(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	ours := Ready{URL: "nats://127.0.0.1:1", State: state, PID: os.Getpid()}
	failIf(t, ours.Alive(), "without a lock: alive")
	lock := flock.New(filepath.Join(state, server.ServerLock))
	ok, err := lock.TryLock()
	stopIf(t, !ok || err != nil, "%v %v", ok, err)
	failIf(t, !ours.Alive(), "with the lock: not alive")
	failIf(t, Ready{State: state, PID: 0}.Alive(), "without a process: alive")
	noError(t, lock.Unlock())
	failIf(t, ours.Alive(), "after the lock was released: alive")
	ok, err = lock.TryLock()
	failIf(t, !ok || err != nil, "the lock is kept by whoever looked: %t, %v", ok, err)
	failIf(t, !Ready{State: state, Cluster: true}.Alive(), "on a cluster: not alive")
	noError(t, lock.Close())
}

func mustReady(t *testing.T, pid int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	noError(t, WriteReady(file, Ready{URL: "nats://127.0.0.1:1", State: "/state", PID: pid}))
	content, err := os.ReadFile(file)
	noError(t, err)
	return string(content)
}

// A file that cannot be written leaves no draft.
func TestWriteReadyLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "taken")
	noError(t, os.Mkdir(target, 0o700))
	failIf(t, WriteReady(target, Ready{}) == nil, "wrote over a folder")
	entries, err := os.ReadDir(dir)
	failIf(t, err != nil || len(entries) != 1, "%v: %v", entries, err)
}

// What keeps a connection from being made is said without the words of the
// libraries where it is common, and without a piece of any agent's name.
func TestNotReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{nats.ErrNoServers, `no mesh answers at "nats://x"`},
		{nats.ErrAuthorization, `the mesh at "nats://x" does not accept these credentials`},
		{fmt.Errorf("agents: connecting main: %w", errors.New("bad thing")), `no mesh answers at "nats://x": bad thing`},
		{errors.New("bad thing"), `no mesh answers at "nats://x": bad thing`},
	} {
		got := NotReached("nats://x", c.err)
		failIf(t, got.Message != c.want || got.Code != cli.ExitFailed, "%v: %q", c.err, got.Message)
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf
