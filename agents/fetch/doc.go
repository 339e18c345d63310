// Package fetch gets web pages for agents, and makes text of them.
//
// Outside of the agent's process, where a page is looked at for its base alone: a [Client]
// follows redirects, and before every hop checks the policy, the ledger and the addresses of the host name, so that
// neither a page nor a name server decides where a packet goes. All its effects go through a
// [Resolver] and a [Transport]: the network, or a table for tests and `bcpmesh guard fetch`.
//
// A [Desk] fetches for the conversations of an agent. It prices each URL and has
// a [Ledger] record every hop before the DNS lookup. A link on a served page
// costs less than a URL that the agent composed, because its bytes come from
// that page: the desk cuts them there itself.
//
// Inside of it, where hostile bytes are parsed: [ReadPage] decodes the character set of a page,
// finds the readable part of HTML, leaves out what a person would not see, and writes the rest
// with headings, lists, tables and numbered links. [NewTool] is web_fetch of one conversation.
package fetch
