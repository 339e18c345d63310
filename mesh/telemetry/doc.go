// Package telemetry shows operators how a mesh is doing, as Prometheus metrics.
//
//	metrics := telemetry.New(definition)
//	m, err := mesh.Start(ctx, mesh.Config{…, OnDecision: metrics.Observe, OnReload: metrics.Use})
//	server, err := telemetry.Serve(ctx, "127.0.0.1:9464", telemetry.Shard{metrics, m})
//
// What is counted is counted from the gateway's decisions since the process
// began. What is a state, such as the budget that is left, is read from the
// gateway at each scrape, so that it is right after a restart. docs/metrics.md
// lists every metric.
//
// # Labels
//
// Which series there are follows from the definitions alone: all of them are
// there, at 0, before anything happened. A label's value is a name that the
// operator declared or a word of package bcp; what a decision names beside
// those is counted under an empty label. So no agent can make a series, and no
// byte that an agent chose is shown (PROTOCOL P2.5, A-METRIC).
//
// # Who may look
//
// Metrics show what a Controller must not know, such as how often its Reader
// was refused, or that a push is held. Two agents that collude could talk
// through them, uncounted. They are served on loopback alone; an agent that
// runs on this machine has to be kept from the port by other means.
package telemetry
