//go:build unix

// Package clustertest runs clusters of stock nats-server processes for tests,
// on loopback, and injects faults: nodes are killed, stopped, paused and
// restarted.
//
//	c := clustertest.Start(t, clustertest.Config{})
//	conn, err := nats.Connect(c.URL())
//	…
//	c.Kill(t, c.Leader(t, "ORDERS"))
//
// The server is the version that the module requires, built once. A cluster
// and all its processes end with the test, even if it panics (on Linux).
//
// It is only for tests; no program imports it.
package clustertest
