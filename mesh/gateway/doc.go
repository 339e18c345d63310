// Package gateway is the only way from a tainted Reader to a clean Controller.
//
// One goroutine owns the protocol's state and the journal. It takes whatever
// messages are waiting, decides each with the pure functions of package bcp,
// writes all decisions as one record, waits until the record is stored, and
// only then lets anybody hear of them: step in journey.go is that path from top
// to bottom. What is outstanding (queries with Readers, deliveries that were not
// acknowledged) lives in the state and not in messages, so that a restart, a
// lost message or a reconnected agent needs no other path.
//
// The order of open, take, step and recover is written a second time in package
// bcp/explore, which searches it for a way to break a promise. Change both together.
//
// Each agent has a connection of the gateway's to itself and a bounded lane
// behind it, and lanes take turns: an agent that floods waits for itself. See
// inbound.go.
package gateway
