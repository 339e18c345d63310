// Package mesh puts a mesh together in one process: keys, server, streams,
// gateway, projections. Start takes a folder of definitions and a state folder,
// and keeps state only there. [ContractFacts] and [ContractMonitor] collect
// evidence that the roles of a mesh keep their contracts; package contract
// judges it.
//
// # The journey of one question
//
//  1. A clean Controller asks: it publishes on
//     bcp.v1.ask.<controller>.<reader>. The server allows it only its own name
//     in that subject ([subjects.Permissions]).
//  2. The gateway decides the ask ([state.State.DecideAsk]): is it
//     well-formed, is there a channel, is the category allowed, does the spec
//     compile, is it an escalation, does the budget cover the price? An
//     accepted ask reserves the price.
//  3. The decision is recorded: JetStream acknowledges one journal record.
//     Until then nothing is sent ([jetstream.Journal.Append]).
//  4. The gateway releases it: the Controller gets its query id and both bit
//     counts at once, and the tainted Reader gets the query with a reply
//     subject that the gateway chose. The Reader may answer only to that
//     subject, once.
//  5. The Reader answers, honestly or not. The answer counts as an attacker's
//     bytes until [bcp.Validator.Judge] has parsed it strictly, checked it
//     against the spec, and rewritten it in canonical form.
//  6. The verdict is recorded with its charge and the sealed answer, before
//     anything is sent. An accepted answer becomes a delivery, a held one
//     waits for a person; after a rejected one the Reader gets the query again
//     until its retries are used up.
//  7. The delivery is sent to the Controller until it is acknowledged, across
//     reconnects and restarts. The acknowledgement is recorded.
//
// One function does steps 2 to 4, and again 5 to 7: step in package gateway. A
// push enters at 5, against a subscription that the operator declared.
package mesh
