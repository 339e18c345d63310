// Package agents is the SDK for the agents of a mesh: what a Controller, a
// Reader, an Approver, an Auditor or an Operator links against. It speaks the same subjects
// and messages as a plain NATS client with the agent's creds would, and adds
// what is tedious to get right by hand: reconnects, retries that never charge
// twice, answers sent again, acknowledgements, deduplication, and refusal of
// messages with another agent's reply subject.
//
// An agent connects once for each of its roles, since creds are per agent and
// role, and makes one client on that connection:
//
//	Connect     a connection of our own, which reconnects for ever
//	Use         a connection of the caller's, which is never closed here
//	Controller  asks Readers and gets deliveries
//	Reader      answers queries and pushes against subscriptions
//	Approver    decides about what waits for a person
//	Auditor     reads the audit and the ledger
//	Operator    looks after the mesh
//	Requester   starts runs of kernels and waits for their ends
//	Planner     answers the plan requests of kernels
//	Tool        does the calls of kernels
//
// The Examples of [Controller] and [Reader] are the shortest correct uses.
//
// New functions start nothing. A Controller that only asks and a Reader that
// only pushes need no Start; whoever wants deliveries or queries calls Start
// and, at the end, Stop, which waits for every goroutine. Handlers get a
// context that ends with the context of Start, or when the one of Stop does.
// All methods may be called concurrently.
//
// What a Controller gets is validated and normalised by the gateway (PROTOCOL
// P3), but it is still data and no instruction: never put it where an agent
// takes orders from.
//
// Agents with cron_schedules are prompted ([Controller.OnPrompt],
// [Reader.OnPrompt]); people hear alerts ([Connection.OnAlert]).
//
// Do not use the package in a gateway, and do not share one connection between
// roles.
package agents
