//go:build faults

package main_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

var (
	clusterRate = flag.Duration("cluster-rate", 500*time.Millisecond, "how long TestClusterRate measures each time")
	gatewayCPU  = flag.Int("gateway-cpu", 0, "how much of a core each gateway of TestClusterRate has, in percent, by a control group of version 1; 0: what there is")
)

const (
	rateTurns   = 5  // of each thing that is measured
	rateClients = 16 // pushes in flight
)

// confine gives a gateway its part of a core: as on a machine of its own, on which it is
// what takes the time.
func (c *clustered) confine(i int) {
	c.t.Helper()
	if *gatewayCPU == 0 {
		return
	}
	const period = 100_000 // microseconds, the system's own
	group := filepath.Join("/sys/fs/cgroup/cpu", "bcpmesh-test-"+gatewayNames[i])
	err := os.MkdirAll(group, 0o755)
	for file, n := range map[string]int{"cpu.cfs_quota_us": *gatewayCPU * period / 100, "cgroup.procs": c.gateways[i].cmd.Process.Pid} {
		err = errors.Join(err, os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(n)), 0o600))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = os.Remove(group) }) // once more than once
}

// The rates of one gateway that serves two shards, and of two gateways with a shard each,
// are printed, beside one writer to a stream of the same cluster, in turns. Every push of
// all turns is in one of the journals once.
//
// covers P4.5, BCP-145
func TestClusterRate(t *testing.T) {
	c := startClustered(t, clustertest.Config{})
	c.confine(0)
	c.confine(1)
	clustertest.CreateFloor(t, c.js[0])
	store, err := accounts.Open(c.state)
	if err != nil {
		t.Fatal(err)
	}
	type channel struct {
		conn               *nats.Conn
		reader, controller bcp.AgentName
	}
	var channels []channel
	for shard := range clusterShards {
		for _, name := range []bcp.AgentName{"boss", "main"} {
			controller := onShard(name, shard)
			conn := dial(t, store, c.nodes.URL(), controller)
			if _, err := conn.Subscribe(subjects.DeliveriesOf(bcp.RoleController, controller), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []bcp.AgentName{"clerk", "mailer"} {
			reader := onShard(name, shard)
			conn := dial(t, store, c.nodes.URL(), reader)
			for _, controller := range []bcp.AgentName{"boss", "main"} {
				channels = append(channels, channel{conn, reader, onShard(controller, shard)})
			}
		}
	}
	var pushed atomic.Int64
	pushes := func() int {
		return c.inTurn(rateClients, func(client int) error {
			at := channels[client%len(channels)]
			id := fmt.Sprintf(`,"push_id":"n%d"`, pushed.Add(1))
			reply, err := at.conn.Request(subjects.Push(at.reader, at.controller, "alerts"), []byte(meshtest.PushText(at.controller, "alerts", `{"urgent":true}`, id)), stepPatience)
			if err == nil && !strings.Contains(string(reply.Data), `"success":true`) {
				err = fmt.Errorf("a push: %s", reply.Data)
			}
			return err
		})
	}
	rates := map[string][]float64{}
	measure := func(what string, count func() int) {
		begun := time.Now()
		n := count()
		rates[what] = append(rates[what], float64(n)/time.Since(begun).Seconds())
	}
	const one, two, bare, bare16 = "one gateway", "two gateways", "bus, one message", "bus, 16 in one message"
	var shares []float64
	for range rateTurns {
		c.awaitShared()
		pushes() // agents have found the gateways
		measure(two, pushes)
		c.gateways[1].end(t)
		for shard := range clusterShards {
			c.serving(shard)
		}
		pushes()
		measure(one, pushes)
		shares = append(shares, last(rates[two])/last(rates[one]))
		c.startGateway(1)
		c.confine(1)
		measure(bare, func() int { return c.publish(300) })
		measure(bare16, func() int { return 16 * c.publish(16*300) })
	}
	c.end()
	recorded := 0
	for _, js := range c.js {
		var records [][]byte
		for _, m := range meshtest.ReadStream(t, js, jetstream.CommitStream) {
			records = append(records, m.Data)
		}
		journal, err := meshtest.CheckJournal(records, meshtest.ReadKeys(t, js), crashBudgets(clusterShards))
		if err != nil {
			t.Fatal(err)
		}
		recorded += len(journal.Pushes)
	}
	if n := int64(recorded); n != pushed.Load() {
		t.Errorf("%d pushes were accepted, and %d are in the journals", pushed.Load(), n)
	}
	for _, what := range []string{one, two, bare, bare16} {
		slices.Sort(rates[what])
		t.Logf("%-24s %6.0f a second, %.0f to %.0f", what, rates[what][rateTurns/2], rates[what][0], rates[what][rateTurns-1])
	}
	slices.Sort(shares)
	t.Logf("two gateways have %.2f of the rate of one right behind it, %.2f to %.2f", shares[rateTurns/2], shares[0], shares[rateTurns-1])
}

func last(all []float64) float64 { return all[len(all)-1] }

// inTurn has clients work for a while, and returns how often they did.
func (c *clustered) inTurn(clients int, work func(client int) error) int {
	var running sync.WaitGroup
	var n atomic.Int64
	end := time.Now().Add(*clusterRate)
	for client := range clients {
		running.Go(func() {
			for time.Now().Before(end) {
				if err := work(client); err != nil {
					c.t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	running.Wait()
	return int(n.Load())
}

// publish writes into the bare stream, each message when the one before is stored.
func (c *clustered) publish(size int) int {
	c.t.Helper()
	js := c.js[0]
	stream, err := js.Stream(c.t.Context(), clustertest.Floor)
	if err != nil {
		c.t.Fatal(err)
	}
	last, data := stream.CachedInfo().State.LastSeq, make([]byte, size)
	return c.inTurn(1, func(int) error {
		ack, err := js.Publish(c.t.Context(), "floor", data, natsjs.WithExpectLastSequence(last))
		if err == nil {
			last = ack.Sequence
		}
		return err
	})
}
