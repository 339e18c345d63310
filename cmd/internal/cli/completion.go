package cli

import (
	"bytes"

	"github.com/spf13/cobra"
)

// CompletionCommand returns the command completion.
func CompletionCommand(p *Program) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write the completion script of a shell",
		Long: `Write the script that completes bcpmesh in a shell: bash, zsh, fish or powershell.
Besides commands and flags it completes the agents of the current mesh.`,
		Example:   "  bcpmesh completion fish > ~/.config/fish/completions/bcpmesh.fish",
		ValidArgs: shells,
		Args:      Arguments(1, "SHELL"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		shell := WordFlag{Words: shells}
		if err := shell.Set(args[0]); err != nil {
			return Usagef("completion: %s, got %s", err, Quoted(args[0])).WithHint("%s --help shows an example", cmd.CommandPath())
		}
		var script bytes.Buffer
		root := cmd.Root()
		write := map[string]func() error{
			"bash":       func() error { return root.GenBashCompletionV2(&script, true) },
			"zsh":        func() error { return root.GenZshCompletion(&script) },
			"fish":       func() error { return root.GenFishCompletion(&script, true) },
			"powershell": func() error { return root.GenPowerShellCompletionWithDesc(&script) },
		}
		if err := write[args[0]](); err != nil {
			return err
		}
		if p.Out.JSON {
			return p.Out.Value(map[string]string{"shell": args[0], "script": script.String()})
		}
		p.Out.Printf("%s", script.String())
		return nil
	}
	return cmd
}
