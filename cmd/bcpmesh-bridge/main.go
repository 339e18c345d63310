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
	card := cli.New(p, "card KERNEL --url URL", &bridges.Card{})
	cli.Complete(card, "url", cobra.NoFileCompletions)
	return cli.Root(p, help, cli.WriteUsage, []cli.CommandGroup{{Title: "Bridges", Commands: []*cobra.Command{
		cli.New(p, "a2a --creds FILE", &bridges.A2A{}, cli.New(p, "reader --agent URL", &bridges.ReaderA2A{}), card),
		bridges.RelayCommand(p),
	}}})
}
