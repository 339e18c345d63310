// Package telemetry shows operators how a mesh is doing, as Prometheus metrics.
//
//	metrics := telemetry.New(definition)
//	m, err := mesh.Start(ctx, mesh.Config{…, OnDecision: metrics.Observe, OnReload: metrics.Use})
//	server, err := telemetry.Serve(ctx, "127.0.0.1:9464", "", metrics, m)
//
// Counters count the gateway's decisions since the process began. Gauges, such
// as the remaining budget, are read from the gateway at each scrape, so they
// are correct after a restart. docs/metrics.md lists every metric.
//
// # Labels
//
// The definitions alone determine the series: all of them exist, at 0, from the
// start. A label's value is a name that the operator declared or a word of
// package bcp; other names in a decision are counted under an empty label. So
// no agent can create a series, and no byte that an agent chose is shown
// (PROTOCOL P2.5, A-METRIC).
//
// # Who may look
//
// Metrics show what a Controller must not know, such as how often its Reader
// was refused, or that a push is held. Two agents that collude could
// communicate through them, uncounted. They are served on loopback, or to
// holders of a token; agents on this machine must be kept from the port by
// other means.
package telemetry
