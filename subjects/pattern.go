package subjects

import "github.com/bcpmesh/bcpmesh/bcp"

// All returns the pattern of every subject of a kind, which the gateway
// subscribes to and a stream captures. It returns the empty string for an
// invalid kind.
func All(k Kind) string {
	switch k {
	case KindAsk, KindQuery, KindApproval, KindLedger, KindPlan, KindSubplan, KindRole:
		return join(k, "*", "*")
	case KindPush, KindDeliver, KindAudit, KindRun, KindCall:
		return join(k, "*", "*", "*")
	case KindReply:
		return join(k, "*", "*", ">")
	case KindSession, KindCommit, KindEgress, KindUsage:
		return join(k, "*")
	case KindKey:
		return join(k, "*", "*", "*", "*")
	}
	return ""
}

// AsksOf returns the pattern of all asks of a Controller.
func AsksOf(controller bcp.AgentName) string { return join(KindAsk, agent(controller), "*") }

// PushesOf returns the pattern of all pushes of a Reader.
func PushesOf(reader bcp.AgentName) string { return join(KindPush, agent(reader), "*", "*") }

// RepliesOf returns the pattern of all answers and acknowledgements of an
// agent in a role.
func RepliesOf(r bcp.Role, name bcp.AgentName) string {
	return join(KindReply, answering(r), agent(name), ">")
}

// Replies returns the pattern of all answers and acknowledgements of agents in a role.
func Replies(r bcp.Role) string { return join(KindReply, answering(r), ">") }

// DeliveriesTo returns the pattern of all deliveries to agents in a role.
func DeliveriesTo(r bcp.Role) string { return tree(KindDeliver, r) }

// RunsOf returns the pattern of all runs that a requester may start.
func RunsOf(requester bcp.AgentName) string { return join(KindRun, agent(requester), "*", "*") }

// RolesOf returns the pattern of all requests of an agent about roles.
func RolesOf(asker bcp.AgentName) string { return join(KindRole, agent(asker), "*") }

// PlansOf returns the pattern of all requests to a planner.
func PlansOf(planner bcp.AgentName) string { return join(KindPlan, agent(planner), ">") }

// SubplansOf returns the pattern of all requests to a sub-planner.
func SubplansOf(planner bcp.AgentName) string { return join(KindSubplan, agent(planner), ">") }

// CallsOf returns the pattern of all calls of a tool service.
func CallsOf(service bcp.AgentName) string { return join(KindCall, agent(service), ">") }

// ApprovalsOf returns the pattern of all requests of an Approver.
func ApprovalsOf(approver bcp.AgentName) string { return join(KindApproval, agent(approver), "*") }

// QueriesOf returns the pattern of all queries to a Reader.
func QueriesOf(reader bcp.AgentName) string { return join(KindQuery, agent(reader), ">") }

// DeliveriesOf returns the pattern of all deliveries to an agent in a role.
func DeliveriesOf(r bcp.Role, name bcp.AgentName) string {
	return join(KindDeliver, role(r), agent(name), ">")
}

// KeysOf returns the pattern of all sealing keys of one kind of a channel, or of
// the decisions without one; then also of [Expiry].
func KeysOf(controller, reader bcp.AgentName, s Sealed) string {
	return join(KindKey, agentOrNone(controller), agentOrNone(reader), sealed(s), "*")
}

// AllKeys returns the pattern of all sealing keys of one kind, and of its [Expiry].
func AllKeys(s Sealed) string { return join(KindKey, "*", "*", sealed(s), "*") }

// AuditOf returns the pattern of the audit records of a channel, of one kind,
// or of both; an empty part matches anything.
func AuditOf(controller, reader bcp.AgentName, kind string) string {
	c, r, e := "*", "*", "*"
	if controller != "" || reader != "" {
		c, r = agent(controller), agent(reader)
	}
	if kind != "" {
		e = event(kind)
	}
	return join(KindAudit, c, r, e)
}

// InboxesOf returns the pattern of all inboxes of an agent.
func InboxesOf(name bcp.AgentName) string {
	prefix := InboxPrefix(name)
	if prefix == "" {
		return ""
	}
	return prefix + ".>"
}
