//go:build faults

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

var (
	namedRounds = flag.Int("named-rounds", 1, "how often each fault of TestNamedFaults happens")
	namedSync   = flag.String("named-sync", "always", "when the nodes of TestNamedFaults sync: with 2m its power cuts lose what was acknowledged")
)

// namedFaults are faults that others found in JetStream, by their numbers in nats-server's
// list of issues. Each happens to a cluster that is healthy, under traffic, and leaves it so.
var namedFaults = []struct {
	name   string
	strace bool
	happen func(c *clustered, traffic *traffic, random *rand.Rand)
}{
	{"7564 acknowledged before it is on the disk", true, func(c *clustered, traffic *traffic, _ *rand.Rand) {
		all := []int{0, 1, 2}
		disks := c.trace(all)
		traffic.awaitCount("progress on traced disks", roundLength)
		c.cutPower(disks, all)
		for _, i := range all {
			c.nodes.Restart(c.t, i)
		}
	}},
	{"7567 power cut at one node, and pauses", true, func(c *clustered, traffic *traffic, _ *rand.Rand) {
		leader := c.nodes.Leader(c.t, jetstream.CommitStream)
		disks := c.trace([]int{leader})
		traffic.awaitCount("progress on a traced disk", roundLength)
		c.nodes.Lead(c.t, c.core, jetstream.CommitStream, leader)
		traffic.awaitCount("progress with it as the leader", roundLength)
		ahead := (leader + 1) % c.nodes.Size()
		c.cutPower(disks, []int{leader})
		c.nodes.Pause(c.t, ahead) // who is left has to agree with the one that was cut
		c.nodes.Restart(c.t, leader)
		traffic.awaitCount("service of the other two", roundLength/2)
		c.nodes.Continue(c.t, ahead)
	}},
	{"7549 bit errors in the files of one node", false, func(c *clustered, traffic *traffic, random *rand.Rand) {
		i := random.IntN(c.nodes.Size())
		c.nodes.Kill(c.t, i)
		c.flipBits(i, random)
		c.nodes.Restart(c.t, i)
		traffic.awaitCount("service beside the damaged node", roundLength)
		// It should lead, if it can, while gateways begin with what the leader has.
		_, _ = c.core.Request("$JS.API.STREAM.LEADER.STEPDOWN."+jetstream.CommitStream, fmt.Appendf(nil, `{"placement":{"preferred":"node-%d"}}`, i), time.Second)
		for n := range c.gateways {
			c.gateways[n].leave(c.t)
			c.beginGateway(n)
		}
		refused := c.refusesDamage(traffic)
		c.nodes.Kill(c.t, i) // as the sentence says, and the guide
		c.nodes.Empty(c.t, i)
		c.nodes.Restart(c.t, i)
		c.nodes.AwaitHealthy(c.t)
		for n := range c.gateways {
			if refused {
				c.gateways[n].leave(c.t)
				c.beginGateway(n)
			}
			c.awaitGateway(n)
		}
	}},
	{"7545 a node that is replaced", false, func(c *clustered, traffic *traffic, random *rand.Rand) {
		i := random.IntN(c.nodes.Size())
		c.nodes.Kill(c.t, i)
		traffic.awaitCount("service without the node", roundLength)
		c.nodes.Empty(c.t, i)
		c.nodes.Restart(c.t, i)
		traffic.awaitCount("service while it gets everything", roundLength)
	}},
	{"6888 kill -9 of several nodes", false, func(c *clustered, _ *traffic, random *rand.Rand) {
		order := random.Perm(c.nodes.Size())[:2+random.IntN(2)]
		for _, i := range order {
			c.nodes.Kill(c.t, i)
		}
		for _, i := range order {
			c.nodes.Restart(c.t, i)
		}
	}},
}

