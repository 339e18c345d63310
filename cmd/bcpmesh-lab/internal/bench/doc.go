// Package bench compares a mesh with floors: the same path with parts left out.
// The sides of a comparison take turns in one run, so that other load on the
// machine affects them equally.
//
// # Who runs where
//
// Each mesh and each floor is a separate process ([Serve]), and so are the
// agents, which connect over TCP with creds. [Run] commands them over their
// standard input and collects their reports.
//
// # The floors
//
// Floor A is the mesh's server and accounts with an echo in place of the
// gateway: the cost of NATS. In floor B one goroutine writes all waiting
// messages as one record of the journal's stream, 300 bytes a message, each
// with the digest of the one before, and then replies: the cost of a durable,
// ordered, shared record. Neither contains BCP. The cost above floor B is the
// protocol: validation, prices, the audit and the raw answer.
package bench
