// Package mesh puts a mesh together in one process: keys, server, streams,
// gateway, projections. Start makes it from a folder of definitions and a state
// folder; everything that it knows afterwards is in these two.
//
// # The journey of one question
//
//  1. A clean Controller asks: it publishes on bcp.v1.ask.<controller>.<reader>.
//     The server lets it use its own name there and nothing else
//     ([subjects.Permissions]).
//  2. The gateway decides the ask ([state.State.DecideAsk]): is it well-formed, is
//     there a channel, is the category allowed, does the spec compile, is it an
//     escalation, is there budget for the price. An accepted ask reserves it.
//  3. The decision is recorded: one record of the journal, acknowledged by
//     JetStream. Until then nobody hears of it ([jetstream.Journal.Append]).
//  4. The gateway releases it: the Controller gets its query id and both bit
//     figures at once, the tainted Reader gets the query, with a reply subject
//     that the gateway chose. Only to that subject may the Reader answer, once.
//  5. The Reader answers, honestly or not. Whatever it sent is attacker-made
//     bytes until [bcp.Validator.Judge] has read it strictly, checked it against
//     the spec, normalised it and written it anew in its one spelling.
//  6. The verdict is recorded, with its charge and, sealed, what was said, before
//     anybody hears of it. Accepted, the answer becomes a delivery; held, it waits
//     for a person; rejected, the Reader gets the query again until its retries
//     are used up.
//  7. The delivery is sent to the Controller until it acknowledges it, also over
//     reconnects and restarts. The acknowledgement is recorded.
//
// Steps 2 to 4, and 5 to 7 again, are one function: step in package gateway. A
// push enters at 5, against a subscription that the operator declared.
package mesh
