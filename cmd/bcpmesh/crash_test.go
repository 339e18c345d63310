package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

var (
	rounds = flag.Int("rounds", 3, "how often TestCrash and TestKernelCrash kill the mesh")
	seed   = flag.Uint64("seed", 0, "of what the tests of faults choose at random; 0: another one each time")
)

// chooseSeed makes what a run chooses repeatable.
func chooseSeed(t *testing.T) uint64 {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("-seed %d", chosen)
	return chosen
}

const (
	// roundLength is how many acknowledged asks, pushes, approvals and
	// deliveries there are between two kills, at the median.
	roundLength = 120
	// digestCost is what a digest costs, in bits: 10 words.
	digestCost = 110
	// retryAfter is how long a client waits for a reply before it repeats.
	retryAfter = 500 * time.Millisecond
	// leaveAfter is how long a client stays at a node at which nobody answers.
	leaveAfter = 5 * time.Second
	// stepPatience is how long anything may take before the test fails.
	stepPatience = 30 * time.Second
)

// The process is killed at random moments of its traffic, and started again on the
// same state and port. Clients repeat what was not acknowledged, a person approves
// what is held. Afterwards a checker that knows nothing of the writer reads the
// journal.
//
// covers P4.5, P9.1, P9.5, P2.6, A-RECONN, BCP-145, SUB-128
func TestCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	writeFiles(t, dir, crashFiles)
	address := clustertest.FreeAddress(t)
	mesh := startProcess(t, dir, state, address)
	store := must(accounts.Open(state))(t)
	random := rand.New(rand.NewPCG(chooseSeed(t), 0))
	traffic := startTraffic(t, store, mesh.url, stepPatience)
	for range *rounds {
		length := 1 + random.IntN(2*roundLength)
		traffic.await("progress", func() bool { return traffic.count >= length })
		time.Sleep(time.Duration(random.IntN(5000)) * time.Microsecond) // anywhere in a step
		mesh.kill(t)
		traffic.mark()
		mesh = startProcess(t, dir, state, address)
	}
	traffic.await("progress", func() bool { return traffic.count >= roundLength })
	traffic.end()
	mesh.end(t)
	traffic.check(state)
}

// process is a running bcpmesh up, or a gateway.
type process struct {
	cmd          *exec.Cmd
	url, metrics string
	stderr       *bytes.Buffer
}

func startProcess(t *testing.T, dir, state, listen string) *process {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := &process{cmd: exec.Command("bcpmesh", "up", dir, "--listen", listen, "--state", state, "--ready-file", ready), stderr: &bytes.Buffer{}}
	p.cmd.Stderr = p.stderr
	noError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.awaitReady(t, ready)
	return p
}

// about is what the ready file says.
type about struct {
	URL     string
	PID     int
	Metrics string
}

func readAbout(ready string) (a about, err error) {
	b, err := os.ReadFile(ready)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

// awaitReady waits for the ready file.
func (p *process) awaitReady(t *testing.T, ready string) {
	t.Helper()
	for deadline := time.Now().Add(clustertest.Patience); ; time.Sleep(5 * time.Millisecond) { // between two looks at the file
		if about, err := readAbout(ready); err == nil {
			p.url, p.metrics = about.URL, strings.TrimSuffix(about.Metrics, "/metrics")
			return
		}
		stopIf(t, time.Now().After(deadline) || p.cmd.Process.Signal(syscall.Signal(0)) != nil, "%s is not ready: %s", p.cmd, p.stderr)
	}
}

// kill ends the process as a power cut would.
func (p *process) kill(t *testing.T) {
	t.Helper()
	noError(t, p.cmd.Process.Kill())
	stopIf(t, p.cmd.Wait() == nil, "the mesh ended by itself")
}

// end asks the process to end and expects that it does so cleanly.
func (p *process) end(t *testing.T) {
	t.Helper()
	noError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	err := p.cmd.Wait()
	failIf(t, err != nil, "the mesh ended with %v: %s", err, p.stderr)
}
