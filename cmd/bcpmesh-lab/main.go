// Command bcpmesh-lab attacks meshes, measures them, and tests agents of others. bcpmesh starts it: bcpmesh redteam is
// bcpmesh-lab redteam.
package main

import (
	_ "embed"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/conform"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

//go:embed help.txt
var help string

func main() { cli.Main(rootCommand) }

func rootCommand(p *cli.Program) *cobra.Command {
	return cli.Root(p, help, cli.WriteUsage, []cli.CommandGroup{{Title: "Laboratory", Commands: []*cobra.Command{
		conform.ConformanceCommand(p),
		conform.RedteamCommand(p),
		conform.BenchCommand(p),
	}}}, conform.BenchPartCommand(p))
}
