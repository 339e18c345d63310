// Package bench measures a mesh against floors: what the same path costs with
// less in it. Every comparison is of one run, and its sides take turns, so that
// whatever else the machine does hits all alike.
//
// # Who runs where
//
// The sides are processes of their own ([Serve]): each mesh and each floor is
// one, and so are the agents, which connect over TCP with creds. [Run] gives
// them orders over their standard input and gathers what they report.
//
// # The floors
//
// Floor A is the mesh's server with its accounts, and in place of the gateway
// an echo with the same connections: what NATS costs. Floor B has one goroutine
// behind these connections that writes whatever waits as one record of the
// journal's stream, 300 bytes a message, each with the digest of the one
// before, and then replies: what a durable, ordered, shared record costs. No
// BCP is in either. What a message adds above floor B is the protocol:
// validation, prices, the audit and the raw answer.
package bench
