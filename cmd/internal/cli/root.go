package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the program that root has the commands of, and ends the process.
func Main(root func(*Program) *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Run executes one command line and returns the exit code of the process. It
// is the whole program: everything that it reads and writes is an argument, but
// for the files that the command line names and the folder it is called in.
func Run(ctx context.Context, root func(*Program) *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	p := &Program{In: stdin, Out: NewOutput(stdout, stderr, env), Env: env}
	cmd := root(p)
	if args == nil {
		args = []string{} // with nil, cobra takes the arguments of the process
	}
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	return p.Out.Finish(err)
}

// Root is the command that holds all others, whose texts are in help. Bare is what it does alone. The programs that have only
// some of the commands name them as bcpmesh does, which starts them.
func Root(p *Program, help string, bare func(*cobra.Command) error, groups []CommandGroup, others ...*cobra.Command) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:  "bcpmesh",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return ShowVersion(p)
			}
			if len(args) == 0 {
				return bare(cmd)
			}
			return MissingCommand(cmd, args)
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		// Suggestions go through Suggestion, in one line.
		DisableSuggestions: true,
	}
	root.SetIn(p.In)
	root.SetOut(p.Out.Stdout)
	root.SetErr(p.Out.Stderr)
	root.SetFlagErrorFunc(FlagError)
	root.SetUsageFunc(WriteUsage)
	root.PersistentFlags().BoolVar(&p.Out.JSON, "json", false, "write the result as JSON")
	root.Flags().BoolVar(&version, "version", false, "show the version, as the command version does")
	AddGroups(root, groups)
	root.AddCommand(others...)
	root.AddCommand(VersionCommand(p))
	root.SetHelpCommand(HelpCommand(p))
	addConnectionFlags(p, root)
	describe(root, help)
	finishCommand(p, root)
	return root
}
