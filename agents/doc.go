// Package agents is the SDK for the agents of a mesh: what a Controller, a
// Reader, an Approver, an Auditor or an Operator links against. It uses the
// same subjects and messages as a plain NATS client with the agent's creds, and
// adds the parts that are hard to get right by hand: reconnects, retries that
// are never charged twice, resent answers, acknowledgements, deduplication, and
// refusal of messages with another agent's reply subject.
//
// Creds are per agent and role, so an agent connects once for each role and
// makes one client on that connection:
//
//	Connect     a connection of this package, which reconnects for ever
//	Controller  asks Readers and gets deliveries
//	Reader      answers queries and pushes against subscriptions
//	Approver    decides about held items
//	Auditor     reads the audit and the ledger
//	Operator    administers the mesh
//	Requester   starts runs of kernels and waits for them
//	Planner     answers the plan requests of kernels
//	Tool        performs the calls of kernels
//
// The Examples of [Controller] and [Reader] are the shortest correct uses.
//
// New functions do not start anything. A Controller that only asks and a Reader
// that only pushes need no Start. To get deliveries or queries, call Start and,
// at the end, Stop, which waits for every goroutine. The context of a handler
// ends with that of Start or Stop. All methods may be called concurrently.
//
// What a Controller gets is validated and normalised by the gateway (PROTOCOL
// P3), but it is still data, not instructions: never put it where an agent
// looks for instructions.
//
// Agents with cron_schedules are prompted ([Controller.OnPrompt],
// [Reader.OnPrompt]).
//
// Do not use the package in a gateway, and do not share one connection between
// roles.
package agents
