// Package telemetry shows operators how a mesh is doing: as Prometheus metrics,
// and as traces for an OpenTelemetry collector.
//
//	metrics := telemetry.New(definition)
//	exporter, err := telemetry.Export(telemetry.ExportConfig{Endpoint: url, Definition: definition})
//	m, err := mesh.Start(ctx, mesh.Config{…, OnDecision: metrics.Observe, OnReload: metrics.Use}) // or the exporter's
//	server, err := telemetry.Serve(ctx, "127.0.0.1:9464", "", metrics, m)
//
// Counters count the gateway's decisions since the process began. Gauges, such
// as the remaining budget, are read from the gateway at each scrape, so they
// are correct after a restart. docs/metrics.md lists every metric.
//
// Each exchange, which is a query or a push with all its consequences, is one
// trace. Its root span lasts from the first decision to the last acknowledgement. Its
// children are a span for each decision until its record was stored, one for each
// time that a Reader had the query, one for each wait for a person, and one for each
// delivery until it was acknowledged. Spans, their queue and the client are
// OpenTelemetry's: nothing waits for a collector, and what does not fit into the queue
// is dropped and counted. A collector that is down, slow or hostile only costs traces.
//
// # What is shown
//
// A label or an attribute has names that the operator declared, words of package bcp,
// ids that the gateway made, times and bits; other names in a decision are counted
// under an empty label. The definitions alone determine the series: all of them exist,
// at 0, from the start. Ids of traces are random. So no agent can create a series or
// join a trace, and no byte that an agent chose is shown (PROTOCOL P2.5, A-METRIC).
//
// # Who may look
//
// Metrics and traces show what a Controller must not know, such as how often its
// Reader was refused, or that a push is held. Two agents that collude could
// communicate through them, uncounted. Metrics are served on loopback, or to holders
// of a token; agents on this machine must be kept from the port by other means. Traces
// go to a loopback address, or over TLS.
package telemetry
