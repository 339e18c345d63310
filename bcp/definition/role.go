package definition

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
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
	for _, d := range defects {
		before := content[:min(d.Offset, len(content))]
		at := position{bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
		s.errorf(at, CodeContract, d.Where, "%s", d.Code.Text())
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

// RoleAgents returns the agents of a mesh as far as roles go.
func RoleAgents(m *bcp.Mesh) []contract.Agent {
	kernels := map[bcp.AgentName]*contract.Kernel{}
	for _, k := range m.Kernels {
		kernels[k.Kernel] = &contract.Kernel{Planner: string(k.Planner), SubPlanner: string(k.SubPlanner)}
	}
	for _, k := range kernel.OfMesh(m) {
		for _, s := range k.Definition().Schemas {
			if known := kernels[k.Name()]; known != nil && !slices.Contains(known.Processors, string(s.Reader)) {
				known.Processors = append(known.Processors, string(s.Reader))
			}
		}
	}
	var agents []contract.Agent
	for i := range m.Agents {
		a := &m.Agents[i]
		agents = append(agents, contract.Agent{
			Name: string(a.Name), Declared: contract.Role(a.Execution.Role), Type: a.Execution.Type, Contract: a.Execution.Contract,
			Kernel: kernels[a.Name], Channels: a.Controller || a.Reader, Tools: otherTools(a), Command: a.Command,
		})
	}
	return agents
}

// otherTools returns what an agent can do apart from taking part in the protocol.
func otherTools(a *bcp.Agent) []string {
	own := a.ProtocolTools()
	tools := slices.DeleteFunc(slices.Clone(a.Tools), func(tool string) bool {
		return slices.ContainsFunc(own, func(known string) bool {
			return strings.EqualFold(tool, known) || strings.HasSuffix(strings.ToLower(tool), "__"+strings.ToLower(known))
		})
	})
	if len(a.Egress.Hosts) > 0 {
		tools = append(tools, "network")
	}
	return tools
}

// roles refuses agents that are more than one thing, or are not what they say.
func (b *builder) roles(m *bcp.Mesh) {
	if b.incomplete || !b.report.OK() {
		return // whom a kernel asks is known once it is right
	}
	// Who plans may be started elsewhere, without a file; a sub-planner with one is judged with its kernel.
	for _, p := range contract.CheckAgents(RoleAgents(m), Contracts(m)) {
		i := slices.IndexFunc(m.Agents, func(a bcp.Agent) bool { return string(a.Name) == p.Agent })
		if i < 0 {
			continue
		}
		a, key := b.agents[i], "name"
		for _, k := range []string{"kernel", "execution"} {
			if a.has(k) {
				key = k
			}
		}
		switch p.Code {
		case contract.TwoRoles:
			a.errorf(key, CodeRole, "%s has two roles, %s: each needs an agent of its own", p.Agent, p.Other)
		case contract.NoKernel:
			a.errorf(key, CodeRole, "an orchestrator is a kernel: its file needs the key kernel")
		case contract.UnknownType:
			a.errorf(join(key, "type"), CodeRole, "an orchestrator needs this key: expected %s", contract.DeterministicInterpreter)
		case contract.PlannerHasChannel:
			a.errorf(key, CodeRole, "a planner has no channel and starts no run: it may never see content")
		case contract.PlannerHasTools:
			a.errorf(key, CodeRole, "a planner has no tools, and this one has %s: its plans name them, and the kernel calls them", p.Other)
		case contract.ProcessorHasTools:
			a.errorf(key, CodeRole, "a processor has no tools but BCPQueries, BCPRespond and the like, and this one has %s", p.Other)
		case contract.UnknownContract:
			a.errorf(join(key, "contract"), CodeContract, "there is no contract %s%s: write it to %s/%s%s", quote(p.Other), didYouMean(p.Other, sortedKeys(Contracts(m))), contractFolder, boundedKey(p.Other), contractSuffix)
		case contract.ContractOfOtherRole:
			a.errorf(join(key, "contract"), CodeContract, "the contract %s is of another role", quote(p.Other))
		case contract.SameCommand:
			a.warnf(key, CodeOneProgram, "%s, a processor, is started by the same command: one program may then read the task and the content", p.Other)
		}
	}
	for i, a := range b.agents {
		if x := m.Agents[i].Execution; x.Type != "" && x.Role != string(contract.Orchestrator) || x.ModelFamily != "" && x.Role == string(contract.Orchestrator) {
			a.warnf("execution", CodeNoEffect, "no effect: type is of an orchestrator, and model_family of a planner or a processor")
		}
	}
}
