//go:build unix

// Package clustertest runs clusters of stock nats-server processes for tests, on
// loopback, and does to them what clusters suffer: nodes are killed, stopped,
// paused and restarted, cut off from the others, and get slow disks.
//
//	c := clustertest.Start(t, clustertest.Config{Wires: true})
//	conn, err := nats.Connect(c.URL())
//	…
//	c.Kill(t, c.Leader(t, "ORDERS"))
//
// The server is the version that the module requires, built once. A cluster and
// all its processes end with the test, also where the test panics (on Linux).
//
// It is for tests alone; no program imports it.
package clustertest
