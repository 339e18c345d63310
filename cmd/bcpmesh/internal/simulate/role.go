package simulate

import (
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// RoleCommand returns the command role, with the commands that are about a mesh.
func RoleCommand(p *cli.Program, ofMesh ...*cobra.Command) *cobra.Command {
	return cli.Group("role", "Show roles and their contracts, and judge attestations",
		`Show the contracts of the roles of a dual-execution mesh, and how far they are
kept.

A planner makes plans and sees no content. A processor reads content and has no
tools. An orchestrator runs plans by rules. Each has a contract, and an organisation
signs which contracts its agents keep: see docs/contracts.md.`,
		"  bcpmesh role report\n  bcpmesh role contracts planner.json\n  bcpmesh role verify attestation.json agent-a@org1.example --trust org1.example=org1.pem",
		append(ofMesh, roleContractsCommand(p), roleVerifyCommand(p), roleSimulateCommand(p))...)
}
