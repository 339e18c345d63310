package definition

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// readContract reads a contract, as it is: its digest is of these bytes.
func (b *builder) readContract(s *source, content []byte) {
	b.file(s, content)
	name := strings.TrimSuffix(path.Base(s.path), contractSuffix)
	_, builtin := contract.ParseBuiltin(name)
	switch _, err := bcp.ParseClientID(name); {
	case err != nil:
		s.errorf(position{}, CodeContract, "", "expected a file name of 1 to 64 letters, digits, hyphens and underscores before %s", contractSuffix)
		return
	case builtin:
		s.errorf(position{}, CodeContract, "", "there is a built-in contract of this name: give the file another")
		return
	}
	_, defects := contract.Parse(content)
	place := DefectPlaces(content)
	for _, d := range defects {
		line, column := place(d)
		s.errorf(position{line, column}, CodeContract, d.Where, "%s", d.Code.Text())
	}
	b.contracts = append(b.contracts, bcp.ContractFile{Name: name, Bytes: content})
}

// Contracts returns the contracts that a mesh has, by name: the built-in ones, and those
// of its folder.
func Contracts(m *bcp.Mesh) map[string]contract.Contract {
	contracts := map[string]contract.Contract{}
	for _, c := range contract.Builtins() {
		contracts[c.Name], _ = contract.ParseBuiltin(c.Name)
	}
	for _, c := range m.Contracts {
		if parsed, defects := contract.Parse(c.Bytes); len(defects) == 0 {
			contracts[c.Name] = parsed
		}
	}
	return contracts
}

// rolesOf returns the roles that each agent has, by its own entry and by the kernels that
// ask it. None is allowed to have two.
func rolesOf(m *bcp.Mesh) map[bcp.AgentName][]string {
	plays := map[bcp.AgentName][]string{}
	play := func(name bcp.AgentName, role string) {
		if role != "" && !slices.Contains(plays[name], role) {
			plays[name] = append(plays[name], role)
		}
	}
	for i := range m.Agents {
		a := &m.Agents[i]
		play(a.Name, a.Execution.Role)
		if k := m.Kernel(a.Name); k != nil {
			play(a.Name, string(contract.Orchestrator))
			play(k.Planner, string(contract.Planner))
			for _, name := range k.Processors {
				play(name, string(contract.Processor))
			}
		}
	}
	return plays
}

// otherTools returns what an agent can do apart from taking part in the protocol.
func otherTools(a *bcp.Agent) []string {
	tools := slices.DeleteFunc(slices.Clone(a.Tools), func(tool string) bool { return bcp.ProtocolTool(tool) != "" })
	if len(a.Egress.Hosts) > 0 {
		tools = append(tools, "network")
	}
	return tools
}

// roles refuses agents that are more than one thing, or are not what they say.
func (b *builder) roles(m *bcp.Mesh) {
	const planner, processor, orchestrator = string(contract.Planner), string(contract.Processor), string(contract.Orchestrator)
	// Who plans may be started elsewhere, without a file; a sub-planner with one is judged with its kernel.
	contracts, plays := Contracts(m), rolesOf(m)
	planners := map[string]int{} // by command
	for i, a := range b.agents {
		agent := &m.Agents[i]
		x, roles, tools, key := &agent.Execution, plays[agent.Name], strings.Join(otherTools(agent), ", "), roleKey(a)
		plans, reads := slices.Contains(roles, planner), slices.Contains(roles, processor)
		for _, rule := range []struct {
			broken   bool
			at, text string
		}{
			{len(roles) > 1, key, fmt.Sprintf("%s has two roles, %s: each needs an agent of its own", agent.Name, strings.Join(roles, ", "))},
			{x.Role == orchestrator && !m.IsKernel(agent.Name), key, "an orchestrator is a kernel: its file needs the key kernel"},
			{x.Role == orchestrator && x.Type != contract.DeterministicInterpreter, join(key, "type"), "an orchestrator needs this key: expected " + contract.DeterministicInterpreter},
			{plans && (agent.Controller || agent.Reader), key, "a planner has no channel and starts no run: it may never see content"},
			{plans && tools != "", key, fmt.Sprintf("a planner has no tools, and this one has %s: its plans name them, and the kernel calls them", tools)},
			{reads && tools != "", key, "a processor has no tools but BCPQueries, BCPRespond and the like, and this one has " + tools},
		} {
			if rule.broken {
				a.errorf(rule.at, CodeRole, "%s", rule.text)
			}
		}
		switch found, known := contracts[x.Contract]; {
		case x.Contract == "":
		case !known:
			a.errorf(join(key, "contract"), CodeContract, "there is no contract %s%s: write it to %s/%s%s", quote(x.Contract), didYouMean(x.Contract, sortedKeys(contracts)), contractFolder, boundedKey(x.Contract), contractSuffix)
		case string(found.Role) != x.Role:
			a.errorf(join(key, "contract"), CodeContract, "the contract %s is of another role", quote(x.Contract))
		}
		if x.Type != "" && x.Role != orchestrator || x.ModelFamily != "" && x.Role == orchestrator {
			a.warnf("execution", CodeNoEffect, "no effect: type is of an orchestrator, and model_family of a planner or a processor")
		}
		if plans && len(agent.Command) > 0 {
			planners[strings.Join(agent.Command, "\x00")] = i
		}
	}
	// One model would read the task and the content.
	for i := range m.Agents {
		a := &m.Agents[i]
		if at, same := planners[strings.Join(a.Command, "\x00")]; same && at != i && slices.Contains(plays[a.Name], processor) {
			b.agents[at].warnf(roleKey(b.agents[at]), CodeOneProgram, "%s, a processor, is started by the same command: one program may then read the task and the content", a.Name)
		}
	}
}

// roleKey is the key that gives an agent its role.
func roleKey(a *agentForm) string {
	for _, key := range []string{"execution", "kernel"} {
		if a.has(key) {
			return key
		}
	}
	return "name"
}
