package subjects

import (
	"cmp"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// RespondSlack is how much longer than the longest query_ttl an agent may
	// answer at the server. The gateway, not the server, decides about the TTL.
	RespondSlack = time.Minute
	// MinRespondFor is the least time that an agent has to answer a query or
	// to acknowledge a delivery at the server.
	MinRespondFor = 15 * time.Minute
)

// Scope is everything that one agent or person may do on NATS in one role.
// It grants nothing beyond its lists; the zero value grants nothing.
type Scope struct {
	Agent bcp.AgentName
	Role  bcp.Role
	// PubAllow and SubAllow are the only subjects that may be published and
	// subscribed to: sorted, without duplicates. An empty list allows nothing,
	// and has to be compiled to a refusal of everything (NATS takes an empty
	// list for permission).
	PubAllow, SubAllow []string
	// Respond says that one message may be published to the reply subject of
	// each message received, for RespondFor after it. RespondFor is zero where
	// Respond is false.
	Respond    bool
	RespondFor time.Duration
	// MaxSubscriptions bounds the subscriptions of one connection, so that no
	// agent can fill the server's memory with them.
	MaxSubscriptions int
	// MaxPayload bounds one message that is published, in bytes; zero leaves it
	// to the server. A Reader's is the largest answer that any spec of its mesh
	// can ask for: nobody needs more but to flood.
	MaxPayload int
}

// maxSubscriptions is far above what a client of the mesh needs: an inbox and
// one or two patterns.
const maxSubscriptions = 128

// Permissions derives all scopes of a mesh, sorted by agent, then role: one
// for each agent and role, one for each Approver and Auditor, and the
// operator's. An agent whose
// name is not valid, or that has neither role, gets none: it cannot connect.
//
// A Reader may publish its declared push subjects and nothing else, a
// Controller the asks of its channels and its session (SUB-9, BCP-7, BCP-10).
// What a channel needs follows from the definitions of both its ends alone
// (PROTOCOL P1.4, P1.5).
func Permissions(mesh *bcp.Mesh) []Scope {
	var scopes []Scope
	for _, a := range mesh.Agents {
		if agent(a.Name) == "" {
			continue
		}
		if a.Controller {
			scopes = append(scopes, controllerScope(mesh, a.Name))
		}
		if a.Reader {
			scopes = append(scopes, readerScope(mesh, a.Name))
		}
	}
	for _, name := range mesh.Approvers {
		scopes = append(scopes, approverScope(name))
	}
	for _, name := range mesh.Auditors {
		scopes = append(scopes, auditorScope(name))
	}
	scopes = append(scopes, operatorScope())
	scopes = slices.DeleteFunc(scopes, func(s Scope) bool { return agent(s.Agent) == "" })
	slices.SortFunc(scopes, func(a, b Scope) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Role, b.Role))
	})
	return slices.CompactFunc(scopes, func(a, b Scope) bool { return a.Agent == b.Agent && a.Role == b.Role })
}

func controllerScope(mesh *bcp.Mesh, name bcp.AgentName) Scope {
	publish := []string{Session(name)}
	var longest time.Duration
	for _, c := range mesh.Channels {
		if c.Controller == name {
			publish = append(publish, Ask(name, c.Reader))
			longest = max(longest, c.QueryTTL)
		}
	}
	s := scope(name, bcp.RoleController, publish, DeliveriesOf(bcp.RoleController, name))
	s.Respond, s.RespondFor = true, respondFor(longest)
	return s
}

func readerScope(mesh *bcp.Mesh, name bcp.AgentName) Scope {
	var publish []string
	for _, c := range mesh.Channels {
		if c.Reader != name {
			continue
		}
		for _, sub := range c.Subscriptions {
			publish = append(publish, Push(name, c.Controller, sub.ID))
		}
	}
	s := scope(name, bcp.RoleReader, publish, QueriesOf(name), DeliveriesOf(bcp.RoleReader, name))
	s.Respond, s.RespondFor = true, respondFor(mesh.LongestTTL(name))
	s.MaxPayload = mesh.MaxAnswerBytes()
	return s
}

func approverScope(name bcp.AgentName) Scope {
	var publish []string
	for _, v := range Verbs() {
		publish = append(publish, Approval(name, v))
	}
	return scope(name, bcp.RoleApprover, publish, Alerts())
}

func auditorScope(name bcp.AgentName) Scope {
	var publish []string
	for _, e := range Exports() {
		if !e.Stream && slices.Contains(e.Roles, bcp.RoleAuditor) {
			publish = append(publish, e.Local)
		}
	}
	return scope(name, bcp.RoleAuditor, publish, Alerts())
}

// operatorScope is of whoever owns the state folder, and so the keys: it grants
// nothing that the folder's owner could not do by editing the definitions.
func operatorScope() Scope {
	var publish []string
	for _, act := range bcp.ControlActs() {
		publish = append(publish, Control(act))
	}
	return scope(bcp.Operator, bcp.RoleOperator, publish, Alerts())
}

// scope sorts the lists and drops what a builder refused, so that an invalid
// part of a hand-made mesh grants nothing.
func scope(name bcp.AgentName, role bcp.Role, publish []string, subscribe ...string) Scope {
	subscribe = append(subscribe, InboxesOf(name))
	return Scope{
		Agent: name, Role: role,
		PubAllow: list(publish), SubAllow: list(subscribe),
		MaxSubscriptions: maxSubscriptions,
	}
}

func list(subjects []string) []string {
	subjects = slices.DeleteFunc(subjects, func(s string) bool { return s == "" })
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

func respondFor(longest time.Duration) time.Duration {
	return max(longest, MinRespondFor) + RespondSlack
}
