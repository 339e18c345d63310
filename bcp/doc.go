// Package bcp is the pure core of the Bandwidth-Constrained Protocol: it
// decides what a clean Controller may learn from a tainted Reader, and what
// that costs in bits. It prices calls of language models too: before a call at most,
// afterwards by the provider's count of tokens, in whole billionths of a US dollar.
//
// Nothing here talks to a network, a clock, a disk or a source of randomness.
// Time and fresh identifiers are arguments; the same arguments give the same
// decisions on every machine, so that a journal replays to the same verdicts.
//
// The shortest correct use is to compile a spec and validate an answer:
//
//	validator, err := bcp.Compile(spec, bcp.Settings{})
//	verdict := validator.Validate(raw, bcp.JSON)
//	if verdict.Outcome == bcp.Accept { deliver(verdict.Answer) }
//
// Package bcp/state holds everything that a gateway remembers; its Decide methods return
// a [Decision] and change nothing, and its Apply is the only way to change it.
// Package bcp/tell says why a decision came out as it did. Before anything runs, [FlowOf]
// says which taint can reach which agent, and what adds up. Bytes of a Reader reach a
// Controller only inside an [Answer], and only this package makes one.
//
// # Words
//
// One word per concept, in code, documents, subjects, metrics and commands:
//
//   - ask: a Controller's request to the gateway.
//   - query: what the gateway then sends a Reader.
//   - answer: what a Reader sends back to a query (wire type bcp_response).
//   - push: an unsolicited answer against a subscription.
//   - delivery: the validated message that a Controller gets.
//   - spec: the shape asked for, of a query or a subscription.
//   - verdict: accept, hold or reject.
//   - held: waits for a person. item: what waits. approver: the person.
//   - channel: one Controller and one Reader.
//   - session: a Controller's task; budgets, escalation and exposure belong to it.
//   - epoch: one filling of a channel's pool of bits.
//   - journal: the commit log, the truth. ledger, audit: its projections.
//
// PROTOCOL.md beside this file numbers the rules; CAPACITY.md derives the
// bound that capacity_bits states.
package bcp
