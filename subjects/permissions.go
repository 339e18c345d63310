package subjects

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// RespondSlack is how much longer than the longest query_ttl an agent may
	// answer at the server. The gateway, not the server, decides about the TTL.
	RespondSlack = time.Minute
	// MinRespondFor is the minimum time that the server gives an agent to
	// answer a query or acknowledge a delivery.
	MinRespondFor = 15 * time.Minute
)

// Scope is everything that one agent or person may do on NATS in one role. It
// grants only what is in its lists; the zero value grants nothing.
type Scope struct {
	Agent bcp.AgentName
	Role  bcp.Role
	// PubAllow and SubAllow are the only subjects that may be published and
	// subscribed to: sorted, without duplicates. An empty list allows nothing,
	// and must be compiled to a refusal of everything (NATS treats an empty
	// list as permission).
	PubAllow, SubAllow []string
	// Respond says that one message may be published to the reply subject of
	// each received message, within RespondFor. RespondFor is zero if Respond
	// is false.
	Respond    bool
	RespondFor time.Duration
	// MaxSubscriptions bounds the subscriptions of one connection, so that an
	// agent cannot fill the server's memory.
	MaxSubscriptions int
	// MaxPayload bounds a published message, in bytes; zero leaves it to the
	// server. A Reader's is the largest answer that any spec of its mesh can
	// ask for: more is only useful for flooding.
	MaxPayload int
}

// maxSubscriptions is far above what a client of the mesh needs: an inbox and
// one or two patterns.
const maxSubscriptions = 128

