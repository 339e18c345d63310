//go:build faults

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

var (
	clusterRounds = flag.Int("cluster-rounds", 3, "how many faults TestClusterFaults has")
	clusterOnly   = flag.String("cluster-only", "", "which faults TestClusterFaults chooses from, a regular expression")
)

// gatewayNames are the gateways of a cluster in these tests.
var gatewayNames = []string{"one", "two"}

// clustered is a mesh on a cluster of three nodes, with two gateways and clients
// that repeat what was not accepted.
type clustered struct {
	t          *testing.T
	dir, state string
	out        string // what was exported
	nodes      *wiredCluster
	gateways   []*process
	core       *nats.Conn // as the first gateway
	js         natsjs.JetStream
}

func startClustered(t *testing.T, config clustertest.Config, start func(testing.TB, clustertest.Config) *wiredCluster) *clustered {
	t.Helper()
	folder := t.TempDir()
	c := &clustered{t: t, dir: filepath.Join(folder, "mesh"), state: filepath.Join(folder, "state"), out: filepath.Join(folder, "out")}
	noError(t, os.Mkdir(c.dir, 0o700))
	writeFiles(t, c.dir, crashFiles)
	writeFiles(t, c.dir, map[string]string{"mesh.yaml": "replicas: 3\n"})
	export := []string{"accounts", "export", c.dir, "--state", c.state, "--out", c.out}
	for _, name := range gatewayNames {
		export = append(export, "--gateway", name)
	}
	if out, err := exec.Command("bcpmesh", export...).CombinedOutput(); err != nil {
		t.Fatalf("exporting: %v: %s", err, out)
	}
	resolver, err := os.ReadFile(filepath.Join(c.out, "resolver.conf"))
	noError(t, err)
	config.Text = func(_ int, folder string) string {
		return fmt.Sprintf("%s\nresolver: {type: full, dir: %q, allow_delete: false, interval: \"2m\", timeout: \"1.9s\"}\nmax_payload: 1048576\n",
			resolver, filepath.Join(folder, "accounts"))
	}
	c.nodes = start(t, config)
	for i := range gatewayNames {
		c.gateways = append(c.gateways, nil)
		c.startGateway(i)
	}
	options := append(clustertest.Attentive(), nats.UserCredentials(filepath.Join(c.out, "gateways", gatewayNames[0], server.CoreCreds)))
	if c.core, err = nats.Connect(c.nodes.URL(), options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.core.Close)
	if c.js, err = natsjs.New(c.core); err != nil {
		t.Fatal(err)
	}
	return c
}

// startGateway starts a gateway that does not run.
func (c *clustered) startGateway(i int) {
	c.t.Helper()
	c.beginGateway(i)
	c.awaitGateway(i)
}

func (c *clustered) beginGateway(i int) {
	c.t.Helper()
	name := gatewayNames[i]
	ready := c.ready(i)
	_ = os.Remove(ready) // of one that was killed
	p := &process{stderr: &bytes.Buffer{}, cmd: exec.Command("bcpmesh", "gateway", c.dir, "--url", c.nodes.URL(),
		"--creds", filepath.Join(c.out, "gateways", name), "--state", filepath.Join(c.out, "state-"+name),
		"--ready-file", ready, "--metrics", "127.0.0.1:0")}
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	noError(c.t, p.cmd.Start())
	c.t.Cleanup(func() {
		if c.t.Failed() && p.cmd.ProcessState == nil { // it says what it was doing
			_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		} else {
			_ = p.cmd.Process.Kill()
		}
		_ = p.cmd.Wait() // it was ended
		if c.t.Failed() {
			c.t.Logf("gateway %s ended with %v, and says:\n%s", name, p.cmd.ProcessState, p.stderr)
		}
	})
	c.gateways[i] = p
}

func (c *clustered) ready(i int) string {
	return filepath.Join(c.out, "ready-"+gatewayNames[i]+".json")
}

func (c *clustered) awaitGateway(i int) {
	c.t.Helper()
	c.gateways[i].awaitReady(c.t, c.ready(i))
}

// active is the gateway that serves, once one does.
func (c *clustered) active() int {
	c.t.Helper()
	for deadline := time.Now().Add(clustertest.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for i := range c.gateways {
			if c.metric(i, "gateway_up") == "1" {
				return i
			}
		}
	}
	c.t.Fatal("no gateway serves")
	return -1
}

// metric is what a gateway shows, empty where it does not answer.
func (c *clustered) metric(i int, name string) string {
	client := http.Client{Timeout: time.Second}
	reply, err := client.Get(c.gateways[i].metrics + "/metrics")
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(reply.Body) // or what there is of it
	_ = reply.Body.Close()
	return metricOf(text, "bcpmesh_"+name)
}

