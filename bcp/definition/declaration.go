package definition

import (
	"cmp"
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// Declaration makes the declaration of a kernel: what its planner, its processors and
// itself are, and which contracts they keep. An error says what the definitions do not.
func Declaration(m *bcp.Mesh, name bcp.AgentName) (contract.Declaration, error) {
	contracts := Contracts(m)
	part := func(is, contractName string) contract.Part {
		c, ok := contracts[contractName]
		if !ok {
			return contract.Part{Is: is} // which nobody takes
		}
		return contract.Part{Is: is, Contract: contract.RefTo(c.Digest)}
	}
	own, _ := m.Agent(name)
	d := contract.Declaration{
		Agent: contract.AgentID{Name: name, Organisation: m.Organisation},
		Parts: contract.Parts{Architecture: contract.DualLLM, Orchestrator: contract.Interpreter(part(contract.DeterministicInterpreter, cmp.Or(own.Execution.Contract, "orchestrator-v1")))},
	}
	model := func(agent bcp.AgentName, builtin string) (contract.Part, error) {
		a, _ := m.Agent(agent)
		if a.Execution.ModelFamily == "" {
			return contract.Part{}, fmt.Errorf("the definition of %s does not say execution.model_family, which a declaration names", agent)
		}
		return part(a.Execution.ModelFamily, cmp.Or(a.Execution.Contract, builtin)), nil
	}
	k := m.Kernel(name)
	if k == nil {
		return d, fmt.Errorf("%s is no kernel: a declaration is of one, with its planner and its processors", name)
	}
	var err error
	if d.Planner, err = model(k.Planner, "planner-v1"); err != nil {
		return d, err
	}
	for i, who := range k.Processors {
		processor, err := model(who, "processor-v1")
		if err != nil {
			return d, err
		}
		if i > 0 && processor != d.Processor {
			return d, fmt.Errorf("the processors of %s differ in model_family or contract: a declaration has one processor", name)
		}
		d.Processor = processor
	}
	if d.Processor == (contract.Part{}) {
		return d, fmt.Errorf("the kernel %s asks no Reader: a declaration has a processor", name)
	}
	return d, nil
}