// What others found in JetStream happens to the nodes of a mesh, each on a cluster of its
// own. Nothing that was acknowledged is lost, doubled or overspent.
//
// covers P9.1, P2.6, P4.5, P11.1, A-CRASH
func TestNamedFaults(t *testing.T) {
	t.Parallel()
	seed := chooseSeed(t)
	for n, f := range namedFaults {
		t.Run(f.name, func(t *testing.T) {
			patience := clustertest.Patience
			if f.strace {
				if !bcptest.Long() {
					return // it needs strace, and minutes beside other work
				}
				patience *= 5
			}
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			c := startClustered(t, clustertest.Config{Sync: *namedSync}, startBare)
			traffic := c.startTraffic(patience)
			for range *namedRounds {
				traffic.awaitCount("progress", 1+random.IntN(roundLength))
				f.happen(c, traffic, random)
				c.nodes.AwaitHealthy(t)
				traffic.awaitCount("service after the fault", roundLength/2)
			}
			traffic.end()
			c.end()
			c.check(traffic)
		})
	}
}

// leave kills a gateway that may have ended by itself.
func (p *process) leave(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// refusesDamage waits until a gateway serves, or one ends since the journal is damaged, which
// has to say what to do.
func (c *clustered) refusesDamage(traffic *traffic) bool {
	c.t.Helper()
	count := func() int {
		traffic.mu.Lock()
		defer traffic.mu.Unlock()
		return traffic.count
	}
	before := count()
	for deadline := time.Now().Add(clustertest.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if count() > before {
			return false
		}
		for _, g := range c.gateways {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.cmd.Process.Pid))
			if err == nil && !strings.Contains(string(stat), ") Z ") {
				continue
			}
			_ = g.cmd.Wait() // it has ended
			if text := g.stderr.String(); !strings.Contains(text, "is damaged") || !strings.Contains(text, "give it an empty store and start it") {
				c.t.Fatalf("a gateway ends and does not say why, or what to do: %s", text)
			}
			c.t.Log("the gateways refuse to serve, and say what to do")
			return true
		}
	}
	c.t.Fatal("no gateway serves, and none says why")
	return false
}

// tracedDisk is what a node had on its disk when its calls began to be written down.
type tracedDisk struct {
	*disk
	traces string
}

// trace starts nodes again, one by one, with all that they do to their disks written down.
func (c *clustered) trace(nodes []int) map[int]tracedDisk {
	c.t.Helper()
	disks := map[int]tracedDisk{}
	for _, i := range nodes {
		c.nodes.Kill(c.t, i)
		d := tracedDisk{&disk{names: map[string]*inode{}, open: map[int]*opened{}}, filepath.Join(c.t.TempDir(), "trace")}
		noError(c.t, filepath.WalkDir(c.nodes.Store(i), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(name)
			d.names[name] = &inode{content: content, synced: content}
			return err
		}))
		disks[i] = d
		c.nodes.Through(i, traceFiles(d.traces)...)
		c.nodes.Restart(c.t, i)
		c.nodes.AwaitHealthy(c.t)
	}
	return disks
}

// cutPower kills traced nodes at once, and leaves of their files what was synced.
func (c *clustered) cutPower(disks map[int]tracedDisk, nodes []int) {
	c.t.Helper()
	cut := float64(time.Now().UnixNano()) / 1e9
	for _, i := range nodes {
		c.nodes.Kill(c.t, i)
		c.nodes.Through(i)
	}
	for _, i := range nodes {
		for _, call := range readCalls(c.t, disks[i].traces, c.nodes.Store(i)) {
			if call.at <= cut {
				disks[i].do(call)
			}
		}
		c.nodes.Empty(c.t, i)
		disks[i].write(c.t, c.nodes.Store(i), c.nodes.Store(i), cut)
	}
}

// flipBits damages a few files of a stopped node's streams, and of what it agreed on with
// the others, a bit each.
func (c *clustered) flipBits(i int, random *rand.Rand) {
	c.t.Helper()
	var files []string
	err := filepath.WalkDir(c.nodes.Store(i), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.Contains(name, "/msgs/") {
			files = append(files, name)
		}
		return err
	})
	for _, at := range random.Perm(len(files))[:min(3, len(files))] {
		content, failed := os.ReadFile(files[at])
		if len(content) > 0 {
			content[random.IntN(len(content))] ^= 1 << random.IntN(8)
			c.t.Logf("a bit of %s is flipped", strings.TrimPrefix(files[at], c.nodes.Store(i)))
		}
		err = errors.Join(err, failed, os.WriteFile(files[at], content, 0o600))
	}
	noError(c.t, err)
}
