package contract_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// rightAgents are the agents of a mesh with a kernel, a planner, a Reader and a
// sub-planner.
func rightAgents() []contract.Agent {
	return []contract.Agent{
		{
			Name: "kernel", Declared: contract.Orchestrator, Type: contract.DeterministicInterpreter, Contract: "orchestrator-v1", Channels: true,
			Kernel: &contract.Kernel{Planner: "planner", Processors: []string{"mailreader"}, SubPlanner: "sub"},
		},
		{Name: "planner", Declared: contract.Planner, Contract: "planner-v1", Command: []string{"plan", "--sonnet"}},
		{Name: "mailreader", Declared: contract.Processor, Contract: "processor-v1", Channels: true, Command: []string{"read", "--haiku"}},
		{Name: "sub", Declared: contract.Processor, Command: []string{"plan", "--haiku"}},
		{Name: "clerk", Channels: true, Tools: []string{"search"}},
	}
}

// Definitions that mix roles are refused; a planner and a processor that are one
// program are warned of.
// covers DUAL-3
func TestCheckAgents(t *testing.T) {
	t.Parallel()
	contracts := map[string]contract.Contract{}
	for _, b := range contract.Builtins() {
		contracts[b.Name] = mustParse(t, []byte(b.Bytes))
	}
	const kernel, planner, reader, sub, clerk = 0, 1, 2, 3, 4
	for _, c := range []struct {
		name   string
		change func(a []contract.Agent)
		want   []string
	}{
		{"nothing", func([]contract.Agent) {}, nil},
		{"roles that only the kernel gives", func(a []contract.Agent) {
			for _, i := range []int{planner, reader} {
				a[i].Declared, a[i].Contract = "", ""
			}
		}, nil},
		{"a planner that reads", func(a []contract.Agent) { a[kernel].Kernel.Processors = []string{"planner"} }, []string{"two_roles planner planner, processor"}},
		{"a planner that says it reads", func(a []contract.Agent) { a[planner].Declared = contract.Processor }, []string{"two_roles planner planner, processor", "contract_of_other_role planner planner-v1"}},
		{"a kernel that plans for itself", func(a []contract.Agent) { a[kernel].Kernel.Planner = "kernel" }, []string{"two_roles kernel orchestrator, planner", "planner_has_channel kernel "}},
		{"an orchestrator without a kernel", func(a []contract.Agent) { a[kernel].Kernel = nil }, []string{"no_kernel kernel "}},
		{"an orchestrator that is a model", func(a []contract.Agent) { a[kernel].Type = "llm" }, []string{"unknown_type kernel "}},
		{"a planner on a channel", func(a []contract.Agent) { a[planner].Channels = true }, []string{"planner_has_channel planner "}},
		{"a planner with tools", func(a []contract.Agent) { a[planner].Tools = []string{"search", "mail"} }, []string{"planner_has_tools planner search, mail"}},
		{"a processor with tools", func(a []contract.Agent) { a[reader].Tools = []string{"search"} }, []string{"processor_has_tools mailreader search"}},
		{"the planner as sub-planner", func(a []contract.Agent) { a[kernel].Kernel.SubPlanner = "planner" }, []string{
			"two_roles planner planner, processor",
		}},
		{"a contract that is not there", func(a []contract.Agent) { a[planner].Contract = "planner-v2" }, []string{"unknown_contract planner planner-v2"}},
		{"another role's contract", func(a []contract.Agent) { a[planner].Contract = "processor-v1" }, []string{"contract_of_other_role planner processor-v1"}},
		{"one program", func(a []contract.Agent) { a[reader].Command = a[planner].Command }, []string{"same_command planner mailreader"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			agents := rightAgents()
			c.change(agents)
			var got []string
			for _, p := range contract.CheckAgents(agents, contracts) {
				got = append(got, fmt.Sprintf("%s %s %s", p.Code, p.Agent, p.Other))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
