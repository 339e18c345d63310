package subjects

import (
	"cmp"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// inboxes begins every inbox of an agent, in its own account. In the gateway's account
// it is below answers, with the role.
const (
	inboxes = "_INBOX."
	answers = root + "inbox."
)

// Answer returns the gateway's subject for answering a request of an agent or a person in
// a role, whose message names reply. It is empty unless reply is in an inbox of just that
// sender: the server does not check reply subjects, and those of a role share an account.
func Answer(r bcp.Role, name bcp.AgentName, reply string) string {
	if answered(r) == "" {
		return ""
	}
	return answerTo(answers+answered(r)+"."+string(name), InboxPrefix(name), reply)
}

func answerTo(subject, inbox, reply string) string {
	rest, own := strings.CutPrefix(reply, inbox+".")
	if inbox == "" || !own || len(reply) > maxSubject || !ValidLiteral(rest) {
		return ""
	}
	return subject + "." + rest
}

// AnswersOf returns the pattern of [Answer] for an agent or a person, or for all who ask
// in a role if name is empty.
func AnswersOf(r bcp.Role, name bcp.AgentName) string {
	if token := cmp.Or(agent(name), "*"); answered(r) != "" && (name == "" || token != "*") {
		return answers + answered(r) + "." + token + ".>"
	}
	return ""
}

// InboxOwner returns whose inbox a subject is in, or the empty string.
func InboxOwner(subject string) bcp.AgentName {
	rest, ok := strings.CutPrefix(subject, inboxes)
	name, _, more := strings.Cut(rest, ".")
	if !ok || !more {
		return ""
	}
	return bcp.AgentName(agent(bcp.AgentName(name)))
}

// answered is the token of the roles that get answers. A person has one inbox in all
// roles.
func answered(r bcp.Role) string {
	switch r {
	case bcp.RoleController, bcp.RoleReader, bcp.RoleKeeper:
		return r.String()
	case bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator:
		return "person"
	}
	return ""
}

// Identified reports whether requests on a subject go to a service that adds the
// sender's key. The gateway does not see their reply subject: the header
// [bcp.ReplyHeader] has to name it too.
func Identified(subject string) bool {
	return Match(tree(KindApproval), subject) || Match(tree(KindRole), subject)
}
