package contract

import (
	"slices"
	"strings"
)

// Agent describes one agent of a mesh as far as roles go. The caller fills it in from
// definitions.
type Agent struct {
	Name string
	// Declared is the role of its execution entry, or none.
	Declared Role
	// Type is the type of an orchestrator.
	Type string
	// Contract is the name of the contract of its execution entry, or empty.
	Contract string
	// Kernel says which agents it asks, if its file defines a kernel.
	Kernel *Kernel
	// Channels says that it is an end of a channel.
	Channels bool
	// Tools are those that it may use beyond the protocol's own.
	Tools []string
	// Command is what the mesh starts it by; empty: it is started elsewhere.
	Command []string
}

// Kernel is what a kernel asks: agents by name. SubPlanner may be empty.
type Kernel struct {
	Planner, SubPlanner string
	Processors          []string // the Readers of its schemas
}

// RoleCode says what is wrong with the roles of agents.
type RoleCode string

// What [CheckAgents] refuses. The last one is a warning.
const (
	TwoRoles            RoleCode = "two_roles"    // an agent has two roles
	NoKernel            RoleCode = "no_kernel"    // an orchestrator defines no kernel
	UnknownType         RoleCode = "unknown_type" // of an orchestrator
	PlannerHasChannel   RoleCode = "planner_has_channel"
	PlannerHasTools     RoleCode = "planner_has_tools"
	ProcessorHasTools   RoleCode = "processor_has_tools" // beyond the protocol's
	UnknownContract     RoleCode = "unknown_contract"
	ContractOfOtherRole RoleCode = "contract_of_other_role"
	SameCommand         RoleCode = "same_command" // planner and processor are one program
)

// RoleProblem is one thing that is wrong with the roles of agents.
type RoleProblem struct {
	Code  RoleCode
	Agent string
	// Other is what it is about as well: an agent, a contract, or words.
	Other string
}

// DeterministicInterpreter is the type of this mesh's orchestrators.
const DeterministicInterpreter = "deterministic_interpreter"

// CheckAgents returns what is wrong with the roles of the agents of one mesh, in the
// order of the agents. Names of agents are unique. Contracts are those that the mesh
// has, by name.
func CheckAgents(agents []Agent, contracts map[string]Contract) []RoleProblem {
	c := checker{agents: agents, contracts: contracts, plays: RolesOf(agents)}
	for i := range agents {
		c.check(i)
	}
	c.commands()
	return c.problems
}

// RolesOf returns the roles that each agent has, by its own entry and by the kernels
// that ask it. None is allowed to have two.
func RolesOf(agents []Agent) [][]Role {
	plays := make([][]Role, len(agents))
	index := map[string]int{}
	for i, a := range agents {
		index[a.Name] = i
	}
	play := func(name string, role Role) {
		if i, ok := index[name]; ok && !slices.Contains(plays[i], role) {
			plays[i] = append(plays[i], role)
		}
	}
	for _, a := range agents {
		if a.Declared.hasContract() {
			play(a.Name, a.Declared)
		}
		if a.Kernel == nil {
			continue
		}
		play(a.Name, Orchestrator)
		play(a.Kernel.Planner, Planner)
		for _, name := range slices.Concat(a.Kernel.Processors, []string{a.Kernel.SubPlanner}) {
			play(name, Processor)
		}
	}
	return plays
}

type checker struct {
	agents    []Agent
	contracts map[string]Contract
	plays     [][]Role
	problems  []RoleProblem
}

func (c *checker) add(code RoleCode, agent, other string) {
	c.problems = append(c.problems, RoleProblem{code, agent, other})
}

func (c *checker) check(i int) {
	a, plays := c.agents[i], c.plays[i]
	is := func(role Role) bool { return slices.Contains(plays, role) }
	tools := strings.Join(a.Tools, ", ")
	for _, rule := range []struct {
		broken bool
		code   RoleCode
		other  string
	}{
		{len(plays) > 1, TwoRoles, joinRoles(plays)},
		{a.Declared == Orchestrator && a.Kernel == nil, NoKernel, ""},
		{a.Declared == Orchestrator && a.Type != DeterministicInterpreter, UnknownType, ""},
		{is(Planner) && a.Channels, PlannerHasChannel, ""},
		{is(Planner) && len(a.Tools) > 0, PlannerHasTools, tools},
		{is(Processor) && len(a.Tools) > 0, ProcessorHasTools, tools},
	} {
		if rule.broken {
			c.add(rule.code, a.Name, rule.other)
		}
	}
	c.contract(a)
}

func (c *checker) contract(a Agent) {
	if a.Contract == "" {
		return
	}
	switch found, ok := c.contracts[a.Contract]; {
	case !ok:
		c.add(UnknownContract, a.Name, a.Contract)
	case found.Role != a.Declared:
		c.add(ContractOfOtherRole, a.Name, a.Contract)
	}
}

// commands warns if a planner and another agent, a processor, are one program: one
// model would read the task and the content.
func (c *checker) commands() {
	planners := map[string]string{}
	for i, a := range c.agents {
		if key := strings.Join(a.Command, "\x00"); key != "" && slices.Contains(c.plays[i], Planner) {
			planners[key] = a.Name
		}
	}
	for i, a := range c.agents {
		planner, same := planners[strings.Join(a.Command, "\x00")]
		if same && planner != a.Name && slices.Contains(c.plays[i], Processor) {
			c.add(SameCommand, planner, a.Name)
		}
	}
}

func joinRoles(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}
