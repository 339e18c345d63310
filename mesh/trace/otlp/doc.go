// Package otlp sends the traces of a mesh to a collector, over OTLP/HTTP.
//
//	exporter, err := otlp.Start(otlp.Config{Endpoint: url, Definition: definition})
//	m, err := mesh.Start(ctx, mesh.Config{…, OnDecision: exporter.Observe, OnReload: exporter.Use})
//
// Nothing waits for a collector. What is observed goes into a queue, the spans
// that come of it into another, and what has no room there is dropped and counted.
// A collector that is gone, slow or hostile costs traces and nothing else: the
// journal has what happened. The messages are OpenTelemetry's; the client is ours, since
// theirs links gRPC.
//
// Traces show what a Controller must not know of its Readers, such as refusals and
// when they were. They go to a loopback address, or over TLS.
package otlp
