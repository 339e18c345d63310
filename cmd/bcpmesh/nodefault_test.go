//go:build faults && unix

package main_test

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// nodeFault is a fault of one node of a cluster with wires.
type nodeFault struct {
	name  string
	begin func(t testing.TB, c *clustertest.Cluster, node int)
	// end ends the fault, so that the cluster becomes healthy again.
	end func(t testing.TB, c *clustertest.Cluster, node int)
}

// syncDelay is the additional time for each sync of a slow disk.
const syncDelay = 300 * time.Millisecond

// nodeFaults are all of them.
var nodeFaults = []nodeFault{
	{"kill", func(t testing.TB, c *clustertest.Cluster, node int) { c.Kill(t, node) }, restartNode},
	{"stop", func(t testing.TB, c *clustertest.Cluster, node int) { c.Stop(t, node) }, restartNode},
	{"retire", func(t testing.TB, c *clustertest.Cluster, node int) { c.Retire(t, node) }, restartNode},
	{
		"pause",
		func(t testing.TB, c *clustertest.Cluster, node int) { c.Pause(t, node) },
		func(t testing.TB, c *clustertest.Cluster, node int) { c.Continue(t, node) },
	},
	{"isolate", func(t testing.TB, c *clustertest.Cluster, node int) { c.Isolate(t, node) }, healNodes},
	{"partition", func(t testing.TB, c *clustertest.Cluster, node int) { c.Partition(t, node) }, healNodes},
	{
		"slow disk",
		func(t testing.TB, c *clustertest.Cluster, node int) { c.Slow(t, node, syncDelay) },
		func(t testing.TB, c *clustertest.Cluster, node int) { c.Quick(t, node) },
	},
}

func restartNode(t testing.TB, c *clustertest.Cluster, node int) { c.Restart(t, node) }

func healNodes(_ testing.TB, c *clustertest.Cluster, _ int) { c.Heal() }
