//go:build faults && unix

package main_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

var floors = flag.Int("floors", 0, "how often TestFloor has each fault; 0: two faults, once")

// What a cluster acknowledged survives each fault of the node that leads the
// stream, and a client that leaves a node at which nothing goes on is served
// again. It prints for how long there was no acknowledgement: least, middle, most.
//
// covers P4.5, A-CRASH
func TestFloor(t *testing.T) {
	t.Parallel()
	c := startWired(t, clustertest.Config{})
	createFloor(t, connectStreams(t, c.URL()))
	faults, each := nodeFaults, *floors
	if each == 0 {
		each = 1
		faults = slices.DeleteFunc(slices.Clone(faults), func(f nodeFault) bool { return f.name != "kill" && f.name != "isolate" })
	}
	for _, f := range faults {
		for _, at := range []string{"at the leader", "elsewhere"} {
			if *floors == 0 && (f.name == "kill") != (at == "elsewhere") {
				continue
			}
			var gaps, healings []time.Duration
			for range each {
				gap, healing := floorUnder(t, c, f, at == "elsewhere")
				gaps, healings = append(gaps, gap), append(healings, healing)
			}
			t.Logf("%-9s %-13s %s; when it ends: %s", f.name, at, spread(gaps), spread(healings))
		}
	}
}

// floorUnder has a fault at the leader of the stream, with a client that is
// connected to it or elsewhere.
func floorUnder(t *testing.T, c *wiredCluster, f nodeFault, elsewhere bool) (gap, healing time.Duration) {
	t.Helper()
	leader := c.Leader(t, floorStream)
	first := leader
	if elsewhere {
		first = (leader + 1) % c.Size()
	}
	p := startPublisher(t, c.NodeURL(first)+","+c.URL(), 300, append(clustertest.Attentive(), nats.DontRandomize())...)
	p.Await(t, 50)
	p.Gap()
	f.begin(t, c, leader)
	for begun := time.Now(); time.Since(begun) < time.Second; { // a fault may show late
		p.Await(t, 20)
	}
	gap, _ = p.Gap()
	f.end(t, c, leader)
	c.AwaitHealthy(t)
	p.Await(t, 50)
	healing, _ = p.Gap()
	if err := p.Stop(); err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return gap, healing
}

// spread is the least, the middle and the most.
func spread(all []time.Duration) string {
	slices.Sort(all)
	s := ""
	for i, d := range []time.Duration{all[0], all[len(all)/2], all[len(all)-1]} {
		if i > 0 {
			s += " "
		}
		s += d.Round(10 * time.Millisecond).String()
	}
	return s
}
