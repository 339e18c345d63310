package mesh

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/mesh/supervisor"
)

// maxStatuses is how many agents one part of their list has: it has to fit a message.
const maxStatuses = 500

// Agents returns the status of at most 500 agents, beginning with from, or with the
// first if from is empty. It is for the operator; agents must not get it.
func (m *Mesh) Agents(ctx context.Context, from bcp.AgentName) (status.Agents, error) {
	def := m.Definition()
	agents, next := statusPart(def.Agents, from)
	result := status.Agents{Agents: []status.Agent{}, Next: next}
	commands := map[bcp.AgentName]supervisor.Status{}
	c := m.running.Load()
	if c != nil {
		for _, s := range c.supervisor.Status() {
			commands[s.Agent] = s
		}
	}
	connections := map[bcp.AgentName][]status.ClientConnection{}
	for _, open := range m.clients.list() {
		connections[open.Agent] = append(connections[open.Agent], open)
	}
	for i := range agents {
		a := &agents[i]
		command, started := commands[a.Name]
		if !started {
			command.State = supervisor.Stopped
		}
		status := agentStatus(a, agentRoles(def, a), connections[a.Name], command, c != nil)
		if def.IsKernel(a.Name) {
			status.NotStarted = "the gateway runs it: it is a kernel"
		}
		result.Agents = append(result.Agents, status)
	}
	now := time.Now()
	err := m.gateway.Inspect(ctx, func(s *state.State) {
		waits := s.AgentWaits()
		for i := range agents {
			a, of := &agents[i], &result.Agents[i]
			of.Waits, of.Suspended = waits[a.Name], s.Suspended(a.Name)
			if fault, since := s.ModelFault(a.Name); !since.IsZero() {
				of.Failing = &status.ModelFailing{ModelFault: fault, Since: since, Said: m.gateway.ModelSaid(a.Name)}
			}
			if tokens, usd := s.ModelUse(a.Name, now); tokens > 0 {
				of.Model = &status.ModelUse{Tokens: tokens, USD: usd, TokenBudget: a.Run.TokenBudget, CostBudget: a.Run.CostBudget}
			}
		}
	})
	if err != nil {
		return status.Agents{}, err // it may be written yet
	}
	return result, nil
}

// tellAgents is Agents on the operator's request.
func (m *Mesh) tellAgents(ctx context.Context, body []byte) (any, error) {
	c, ok := bcp.ParseControl(body)
	if !ok || c != (bcp.Control{Agent: c.Agent}) {
		return bcp.RefusalOf(bcp.Malformed), nil
	}
	return m.Agents(ctx, c.Agent)
}

// statusPart returns the agents of one part, beginning with from, and the first one of
// the next part.
func statusPart(sorted []bcp.Agent, from bcp.AgentName) (part []bcp.Agent, next bcp.AgentName) {
	first, _ := slices.BinarySearchFunc(sorted, from, func(a bcp.Agent, name bcp.AgentName) int { return cmp.Compare(a.Name, name) })
	part = sorted[first:]
	if len(part) > maxStatuses {
		return part[:maxStatuses], part[maxStatuses].Name
	}
	return part, ""
}

// agentRoles returns the roles in which an agent connects, or a service that is not one.
func agentRoles(def *bcp.Mesh, a *bcp.Agent) (roles []bcp.Role) {
	add := func(has bool, role bcp.Role) {
		if has && !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	if def.IsKernel(a.Name) {
		return nil
	}
	add(a.Controller, bcp.RoleController)
	add(a.Reader, bcp.RoleReader)
	for i := range def.Kernels {
		k := &def.Kernels[i]
		add(k.Planner == a.Name, bcp.RolePlanner)
		add(k.SubPlanner == a.Name, bcp.RoleSubplanner)
	}
	add(slices.ContainsFunc(def.Services, func(s bcp.Service) bool { return s.Name == a.Name }), bcp.RoleTool)
	return roles
}

// agentStatus collects the status of an agent that connects in these roles. supervised says that this mesh
// starts commands.
func agentStatus(a *bcp.Agent, roles []bcp.Role, open []status.ClientConnection, command supervisor.Status, supervised bool) status.Agent {
	s := status.Agent{Agent: a.Name, Roles: []status.Role{}}
	connected := false
	for _, role := range roles {
		r := status.Role{Role: role}
		for _, c := range open {
			if c.Role == role {
				r.Connections++
				r.Since = c.Since // the newest is the last
			}
		}
		connected = connected || r.Connections > 0
		s.Roles = append(s.Roles, r)
	}
	switch {
	case !a.Supervised():
		s.NotStarted = "it has no command: somebody else starts it"
	case !supervised:
		s.NotStarted = "a mesh on a cluster starts no commands"
	case a.Sandbox == "":
		s.NotStarted = "nothing confines its command, and its definition does not accept that"
	default:
		s.Command = &command.Command
	}
	switch {
	case connected:
		s.State = status.Connected
	case s.Command == nil:
		s.State = status.Away
	default:
		s.State = commandState(command)
	}
	return s
}

// commandState returns the state of an agent that is not connected, from that of its
// command.
func commandState(command supervisor.Status) status.State {
	switch command.State {
	case supervisor.Waiting:
		if command.Failures > 0 {
			return status.Crashed
		}
	case supervisor.Starting, supervisor.Running, supervisor.Resting, supervisor.Unavailable, supervisor.Stopping:
		return status.State(command.State) // their words are the same
	}
	return status.Starting // also a command in a transition that has just begun
}