// Permissions derives all scopes of a mesh, sorted by agent, then role: one for each
// agent and role, one for the keeper of each agent that has one, one for each Approver
// and Auditor, and the operator's. An agent with an invalid name or without a role gets
// none, so it cannot connect; neither does a kernel.
//
// A Reader may publish only its declared push subjects, a Controller only the
// asks of its channels and its session (SUB-9, BCP-7, BCP-10). The permissions
// of a channel depend only on the definitions of both its ends (PROTOCOL P1.4,
// P1.5).
func Permissions(mesh *bcp.Mesh) []Scope {
	var scopes []Scope
	asks, answers := make(map[bcp.AgentName][]*bcp.Channel), make(map[bcp.AgentName][]*bcp.Channel)
	kernels := make(map[bcp.AgentName]bool, len(mesh.Kernels))
	for i := range mesh.Kernels {
		kernels[mesh.Kernels[i].Kernel] = true
	}
	for i := range mesh.Channels {
		c := &mesh.Channels[i]
		if kernels[c.Reader] {
			continue // it says what runs came to, and answers no queries
		}
		asks[c.Controller], answers[c.Reader] = append(asks[c.Controller], c), append(answers[c.Reader], c)
	}
	runs := make(map[bcp.AgentName][]string)
	for i := range mesh.Kernels {
		for _, r := range mesh.Kernels[i].Runs {
			runs[r.Requester] = append(runs[r.Requester], Run(r.Requester, mesh.Kernels[i].Kernel, r.Grant))
		}
	}
	shows := mesh.RolesRequired()
	maxAnswer := mesh.MaxAnswerBytes()
	for _, a := range mesh.Agents {
		if agent(a.Name) == "" || kernels[a.Name] { // the gateway itself is the kernel
			continue
		}
		if a.Controller {
			scopes = append(scopes, controllerScope(a.Name, asks[a.Name], roles(a.Name, shows, runs[a.Name])))
		}
		if a.Reader {
			scopes = append(scopes, readerScope(a.Name, answers[a.Name], roles(a.Name, shows, nil), maxAnswer))
		}
		if a.Kept() {
			scopes = append(scopes, keeperScope(mesh, &a))
		}
	}
	scopes = append(scopes, kernelScopes(mesh)...)
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

// roles adds the subjects on which an agent proves its roles, if it must, and asks
// about those of others.
func roles(name bcp.AgentName, shows map[bcp.AgentName]bool, publish []string) []string {
	if !shows[name] {
		return publish
	}
	return append(publish[:len(publish):len(publish)], RolesOf(name))
}

func controllerScope(name bcp.AgentName, channels []*bcp.Channel, more []string) Scope {
	publish := append([]string{Session(name)}, more...)
	for _, c := range channels {
		publish = append(publish, Ask(name, c.Reader))
	}
	s := scope(name, bcp.RoleController, publish, DeliveriesOf(bcp.RoleController, name))
	s.Respond, s.RespondFor = true, respondFor(channels)
	return s
}

func readerScope(name bcp.AgentName, channels []*bcp.Channel, publish []string, maxAnswer int) Scope {
	for _, c := range channels {
		for _, sub := range c.Subscriptions {
			publish = append(publish, Push(name, c.Controller, sub.ID))
		}
	}
	s := scope(name, bcp.RoleReader, publish, QueriesOf(name), DeliveriesOf(bcp.RoleReader, name))
	s.Respond, s.RespondFor = true, respondFor(channels)
	if s.MaxPayload = maxAnswer; slices.Contains(publish, RolesOf(name)) {
		s.MaxPayload = max(maxAnswer, bcp.MaxRoleMessage)
	}
	return s
}

// kernelScopes are of those who serve kernels: planners and tool services may only
// answer, and a dispatcher may publish the one subject of its call.
func kernelScopes(mesh *bcp.Mesh) (scopes []Scope) {
	for i := range mesh.Kernels {
		k := &mesh.Kernels[i]
		planner := scope(k.Planner, bcp.RolePlanner, nil, PlansOf(k.Planner))
		planner.MaxPayload = MaxPlan
		scopes = append(scopes, planner)
		if k.SubPlanner != "" {
			sub := scope(k.SubPlanner, bcp.RoleSubplanner, nil, SubplansOf(k.SubPlanner))
			sub.MaxPayload = MaxPlan
			scopes = append(scopes, sub)
		}
		for _, call := range k.Calls {
			tool := scope(call.Service, bcp.RoleTool, nil, CallsOf(call.Service), ServiceRequests)
			tool.MaxPayload = MaxOutcome
			d := scope(Dispatcher(k.Kernel, call.Service, call.Tool), bcp.RoleDispatcher, []string{Call(call.Service, call.Tool, k.Kernel)})
			scopes = append(scopes, tool, d)
		}
	}
	for i := range scopes {
		if scopes[i].Role != bcp.RoleDispatcher {
			scopes[i].Respond, scopes[i].RespondFor = true, MinRespondFor+RespondSlack
		}
	}
	return scopes
}

const (
	// MaxPlan is the maximum message size of a planner in bytes, and MaxOutcome that of
	// a tool.
	MaxPlan    = 512 << 10
	MaxOutcome = 512 << 10
	// ServiceRequests are the discovery requests of NATS services. Nobody may publish
	// them.
	ServiceRequests = "$SRV.>"
)

// Dispatcher returns the name of the dispatcher that calls a tool for a kernel.
func Dispatcher(kernel, service bcp.AgentName, tool string) bcp.AgentName {
	sum := sha256.Sum256([]byte(string(kernel) + "\x00" + string(service) + "\x00" + tool))
	return bcp.AgentName("call-" + hex.EncodeToString(sum[:16]))
}

// keeperScope lets a keeper ask and do nothing else: it gets none of the agent's
// messages.
func keeperScope(mesh *bcp.Mesh, a *bcp.Agent) Scope {
	var publish []string
	ofServer := func(tool string) bool {
		server, _ := mesh.MCPTool(tool)
		return server != nil
	}
	// The keeper of a model with tools of MCP servers also reports its refusals.
	if len(a.Egress.Hosts) > 0 || a.Builtin && slices.ContainsFunc(a.Tools, ofServer) {
		publish = append(publish, Egress(a.Name))
	}
	if a.AsksModel() {
		publish = append(publish, Usage(a.Name))
	}
	s := scope(a.Name, bcp.RoleKeeper, publish)
	s.MaxPayload = bcp.MaxEgressMessage
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
		if e.Way == Service && slices.Contains(e.Roles, bcp.RoleAuditor) {
			publish = append(publish, e.Local)
		}
	}
	for _, act := range bcp.AuditorActs() {
		publish = append(publish, Control(act))
	}
	return scope(name, bcp.RoleAuditor, publish, Alerts())
}

// operatorScope is for the owner of the state folder, and so of the keys: it
// grants only what the owner could also do by editing the definitions, or read
// in the folder itself.
func operatorScope() Scope {
	publish := []string{AuditPrefix + ".DIRECT.GET." + JournalStream}
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

// respondFor is how long an agent of these channels may respond (PROTOCOL P9.5).
func respondFor(channels []*bcp.Channel) time.Duration {
	longest := MinRespondFor
	for _, c := range channels {
		longest = max(longest, c.QueryTTL)
	}
	return longest + RespondSlack
}
