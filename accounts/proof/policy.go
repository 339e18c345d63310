package proof

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Policy is the rule for a set of claims. The zero value trusts only parties
// that connect inside the server's process, and allows only the subjects of a
// mesh as paths to them.
type Policy struct {
	// Trusted names principals or accounts (by name or public key) that are not
	// agents.
	Trusted []string
	// Through are patterns that every agent may use to and from the accounts of
	// trusted parties, in addition to the subjects of a mesh.
	Through []string
}

// identity is an agent in a role, from the name of its scope. Other names have
// no identity, and so no subjects of the mesh.
type identity struct {
	role   bcp.Role
	agent  bcp.AgentName
	joiner bool // holds an invitation, and is no agent yet
}

func parseIdentity(name string) identity {
	if name == subjects.Joiner {
		return identity{joiner: true}
	}
	agent, role, _ := subjects.ParseUserName(name)
	return identity{role: role, agent: agent}
}

func (i identity) person() bool {
	return i.role == bcp.RoleApprover || i.role == bcp.RoleAuditor || i.role == bcp.RoleOperator
}

// answers returns where an agent may reply to the gateway, which uses no other
// reply subjects.
func (i identity) answers() []region {
	p := parsePattern(subjects.RepliesOf(i.role, i.agent))
	if p == nil {
		return nil
	}
	return []region{{pattern: p}}
}

// entrances returns the subjects on which an agent may reach the gateway and
// the streams: those with its own name, and for people those of their role.
func (i identity) entrances() []pattern {
	if i.joiner {
		return parsePatterns([]string{subjects.Joins})
	}
	list := []string{subjects.RepliesOf(i.role, i.agent)}
	switch i.role {
	case bcp.RoleReader:
		list = append(list, subjects.PushesOf(i.agent), subjects.RolesOf(i.agent))
	case bcp.RoleController:
		list = append(list, subjects.AsksOf(i.agent), subjects.Session(i.agent), subjects.RunsOf(i.agent), subjects.RolesOf(i.agent))
	case bcp.RoleKeeper:
		list = append(list, subjects.Egress(i.agent), subjects.Usage(i.agent))
	case bcp.RoleDispatcher: // it gets no answers
		list = nil
	case bcp.RoleApprover:
		list = append(list, subjects.ApprovalsOf(i.agent))
	case bcp.RoleAuditor, bcp.RoleOperator:
		for _, e := range subjects.Exports() {
			if e.Way != subjects.ToAgents && slices.Contains(e.Roles, i.role) {
				list = append(list, e.Subject)
			}
		}
	}
	if i.role == bcp.RoleAuditor {
		for _, act := range bcp.AuditorActs() {
			list = append(list, subjects.Control(act))
		}
	}
	return parsePatterns(list)
}

// gatewaySubjects returns the subjects on which the gateway sends to this agent.
func (i identity) gatewaySubjects() []pattern {
	if i.joiner {
		return parsePatterns([]string{subjects.JoinAnswers})
	}
	list := []string{subjects.DeliveriesOf(i.role, i.agent), subjects.AnswersOf(i.role, i.agent)}
	switch i.role {
	case bcp.RoleReader:
		list = append(list, subjects.QueriesOf(i.agent))
	case bcp.RolePlanner:
		list = append(list, subjects.PlansOf(i.agent))
	case bcp.RoleSubplanner: // asks nothing, in the account of Readers
		list = append(list, subjects.SubplansOf(i.agent), subjects.AnswersOf(bcp.RoleReader, i.agent))
	case bcp.RoleTool:
		list = append(list, subjects.CallsOf(i.agent), subjects.ServiceRequests)
	case bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator:
		list = append(list, subjects.Alerts())
	}
	return parsePatterns(list)
}

// Subjects that are not for agents, by their destination.
var (
	systemSubjects = []pattern{{"$SYS", anyTail}}
	streamSubjects = append([]pattern{{"$JS", anyTail}, {"$KV", anyTail}, {"$O", anyTail}, {"$MQTT", anyTail}}, parsePatterns([]string{
		subjects.All(subjects.KindCommit), subjects.All(subjects.KindKey), subjects.All(subjects.KindAudit),
		subjects.All(subjects.KindLedger),
	})...)
)
