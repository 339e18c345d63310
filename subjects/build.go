package subjects

import (
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Each builder returns the empty string where one of its parts is not valid.

// Ask returns where a Controller asks about a Reader.
func Ask(controller, reader bcp.AgentName) string {
	return Subject{Kind: KindAsk, Controller: controller, Reader: reader}.String()
}

// Query returns where the gateway sends a Reader the query of a Controller.
func Query(reader, controller bcp.AgentName) string {
	return Subject{Kind: KindQuery, Controller: controller, Reader: reader}.String()
}

// Push returns where a Reader pushes against a subscription of a Controller.
func Push(reader, controller bcp.AgentName, subscription bcp.SubscriptionID) string {
	return Subject{Kind: KindPush, Controller: controller, Reader: reader, Subscription: subscription}.String()
}

// Deliver returns where the gateway sends an agent, in its role, a message
// about a peer: the other end of a channel, or [bcp.Gateway].
func Deliver(role bcp.Role, agent, peer bcp.AgentName) string {
	return Subject{Kind: KindDeliver, Role: role, Agent: agent, Peer: peer}.String()
}

// ReplyReader returns where a Reader answers a query. Attempt 0 is the first;
// each later one has a subject of its own (PROTOCOL P9.5).
func ReplyReader(reader bcp.AgentName, query bcp.QueryID, attempt int) string {
	return Subject{Kind: KindReply, Role: bcp.RoleReader, Agent: reader, ID: string(query), Attempt: attempt}.String()
}

// ReplyController returns where a Controller acknowledges the first sending of
// a delivery.
func ReplyController(controller bcp.AgentName, delivery bcp.DeliveryID) string {
	return ReplyDelivery(bcp.RoleController, controller, delivery)
}

// ReplyDelivery returns where an agent in either role acknowledges the first
// sending of a delivery.
func ReplyDelivery(role bcp.Role, agent bcp.AgentName, delivery bcp.DeliveryID) string {
	return ReplyAttempt(role, agent, delivery, 0)
}

// ReplyAttempt returns where an agent in either role acknowledges one sending
// of a delivery; attempt 0 is the first. Each sending needs a subject of its
// own: to a server, a second message with the same reply subject uses up the
// one reply that the first had allowed. Agents acknowledge where the message
// says, and take no reply subject that is not theirs.
func ReplyAttempt(role bcp.Role, agent bcp.AgentName, delivery bcp.DeliveryID, attempt int) string {
	return Subject{Kind: KindReply, Role: role, Agent: agent, ID: string(delivery), Attempt: attempt}.String()
}

// Session returns where a Controller opens and closes sessions and reports
// taint.
func Session(controller bcp.AgentName) string {
	return Subject{Kind: KindSession, Controller: controller}.String()
}

// Approval returns where an Approver sends one of the [Verbs].
func Approval(approver bcp.AgentName, verb Verb) string {
	return Subject{Kind: KindApproval, Agent: approver, Verb: verb}.String()
}

// Egress returns where an agent's keeper asks for what it sends out.
func Egress(name bcp.AgentName) string { return Subject{Kind: KindEgress, Agent: name}.String() }

// Role returns where an agent of another organisation asks about the roles of an agent:
// of itself, to be judged, or of another, to judge it.
func Role(asker, about bcp.AgentName) string {
	return Subject{Kind: KindRole, Agent: asker, Peer: about}.String()
}

// Usage returns where an agent's keeper asks for calls of its model.
func Usage(name bcp.AgentName) string { return Subject{Kind: KindUsage, Agent: name}.String() }

// Run returns where a requester starts a run of a kernel with one of its grants.
func Run(requester, kernel bcp.AgentName, grant string) string {
	return Subject{Kind: KindRun, Agent: requester, Kernel: kernel, Grant: grant}.String()
}

// Plan returns where the gateway asks a planner for a kernel.
func Plan(planner, kernel bcp.AgentName) string {
	return Subject{Kind: KindPlan, Agent: planner, Kernel: kernel}.String()
}

// Subplan returns where it asks a sub-planner.
func Subplan(planner, kernel bcp.AgentName) string {
	return Subject{Kind: KindSubplan, Agent: planner, Kernel: kernel}.String()
}

// Call returns where a dispatcher calls a tool of a service for a kernel.
func Call(service bcp.AgentName, tool string, kernel bcp.AgentName) string {
	return Subject{Kind: KindCall, Agent: service, Tool: tool, Kernel: kernel}.String()
}

// ReplyPlanner returns where a planner, or a sub-planner, answers one sending of a
// request; attempt 0 is the first.
func ReplyPlanner(role bcp.Role, planner bcp.AgentName, request string, attempt int) string {
	return Subject{Kind: KindReply, Role: role, Agent: planner, ID: request, Attempt: attempt}.String()
}

// ReplyTool returns where a tool service answers one attempt of a call.
func ReplyTool(service bcp.AgentName, call string, attempt int) string {
	return Subject{Kind: KindReply, Role: bcp.RoleTool, Agent: service, ID: call, Attempt: attempt}.String()
}

// Control returns where the operator sends one of its acts.
func Control(act string) string { return Subject{Kind: KindControl, Event: act}.String() }

// Alert returns where people hear of one kind of alert.
func Alert(kind bcp.AlertKind) string {
	return Subject{Kind: KindAlert, Event: string(kind)}.String()
}

// Alerts matches every alert.
func Alerts() string { return tree(KindAlert) }

// Controls matches every act of the operator.
func Controls() string { return tree(KindControl) }

// Commit returns the journal's subject of a shard.
func Commit(shard int) string { return Subject{Kind: KindCommit, Shard: shard}.String() }

// Key returns the subject of a sealing key: of a channel, or of the decisions that
// belong to none where both names are empty.
func Key(controller, reader bcp.AgentName, sealed Sealed, day string) string {
	return Subject{Kind: KindKey, Controller: controller, Reader: reader, Sealed: sealed, Day: day}.String()
}

// Expiry returns the subject of the day up to which all sealing keys of a kind are
// destroyed.
func Expiry(sealed Sealed) string {
	return Subject{Kind: KindKey, Sealed: sealed, Expiry: true}.String()
}

// Audit returns the subject of an audit record. Controller, reader or both are
// empty where the event belongs to no channel. Event is the kind of event.
func Audit(controller, reader bcp.AgentName, event string) string {
	return Subject{Kind: KindAudit, Controller: controller, Reader: reader, Event: event}.String()
}

// Ledger returns the subject of a channel's ledger records.
func Ledger(controller, reader bcp.AgentName) string {
	return Subject{Kind: KindLedger, Controller: controller, Reader: reader}.String()
}

// InShard returns where people say to a shard what they say on subject to shard 0: it is
// the local name of what their account imports from the gateway's account of the shard.
// Agents are on one shard and know nothing of it. A shard that there cannot be gives
// the empty string.
func InShard(shard int, subject string) string {
	switch {
	case shard == 0:
		return subject
	case shard < 0 || shard > bcp.MaxShard || subject == "":
		return ""
	}
	return "shard." + strconv.Itoa(shard) + "." + subject
}

// InboxPrefix returns the prefix of an agent's own inboxes, without the dot
// behind it. Clients must set it: under narrow permissions a request with the
// default inbox times out in silence.
func InboxPrefix(name bcp.AgentName) string {
	if agent(name) == "" {
		return ""
	}
	return inboxes + string(name)
}