// clusterFault is something that happens to a mesh on a cluster. It is told the node
// that leads the journal and the gateway that serves it, another node and the
// other gateway.
type clusterFault struct {
	name  string
	begin func(c *clustered, leader, other, active, standby int)
	end   func(c *clustered, leader, other, active, standby int)
}

// clusterFaults are all of them.
func clusterFaults() []clusterFault {
	var all []clusterFault
	for _, f := range nodeFaults {
		all = append(all, clusterFault{
			f.name + " leader",
			func(c *clustered, leader, _, _, _ int) { f.begin(c.t, c.nodes, leader) },
			func(c *clustered, leader, _, _, _ int) { f.end(c.t, c.nodes, leader) },
		}, clusterFault{
			f.name + " other node",
			func(c *clustered, _, other, _, _ int) { f.begin(c.t, c.nodes, other) },
			func(c *clustered, _, other, _, _ int) { f.end(c.t, c.nodes, other) },
		})
	}
	return append(all,
		clusterFault{
			"kill gateway",
			func(c *clustered, _, _, active, _ int) { c.gateways[active].kill(c.t) },
			func(c *clustered, _, _, active, _ int) { c.startGateway(active) },
		},
		clusterFault{
			"kill other gateway",
			func(c *clustered, _, _, _, standby int) { c.gateways[standby].kill(c.t) },
			func(c *clustered, _, _, _, standby int) { c.startGateway(standby) },
		},
		clusterFault{
			"stop gateway",
			func(c *clustered, _, _, active, _ int) { c.gateways[active].end(c.t) },
			func(c *clustered, _, _, active, _ int) { c.startGateway(active) },
		},
		clusterFault{
			"pause gateway",
			func(c *clustered, _, _, active, _ int) { c.gateways[active].signal(c.t, syscall.SIGSTOP) },
			func(c *clustered, _, _, active, _ int) { c.gateways[active].signal(c.t, syscall.SIGCONT) },
		},
		clusterFault{
			"kill both gateways",
			func(c *clustered, _, _, active, standby int) {
				c.gateways[standby].kill(c.t)
				c.gateways[active].kill(c.t)
				c.beginGateway(standby)
				c.beginGateway(active)
			},
			func(c *clustered, _, _, active, standby int) {
				c.awaitGateway(active)
				c.awaitGateway(standby)
			},
		},
		clusterFault{
			"kill leader and gateway",
			func(c *clustered, leader, _, active, _ int) {
				c.nodes.Kill(c.t, leader)
				c.gateways[active].kill(c.t)
			},
			func(c *clustered, leader, _, active, _ int) {
				c.nodes.Restart(c.t, leader)
				c.startGateway(active)
			},
		},
		clusterFault{
			"kill all",
			func(c *clustered, _, _, active, standby int) {
				for i := range c.nodes.Size() {
					c.nodes.Kill(c.t, i)
				}
				c.gateways[standby].kill(c.t)
				c.gateways[active].kill(c.t)
				for i := range c.nodes.Size() {
					c.nodes.Restart(c.t, i)
				}
				c.nodes.AwaitHealthy(c.t)
				c.beginGateway(standby)
				c.beginGateway(active)
			},
			func(c *clustered, _, _, active, standby int) {
				c.awaitGateway(active)
				c.awaitGateway(standby)
			},
		})
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	noError(t, p.cmd.Process.Signal(s))
}

// startTraffic connects all clients.
func (c *clustered) startTraffic(patience time.Duration) *traffic {
	c.t.Helper()
	store := must(accounts.Open(c.state))(c.t)
	return startTraffic(c.t, store, c.nodes.URL(), patience, clustertest.Attentive()...)
}

