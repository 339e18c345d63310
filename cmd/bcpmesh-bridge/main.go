// Command bcpmesh-bridge joins a mesh to agents and meshes of others. bcpmesh starts it: bcpmesh relay is bcpmesh-bridge relay.
package main

import (
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/bridges"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func main() { cli.Main(rootCommand) }

func rootCommand(p *cli.Program) *cobra.Command {
	return cli.Root(p, "Join a mesh to agents and meshes of others", `bcpmesh-bridge has the commands that join a mesh to agents and meshes of others.
"bcpmesh COMMAND" starts them.`, "  bcpmesh relay --help\n  bcpmesh a2a reader --agent https://agent.example.com",
		cli.WriteUsage, []cli.CommandGroup{{Title: "Bridges", Commands: []*cobra.Command{
			bridges.A2ACommand(p),
			bridges.RelayCommand(p),
		}}})
}
