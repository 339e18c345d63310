package subjects

import "github.com/bcpmesh/bcpmesh/bcp"

// The two streams that an Auditor may read, and the prefix that its client
// uses in place of the JetStream API's own.
const (
	AuditStream  = "BCP_AUDIT"
	LedgerStream = "BCP_LEDGER"
	AuditPrefix  = "BCPJS"
)

const apiPrefix = "$JS.API"

// Export is one opening in the wall around the gateway's account: what it
// exports, and to whom. Agents reach the gateway through these alone.
type Export struct {
	// Subject is the pattern in the gateway's account, Local its name in the
	// accounts that import it; they differ only for Auditors.
	Subject, Local string
	// Stream: messages flow from the gateway to agents. Otherwise it is a
	// service: messages flow from agents to the gateway.
	Stream bool
	// ManyReplies: one request has many replies.
	ManyReplies bool
	// Identify: the server adds to each request a header with the sender's
	// authenticated user key, and overwrites a forged one.
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
		{Subject: tree(KindPush), Identify: true, Roles: readers},
		{Subject: tree(KindApproval), Identify: true, Roles: []bcp.Role{bcp.RoleApprover}},
		{Subject: tree(KindControl), Roles: []bcp.Role{bcp.RoleOperator}},
		{Subject: tree(KindReply, bcp.RoleReader), Identify: true, Roles: readers},
		{Subject: tree(KindReply, bcp.RoleController), Roles: controllers},
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
			auditExport(".DIRECT.GET."+stream, true),
			auditExport(".DIRECT.GET."+stream+".>", true),
			auditExport(".STREAM.INFO."+stream, false),
		)
	}
	return exports
}

func auditExport(request string, many bool) Export {
	return Export{
		Subject: apiPrefix + request, Local: AuditPrefix + request,
		ManyReplies: many, Roles: []bcp.Role{bcp.RoleAuditor},
	}
}

func tree(k Kind, roles ...bcp.Role) string {
	tokens := make([]string, 0, 2)
	for _, r := range roles {
		tokens = append(tokens, role(r))
	}
	return join(k, append(tokens, ">")...)
}
