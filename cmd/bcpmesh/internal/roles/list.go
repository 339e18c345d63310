package roles

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// part is an agent in a role.
type part struct {
	Agent bcp.AgentName `json:"agent"`
	Role  contract.Role `json:"role"`
	// Contract is the name of the contract that it keeps.
	Contract    string `json:"contract"`
	ModelFamily string `json:"model_family,omitempty"`
	// By are the kernels that ask it.
	By []string `json:"kernels"`
}

// listParts returns who plays the roles of kernels in a mesh: by its own file, or by the
// kernel that asks it. A planner may have no file.
func listParts(m *bcp.Mesh) []part {
	agents := definition.RoleAgents(m)
	var parts []part
	add := func(name string, role contract.Role, kernel string) {
		i := slices.IndexFunc(parts, func(p part) bool { return string(p.Agent) == name && p.Role == role })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{Agent: bcp.AgentName(name), Role: role, Contract: string(role) + "-v1", By: []string{}})
		}
		if kernel != "" {
			parts[i].By = append(parts[i].By, kernel)
		}
	}
	for _, a := range agents {
		if a.Declared != "" {
			add(a.Name, a.Declared, "")
		}
		if a.Kernel == nil {
			continue
		}
		add(a.Name, contract.Orchestrator, "")
		add(a.Kernel.Planner, contract.Planner, a.Name)
		if a.Kernel.SubPlanner != "" {
			add(a.Kernel.SubPlanner, contract.Processor, a.Name)
		}
		for _, reader := range a.Kernel.Processors {
			add(reader, contract.Processor, a.Name)
		}
	}
	for i := range parts {
		if a, ok := m.Agent(parts[i].Agent); ok && a.Execution.Role == string(parts[i].Role) {
			parts[i].Contract, parts[i].ModelFamily = a.Execution.Contract, a.Execution.ModelFamily
		}
	}
	order := contract.Roles()
	slices.SortStableFunc(parts, func(a, b part) int { return slices.Index(order, a.Role) - slices.Index(order, b.Role) })
	return parts
}

// RoleCommand returns the command role.
func RoleCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	cmd := &cobra.Command{
		Use: "role [COMMAND]",
		RunE: func(*cobra.Command, []string) error {
			folder, err := where.Folder()
			if err != nil {
				return err
			}
			m, err := folder.Load()
			if err != nil {
				return err
			}
			parts := listParts(m)
			if p.Out.JSON {
				return p.Out.Value(struct {
					Organisation string `json:"organisation,omitempty"`
					Parts        []part `json:"parts"`
				}{m.Organisation, append([]part{}, parts...)})
			}
			if len(parts) == 0 {
				p.Out.Printf("no agent has a role: there is no kernel\n")
				return nil
			}
			if m.Organisation != "" {
				p.Out.Printf("of %s\n\n", m.Organisation)
			}
			rows := cli.Map(parts, func(x part) []string {
				return []string{string(x.Agent), string(x.Role), x.Contract, cli.Plain(x.ModelFamily), strings.Join(x.By, ", ")}
			})
			p.Out.Table([]string{"agent", "role", "contract", "model family", "asked by"}, rows)
			return nil
		},
	}
	where.AddTo(cmd)
	return cli.Noun(cmd, nil,
		reportCommand(p), attestCommand(p), showCommand(p), contractsCommand(p), verifyCommand(p), simulate.RoleSimulateCommand(p))
}
