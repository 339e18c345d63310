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

// Way is how an export's messages travel between agents and the gateway. The zero
// value is invalid.
type Way uint8

// The ways.
const (
	// ToAgents is a stream of the gateway's account.
	ToAgents Way = 1
	// ToGateway is a stream of the accounts of agents: the gateway sees the reply subject
	// that the sender chose. A service would hide it, and send the answer there.
	ToGateway Way = 2
	// Service is for requests whose sender's key has to be known, and for those that
	// the server itself answers.
	Service Way = 3
)

// Export is a way between the gateway's account and those of some roles. Agents can
// reach the gateway only through these.
type Export struct {
	// Subject is the pattern in the gateway's account, Local its name in the accounts of
	// agents; they differ only for inboxes and for reading streams.
	Subject, Local string
	Way            Way
	// ManyReplies: one request to a service has many replies.
	ManyReplies bool
	// Dispatched: the dispatchers' account exports it, not the gateway's.
	Dispatched bool
	// Identify: the server adds a header with the sender's authenticated user key
	// to each request to a service, and overwrites a forged one, where a key is
	// accountable. For others the subject identifies the sender.
	Identify bool
	// Roles are the roles that import it.
	Roles []bcp.Role
}

// Exports returns all openings. Answers of the gateway to requests are in the inboxes
// of agents, which are streams of its account too ([Answer]).
func Exports() []Export {
	readers, controllers := []bcp.Role{bcp.RoleReader}, []bcp.Role{bcp.RoleController}
	exports := []Export{
		{Subject: tree(KindAsk), Way: ToGateway, Roles: controllers},
		{Subject: tree(KindSession), Way: ToGateway, Roles: controllers},
		{Subject: tree(KindPush), Way: ToGateway, Roles: readers},
		{Subject: tree(KindEgress), Way: ToGateway, Roles: []bcp.Role{bcp.RoleKeeper}},
		{Subject: tree(KindUsage), Way: ToGateway, Roles: []bcp.Role{bcp.RoleKeeper}},
		{Subject: tree(KindApproval), Way: Service, Identify: true, Roles: []bcp.Role{bcp.RoleApprover}},
		{Subject: tree(KindControl), Way: ToGateway, Roles: []bcp.Role{bcp.RoleOperator}},
		{Subject: tree(KindReply, bcp.RoleReader), Way: ToGateway, Roles: readers},
		{Subject: tree(KindReply, bcp.RoleController), Way: ToGateway, Roles: controllers},
		{Subject: tree(KindRun), Way: ToGateway, Roles: controllers},
		{Subject: tree(KindRole), Way: Service, Identify: true, Roles: []bcp.Role{bcp.RoleController, bcp.RoleReader}},
		{Subject: tree(KindPlan), Way: ToAgents, Roles: []bcp.Role{bcp.RolePlanner}},
		{Subject: join(KindReply, answering(bcp.RolePlanner), ">"), Way: ToGateway, Roles: []bcp.Role{bcp.RolePlanner}},
		{Subject: tree(KindSubplan), Way: ToAgents, Roles: []bcp.Role{bcp.RoleSubplanner}},
		{Subject: join(KindReply, answering(bcp.RoleSubplanner), ">"), Way: ToGateway, Roles: []bcp.Role{bcp.RoleSubplanner}},
		{Subject: tree(KindCall), Way: ToAgents, Dispatched: true, Roles: []bcp.Role{bcp.RoleTool}},
		{Subject: join(KindReply, answering(bcp.RoleTool), ">"), Way: ToGateway, Roles: []bcp.Role{bcp.RoleTool}},
		{Subject: tree(KindQuery), Way: ToAgents, Roles: readers},
		{Subject: tree(KindDeliver, bcp.RoleReader), Way: ToAgents, Roles: readers},
		{Subject: tree(KindDeliver, bcp.RoleController), Way: ToAgents, Roles: controllers},
		{Subject: tree(KindAlert), Way: ToAgents, Roles: []bcp.Role{bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator}},
	}
	for i := range exports {
		exports[i].Local = exports[i].Subject
	}
	people := []bcp.Role{bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator}
	for _, roles := range [][]bcp.Role{controllers, readers, {bcp.RoleKeeper}, people} {
		exports = append(exports, Export{Subject: AnswersOf(roles[0], ""), Local: inboxes + "*.>", Way: ToAgents, Roles: roles})
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
		Way: Service, ManyReplies: many, Roles: []bcp.Role{role},
	}
}

func tree(k Kind, roles ...bcp.Role) string {
	tokens := make([]string, 0, 2)
	for _, r := range roles {
		tokens = append(tokens, role(r))
	}
	return join(k, append(tokens, ">")...)
}
