package simulate

import (
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// RoleCommand returns the command role.
func RoleCommand(p *cli.Program) *cobra.Command {
	return cli.Group("role", "Check contracts of roles, and attestations of other organisations",
		`Check what the roles of a dual-execution mesh promise, without a mesh.

A planner makes plans and sees no content. A processor reads content and has no
tools. An orchestrator runs plans by rules. Each has a contract, and an organisation
signs which contracts its agents keep. docs/contracts.md explains all of it.`,
		"  bcpmesh role matrix\n  bcpmesh role contracts planner.json\n  bcpmesh role verify attestation.json agent-a@org1.example --trust org1.example=org1.pem",
		roleContractsCommand(p), roleMatrixCommand(p), roleVerifyCommand(p), roleSimulateCommand(p))
}
