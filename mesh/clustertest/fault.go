//go:build unix

package clustertest

import (
	"testing"
	"time"
)

// Fault is a fault of one node of a cluster with wires.
type Fault struct {
	Name  string
	Begin func(t testing.TB, c *Cluster, node int)
	// End ends the fault, so that the cluster becomes healthy again.
	End func(t testing.TB, c *Cluster, node int)
}

// slowness is the additional time for each sync of a slow disk.
const slowness = 300 * time.Millisecond

// Faults are all of them.
var Faults = []Fault{
	{"kill", func(t testing.TB, c *Cluster, node int) { c.Kill(t, node) }, start},
	{"stop", func(t testing.TB, c *Cluster, node int) { c.Stop(t, node) }, start},
	{"retire", func(t testing.TB, c *Cluster, node int) { c.Retire(t, node) }, start},
	{
		"pause",
		func(t testing.TB, c *Cluster, node int) { c.Pause(t, node) },
		func(t testing.TB, c *Cluster, node int) { c.Continue(t, node) },
	},
	{"isolate", func(t testing.TB, c *Cluster, node int) { c.Isolate(t, node) }, heal},
	{"partition", func(t testing.TB, c *Cluster, node int) { c.Partition(t, node) }, heal},
	{
		"slow disk",
		func(t testing.TB, c *Cluster, node int) { c.Slow(t, node, slowness) },
		func(t testing.TB, c *Cluster, node int) { c.Quick(t, node) },
	},
}

func start(t testing.TB, c *Cluster, node int) { c.Restart(t, node) }

func heal(_ testing.TB, c *Cluster, _ int) { c.Heal() }