// Nodes and gateways are killed, paused, cut off and slowed at random moments, while
// clients repeat what was not accepted. Afterwards a checker that knows nothing of the
// writer reads the journal: what was accepted is there once and paid for once, and
// each channel was delivered in its order. It prints for how long nothing was
// accepted.
//
// covers P9.1, P2.6, P11.1, A-CRASH, A-RECONN, A-RACE
func TestClusterFaults(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(chooseSeed(t), 0))
	c := startClustered(t, clustertest.Config{}, startWired)
	traffic := c.startTraffic(clustertest.Patience)
	faults := slices.DeleteFunc(clusterFaults(), func(f clusterFault) bool {
		chosen, err := regexp.MatchString(*clusterOnly, f.name)
		return err != nil || !chosen
	})
	for round := range *clusterRounds {
		if round%len(faults) == 0 {
			random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		}
		f := faults[round%len(faults)]
		length := 1 + random.IntN(2*roundLength)
		traffic.awaitCount("progress", length)
		leader := c.nodes.Leader(t, jetstream.CommitStream)
		other := (leader + 1 + random.IntN(c.nodes.Size()-1)) % c.nodes.Size()
		active := c.active()
		time.Sleep(time.Duration(random.IntN(5000)) * time.Microsecond) // anywhere in a step
		traffic.mark()
		f.begin(c, leader, other, active, 1-active)
		until := time.Now().Add(time.Second) // a fault may show late
		traffic.awaitCount("service under the fault "+f.name, roundLength)
		time.Sleep(time.Until(until))
		during := traffic.mark()
		f.end(c, leader, other, active, 1-active)
		c.nodes.AwaitHealthy(t)
		traffic.awaitCount("service after the fault "+f.name, roundLength/4)
		after := traffic.mark()
		t.Logf("round %d: %s: %.2f s without service, %.2f s when it ended", round+1, f.name, during.Seconds(), after.Seconds())
	}
	traffic.end()
	c.end()
	c.check(traffic)
}

// All nodes and all gateways are restarted one after the other, in order, under
// traffic: nothing is lost, and nobody waits long.
//
// covers P9.1, P11.1, A-RECONN
func TestClusterRollingRestart(t *testing.T) {
	t.Parallel()
	c := startClustered(t, clustertest.Config{}, startBare)
	traffic := c.startTraffic(clustertest.Patience)
	step := func(what string, do func()) {
		traffic.awaitCount("progress", roundLength)
		traffic.mark()
		do()
		t.Logf("%s: %.2f s without service", what, traffic.mark().Seconds())
	}
	for i := range c.nodes.Size() {
		step(fmt.Sprintf("node %d", i), func() {
			c.nodes.Retire(t, i)
			c.nodes.Restart(t, i)
			c.nodes.AwaitHealthy(t)
		})
	}
	for i := range c.gateways {
		step("gateway "+gatewayNames[i], func() {
			c.gateways[i].end(t)
			c.startGateway(i)
		})
	}
	traffic.awaitCount("progress", roundLength)
	traffic.end()
	c.end()
	c.check(traffic)
}

// end ends the gateways in order, once the streams show all that was decided.
func (c *clustered) end() {
	c.t.Helper()
	c.gateways[1].end(c.t)
	c.awaitProjected(0)
	c.gateways[0].end(c.t)
	c.nodes.AwaitHealthy(c.t)
}

// awaitProjected waits until a gateway serves and has nothing to show any more.
func (c *clustered) awaitProjected(i int) {
	c.t.Helper()
	behind := ""
	for deadline := time.Now().Add(clustertest.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		projected, journal := c.metric(i, `journal{kind="projected"}`), c.metric(i, `journal{kind="decisions"}`)
		if projected != "" && projected == journal {
			return
		}
		behind = fmt.Sprintf("%q of %q", projected, journal)
	}
	c.t.Fatalf("decisions are shown: %s", behind)
}

// metricOf is the value of a metric with its labels.
func metricOf(text []byte, name string) string {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// check reads the journal from the cluster and compares.
func (c *clustered) check(traffic *traffic) {
	c.t.Helper()
	js := c.js
	journal := must(meshtest.CheckStream(c.t, js, crashBudgets))(c.t)
	traffic.compare(journal, js)
	// A client asks or pushes one after the other: r0, r1, …, p0, p1, …, d0, d1, …
	next := map[string]int{}
	for channel, ids := range journal.Order {
		for _, id := range ids {
			kind := channel + id[:1]
			want := fmt.Sprintf("%s%d", id[:1], next[kind])
			failIf(c.t, id != want, "%s: %s is in the place of %s", channel, id, want)
			next[kind]++
		}
	}
	overtaken := 0
	for channel, released := range journal.Released {
		place := map[string]int{}
		for i, id := range released {
			place[id] = i
		}
		latest := 0
		for _, id := range traffic.arrived[channel] {
			if place[id] < latest {
				overtaken++
			}
			latest = max(latest, place[id])
		}
	}
	// Where a connection breaks, one may be lost and the next one not.
	c.t.Logf("%d deliveries first came behind a later one", overtaken)
}

// awaitCount waits for so much progress since the last mark.
func (c *traffic) awaitCount(what string, count int) {
	c.t.Helper()
	c.await(what, func() bool { return c.count >= count })
}
