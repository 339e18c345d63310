// Package fetch gets web pages for agents. It follows redirects, and before
// every hop checks the policy, the ledger and the addresses of the host name,
// so that neither a page nor a name server decides where a packet goes.
//
// A [Client] is the loop; all its effects go through a [Resolver] and a
// [Transport]. [NewTransport] returns the real transport, and [Scripted] one
// that answers from a table, for tests and for `bcpmesh guard fetch`. Both are
// driven by the same loop.
//
// A [Desk] fetches for the conversations of an agent. It prices each URL and has
// a [Ledger] record every hop before the DNS lookup. A link on a served page
// costs less than a URL that the agent composed, because its bytes come from
// that page: the desk cuts them there itself.
//
// The package returns bytes and does not parse HTML; package agents/web does.
// Run this package outside of the agent's process, and package web inside it.
package fetch
