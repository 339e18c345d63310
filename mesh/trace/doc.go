// Package trace makes traces of decisions: one for each exchange, which is a
// query or a push with all its consequences. It has no clock, no randomness
// and no network; package otlp sends what it makes.
//
//	projection := trace.New(key, definition)
//	spans := projection.Add(trace.FactOf(decision, storedAt))
//
// # What a trace contains
//
// Traces are a projection of the journal, like the audit: the same decisions
// under the same key make the same spans. A root span lasts from the first
// decision to the last acknowledgement. Its children are a span for each
// decision until its record was stored, one for each time that a Reader had
// the query, one for each wait for a person, and one for each delivery until
// it was acknowledged.
//
// # What it does not contain
//
// A trace has names that the operator declared, ids that the gateway made, words
// of package bcp, times and bits. A [Fact] has no field for anything else of a
// decision: no text of an agent, and no id that one chose (PROTOCOL P2.5). The
// ids of traces and spans are derived from a key and the gateway's ids, and
// nobody without the key can predict them. Trace ids are never read from
// messages, so no agent can join a trace.
package trace
