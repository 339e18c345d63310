// Package gateway is the only path from a tainted Reader to a clean
// Controller.
//
// One goroutine owns the protocol's state and the journal. It takes all waiting
// messages, decides each with the pure functions of package bcp, writes the
// decisions as one record, waits until it is stored, and only then releases
// them: read step in journey.go from top to bottom. Open queries and
// unacknowledged deliveries are kept in the state and not in messages, so
// restarts, lost messages and reconnects need no special handling.
//
// The tests of bcp/state (explore_test.go) have a copy of open, take, step and
// recover, and search it for violations of a guarantee. Change both together.
//
// The gateway has a bounded queue for each agent and serves the queues in turn,
// so an agent that floods delays only itself: links.go, inbound.go and inbox.go. What is
// done with each kind of message and of decision is a row of kinds.go.
package gateway
