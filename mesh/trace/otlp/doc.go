// Package otlp sends the traces of a mesh to a collector, over OTLP/HTTP.
//
//	exporter, err := otlp.Start(otlp.Config{Endpoint: url, Definition: definition})
//	m, err := mesh.Start(ctx, mesh.Config{…, OnDecision: exporter.Observe, OnReload: exporter.Use})
//
// Nothing waits for a collector. Decisions go into a queue, and what does not fit
// is dropped and counted. A collector that is
// down, slow or hostile only costs traces; the journal is complete. The
// messages and the client are OpenTelemetry's.
//
// Traces show what a Controller must not know of its Readers, such as refusals
// and their times. They go to a loopback address, or over TLS.
package otlp
