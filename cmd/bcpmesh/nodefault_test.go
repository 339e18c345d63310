//go:build faults && unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// nodeFault is a fault of one node of a cluster with wires.
type nodeFault struct {
	name  string
	begin func(t testing.TB, c *wiredCluster, node int)
	// end ends the fault, so that the cluster becomes healthy again.
	end func(t testing.TB, c *wiredCluster, node int)
}

// syncDelay is the additional time for each sync of a slow disk.
const syncDelay = 300 * time.Millisecond

// nodeFaults are all of them.
var nodeFaults = []nodeFault{
	{"kill", func(t testing.TB, c *wiredCluster, node int) { c.Kill(t, node) }, restartNode},
	{"stop", func(t testing.TB, c *wiredCluster, node int) { c.Stop(t, node) }, restartNode},
	{"retire", func(t testing.TB, c *wiredCluster, node int) { c.Retire(t, node) }, restartNode},
	{
		"pause",
		func(t testing.TB, c *wiredCluster, node int) { c.Pause(t, node) },
		func(t testing.TB, c *wiredCluster, node int) { c.Continue(t, node) },
	},
	{"isolate", func(_ testing.TB, c *wiredCluster, node int) { c.isolate(node) }, healNodes},
	{"partition", func(_ testing.TB, c *wiredCluster, node int) { c.partition(node) }, healNodes},
	{"slow disk", slowDisk, quickDisk},
}

func restartNode(t testing.TB, c *wiredCluster, node int) { c.Restart(t, node) }

func healNodes(_ testing.TB, c *wiredCluster, _ int) { c.heal() }

// startBare starts a cluster without wires.
func startBare(t testing.TB, config clustertest.Config) *wiredCluster {
	t.Helper()
	return &wiredCluster{Cluster: clustertest.Start(t, config)}
}

// slowed are the tracers of slow disks, by the process of the node.
var slowed sync.Map

// slowDisk makes each sync of a node's files take longer. It needs Linux and strace with
// permission to trace.
func slowDisk(t testing.TB, c *wiredCluster, node int) {
	t.Helper()
	const syncs = "fsync,fdatasync"
	strace := exec.Command("strace", "-f", "-o", filepath.Join(t.TempDir(), "strace.log"), "-p", fmt.Sprint(c.PID(node)),
		"-e", "trace="+syncs, "-e", fmt.Sprintf("inject=%s:delay_exit=%dms", syncs, syncDelay.Milliseconds()))
	stderr := &strings.Builder{}
	strace.Stderr = stderr
	noError(t, strace.Start())
	slowed.Store(c.PID(node), strace)
	t.Cleanup(func() { _ = strace.Process.Kill() }) // unless it has ended
	clustertest.Await(t, "strace to attach", func() error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID(node)))
		if err == nil && strings.Contains(string(status), "TracerPid:\t0\n") {
			err = fmt.Errorf("nobody traces node %d: %s", node, stderr)
		}
		return err
	})
}

// quickDisk ends what slowDisk began.
func quickDisk(t testing.TB, c *wiredCluster, node int) {
	t.Helper()
	found, _ := slowed.LoadAndDelete(c.PID(node))
	strace := found.(*exec.Cmd)
	if err := strace.Process.Signal(syscall.SIGINT); err != nil { // it lets the node go
		t.Fatal(err)
	}
	_ = strace.Wait() // it ends by the signal
}
