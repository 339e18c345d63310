// Command bcpmesh-bridge joins a mesh to agents and meshes of others. bcpmesh starts it: bcpmesh relay is bcpmesh-bridge relay.
package main

import (
	_ "embed"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/bridges"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

//go:embed help.txt
var help string

func main() { cli.Main(rootCommand) }

func rootCommand(p *cli.Program) *cobra.Command {
	return cli.Root(p, help, cli.WriteUsage, []cli.CommandGroup{{Title: "Bridges", Commands: []*cobra.Command{
		bridges.A2ACommand(p),
		bridges.RelayCommand(p),
	}}})
}
