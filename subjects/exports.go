package subjects

import "github.com/bcpmesh/bcpmesh/bcp"

// The two streams that an Auditor may read, the one that the operator may read,
// and the prefix that their clients use instead of the JetStream API's own.
const (
	AuditStream   = "BCP_AUDIT"
	LedgerStream  = "BCP_LEDGER"
	JournalStream = "BCP_COMMIT"
	AuditPrefix   = "BCPJS"
)

// commitStream is the journal, from which nobody may delete.
const commitStream = "BCP_COMMIT"

const apiPrefix = "$JS.API"

// DirectGet returns the subject for reading a stream's messages from any server
// with a replica.
func DirectGet(stream string) string { return apiPrefix + ".DIRECT.GET." + stream }

// Export is an export of the gateway's account and its importers. Agents can
// reach the gateway only through these.
type Export struct {
	// Subject is the pattern in the gateway's account, Local its name in the
	// importing accounts; they differ only for reading streams.
	Subject, Local string
	// Stream: messages flow from the gateway to agents. Otherwise it is a
	// service: messages flow from agents to the gateway.
	Stream bool
	// ManyReplies: one request has many replies.
	ManyReplies bool
	// Dispatched: the dispatchers' account exports it, not the gateway's.
	Dispatched bool
	// Identify: the server adds a header with the sender's authenticated user
	// key to each request, and overwrites a forged one. It is for requests that
	// a key is accountable for; for others the subject identifies the sender.
	Identify bool
	// Roles are the roles that import it.
	Roles []bcp.Role
}

// Exports returns all openings. Queries and deliveries are streams, since a
// service would add a header with account and timing and would end with every
// change of an account.
func Exports() []Export {
	readers, controllers := []bcp.Role{bcp.RoleReader}, []bcp.Role{bcp.RoleController}
	exports := []Export{
		{Subject: tree(KindAsk), Roles: controllers},
		{Subject: tree(KindSession), Roles: controllers},
		{Subject: tree(KindPush), Roles: readers},
		{Subject: tree(KindEgress), Roles: []bcp.Role{bcp.RoleKeeper}},
		{Subject: tree(KindUsage), Roles: []bcp.Role{bcp.RoleKeeper}},
		{Subject: tree(KindApproval), Identify: true, Roles: []bcp.Role{bcp.RoleApprover}},
		{Subject: tree(KindControl), Roles: []bcp.Role{bcp.RoleOperator}},
		{Subject: tree(KindReply, bcp.RoleReader), Roles: readers},
		{Subject: tree(KindReply, bcp.RoleController), Roles: controllers},
		{Subject: tree(KindRun), Roles: controllers},
		{Subject: tree(KindRole), Identify: true, Roles: []bcp.Role{bcp.RoleController, bcp.RoleReader}},
		{Subject: tree(KindPlan), Stream: true, Roles: []bcp.Role{bcp.RolePlanner}},
		{Subject: join(KindReply, answering(bcp.RolePlanner), ">"), Roles: []bcp.Role{bcp.RolePlanner}},
		{Subject: tree(KindSubplan), Stream: true, Roles: []bcp.Role{bcp.RoleSubplanner}},
		{Subject: join(KindReply, answering(bcp.RoleSubplanner), ">"), Roles: []bcp.Role{bcp.RoleSubplanner}},
		{Subject: tree(KindCall), Stream: true, Dispatched: true, Roles: []bcp.Role{bcp.RoleTool}},
		{Subject: join(KindReply, answering(bcp.RoleTool), ">"), Roles: []bcp.Role{bcp.RoleTool}},
		{Subject: tree(KindQuery), Stream: true, Roles: readers},
		{Subject: tree(KindDeliver, bcp.RoleReader), Stream: true, Roles: readers},
		{Subject: tree(KindDeliver, bcp.RoleController), Stream: true, Roles: controllers},
		{Subject: tree(KindAlert), Stream: true, Roles: []bcp.Role{bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator}},
	}
	for i := range exports {
		exports[i].Local = exports[i].Subject
	}
	for _, stream := range []string{AuditStream, LedgerStream} {
		exports = append(exports,
			readExport(bcp.RoleAuditor, ".DIRECT.GET."+stream, true),
			readExport(bcp.RoleAuditor, ".DIRECT.GET."+stream+".>", true),
			readExport(bcp.RoleAuditor, ".STREAM.INFO."+stream, false),
		)
	}
	return append(exports, readExport(bcp.RoleOperator, ".DIRECT.GET."+JournalStream, true))
}

func readExport(role bcp.Role, request string, many bool) Export {
	return Export{
		Subject: apiPrefix + request, Local: AuditPrefix + request,
		ManyReplies: many, Roles: []bcp.Role{role},
	}
}

func tree(k Kind, roles ...bcp.Role) string {
	tokens := make([]string, 0, 2)
	for _, r := range roles {
		tokens = append(tokens, role(r))
	}
	return join(k, append(tokens, ">")...)
}
