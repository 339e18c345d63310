// Package fetch gets pages for agents. It follows redirects, and asks the
// policy, the ledger and the addresses of a name before every hop, so that
// neither a page nor a name server decides where a packet goes.
//
// A [Fetcher] is the loop; what it does to the world goes through a [Resolver]
// and a [Transport]. [NewTransport] returns the real transport, and [Scripted]
// one that answers from a table, for tests and for `bcpmesh guard fetch`. Both
// are driven by the same loop.
//
// The package gives bytes and knows no HTML: package agents/page makes text of
// them. Whoever fetches for an agent runs this half outside of the agent's
// process, and the other half inside.
package fetch
