// Package trace makes traces of decisions: one for each exchange, which is a
// query or a push with everything that came of it. It has no clock, no
// randomness and no network; package otlp sends what it makes.
//
//	projection := trace.New(key, definition)
//	spans := projection.Add(trace.FactOf(decision, storedAt))
//
// # What a trace is made of
//
// Traces are a projection, as the audit is: the journal decides what happened,
// and the same decisions under the same key make the same spans. A root span
// lasts from the first decision to the last acknowledgement. Below it stand a
// span for each decision, from the decision until its record was stored, one for
// each time that the query was its Reader's, one for each wait for a person, and
// one for each delivery until it was acknowledged.
//
// # What it is not made of
//
// A trace has names that the operator declared, ids that the gateway made, words
// of package bcp, times and bits. A [Fact] has room for nothing else of a decision:
// no text of an agent, and no id that one chose (PROTOCOL P2.5). The ids of traces
// and spans follow from a key and the gateway's ids. Nobody who lacks the key can
// tell them beforehand, so no agent can join a trace, and nothing that an agent
// sends is ever read for one: there is no place for it.
package trace
