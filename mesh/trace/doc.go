// Package trace sends traces of decisions to an OpenTelemetry collector: one for
// each exchange, which is a query or a push with all its consequences.
//
//	exporter, err := trace.Start(trace.Config{Endpoint: url, Definition: definition})
//	m, err := mesh.Start(ctx, mesh.Config{…, OnDecision: exporter.Observe, OnReload: exporter.Use})
//
// Traces are a projection of the journal, like the audit. A root span lasts from
// the first decision to the last acknowledgement. Its children are a span for each
// decision until its record was stored, one for each time that a Reader had the
// query, one for each wait for a person, and one for each delivery until it was
// acknowledged. Spans, their queue and the client are OpenTelemetry's: nothing
// waits for a collector, and what does not fit into the queue is dropped and
// counted. A collector that is down, slow or hostile only costs traces.
//
// A trace has names that the operator declared, ids that the gateway made, words
// of package bcp, times and bits: no text of an agent, and no id that one chose
// (PROTOCOL P2.5). Its ids are random and never read from messages, so no agent can
// join a trace. Traces show what a Controller must not know of its Readers, such as
// refusals and their times. They go to a loopback address, or over TLS.
package trace
