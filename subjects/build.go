package subjects

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Each builder returns the empty string if a part is invalid.

// Ask returns the subject on which a Controller asks a Reader.
func Ask(controller, reader bcp.AgentName) string {
	return Subject{Kind: KindAsk, Controller: controller, Reader: reader}.String()
}

// Query returns the subject on which the gateway sends a Reader the query of a
// Controller.
func Query(reader, controller bcp.AgentName) string {
	return Subject{Kind: KindQuery, Controller: controller, Reader: reader}.String()
}

// Push returns the subject on which a Reader pushes against a subscription of a
// Controller.
func Push(reader, controller bcp.AgentName, subscription bcp.SubscriptionID) string {
	return Subject{Kind: KindPush, Controller: controller, Reader: reader, Subscription: subscription}.String()
}

// Deliver returns the subject on which the gateway sends an agent, in its role,
// a message about a peer: the other end of a channel, or [bcp.Gateway].
func Deliver(role bcp.Role, agent, peer bcp.AgentName) string {
	return Subject{Kind: KindDeliver, Role: role, Agent: agent, Peer: peer}.String()
}

// Reply returns the subject on which an agent in a role replies to one sending of what has
// an id: it answers a query, a request for a plan or a call, or acknowledges a delivery.
// Attempt 0 is the first sending. Each one needs its own subject (PROTOCOL P9.5): for a
// server, a second message with the same reply subject uses up the one reply that the first
// allowed. Agents reply on the message's reply subject, and ignore reply subjects of others.
func Reply[ID ~string](role bcp.Role, agent bcp.AgentName, id ID, attempt int) string {
	return Subject{Kind: KindReply, Role: role, Agent: agent, ID: string(id), Attempt: attempt}.String()
}

// Session returns the subject on which a Controller opens and closes sessions
// and reports taint.
func Session(controller bcp.AgentName) string {
	return Subject{Kind: KindSession, Controller: controller}.String()
}

// Approval returns the subject on which an Approver sends one of the [Verbs].
func Approval(approver bcp.AgentName, verb Verb) string {
	return Subject{Kind: KindApproval, Agent: approver, Verb: verb}.String()
}

// Egress returns the subject on which an agent's keeper asks for requests to the
// network.
func Egress(name bcp.AgentName) string { return Subject{Kind: KindEgress, Agent: name}.String() }

// Role returns the subject on which an agent of another organisation asks about the
// roles of an agent: of itself, to be judged, or of another, to judge it.
func Role(asker, about bcp.AgentName) string {
	return Subject{Kind: KindRole, Agent: asker, Peer: about}.String()
}

// Usage returns the subject on which an agent's keeper asks for calls of its model.
func Usage(name bcp.AgentName) string { return Subject{Kind: KindUsage, Agent: name}.String() }

// Run returns the subject on which a requester starts a run of a kernel with one of its
// grants.
func Run(requester, kernel bcp.AgentName, grant string) string {
	return Subject{Kind: KindRun, Agent: requester, Kernel: kernel, Grant: grant}.String()
}

// Plan returns the subject on which the gateway asks a planner for a kernel.
func Plan(planner, kernel bcp.AgentName) string {
	return Subject{Kind: KindPlan, Agent: planner, Kernel: kernel}.String()
}

// Subplan returns the subject on which it asks a sub-planner.
func Subplan(planner, kernel bcp.AgentName) string {
	return Subject{Kind: KindSubplan, Agent: planner, Kernel: kernel}.String()
}

// Call returns the subject on which a dispatcher calls a tool of a service for a
// kernel.
func Call(service bcp.AgentName, tool string, kernel bcp.AgentName) string {
	return Subject{Kind: KindCall, Agent: service, Tool: tool, Kernel: kernel}.String()
}

// Control returns the subject on which the operator sends one of its acts.
func Control(act string) string { return Subject{Kind: KindControl, Event: act}.String() }

// Alert returns the subject on which people get one kind of alert.
func Alert(kind bcp.AlertKind) string {
	return Subject{Kind: KindAlert, Event: string(kind)}.String()
}

// Alerts matches every alert.
func Alerts() string { return tree(KindAlert) }

// Controls matches every act of the operator.
func Controls() string { return tree(KindControl) }

// Commit returns the journal's subject.
func Commit() string { return Subject{Kind: KindCommit}.String() }

// Key returns the subject of a sealing key: of a channel, or, if both names are
// empty, of the decisions without one.
func Key(controller, reader bcp.AgentName, sealed Sealed, day string) string {
	return Subject{Kind: KindKey, Controller: controller, Reader: reader, Sealed: sealed, Day: day}.String()
}

// Expiry returns the subject of the day up to which all sealing keys of a kind are
// destroyed.
func Expiry(sealed Sealed) string {
	return Subject{Kind: KindKey, Sealed: sealed, Expiry: true}.String()
}

// Audit returns the subject of an audit record. controller, reader or both are
// empty if the event belongs to no channel. event is the kind of event.
func Audit(controller, reader bcp.AgentName, event string) string {
	return Subject{Kind: KindAudit, Controller: controller, Reader: reader, Event: event}.String()
}

// Ledger returns the subject of a channel's ledger records.
func Ledger(controller, reader bcp.AgentName) string {
	return Subject{Kind: KindLedger, Controller: controller, Reader: reader}.String()
}

// InboxPrefix returns the prefix of an agent's own inboxes, without the dot
// after it. Clients must set it: under narrow permissions a request with the
// default inbox times out silently.
func InboxPrefix(name bcp.AgentName) string {
	if agent(name) == "" {
		return ""
	}
	return inboxes + string(name)
}
