// Package fetch gets web pages for agents. It follows redirects, and before
// every hop checks the policy, the ledger and the addresses of the host name,
// so that neither a page nor a name server decides where a packet goes.
//
// A [Fetcher] is the loop; all its effects go through a [Resolver] and a
// [Transport]. [NewTransport] returns the real transport, and [Scripted] one
// that answers from a table, for tests and for `bcpmesh guard fetch`. Both are
// driven by the same loop.
//
// The package returns bytes and does not parse HTML; package agents/page does.
// Run this package outside of the agent's process, and package page inside it.
package fetch
