// Command bcpmesh runs and inspects a mesh of agents that exchange no more
// information than their operator declared.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/approvals"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/archive"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/attach"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/byhand"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cell"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/conform"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/contentguard"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/define"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/health"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/ledger"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/measure"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/pages"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/roles"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/run"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(runCommandLine(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// runCommandLine executes one command line and returns the exit code of the process. It
// is the whole program: everything that it reads and writes is an argument, but
// for the files that the command line names and the folder it is called in.
func runCommandLine(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	p := &cli.Program{In: stdin, Out: cli.NewOutput(stdout, stderr, env), Env: env}
	root := rootCommand(p)
	if args == nil {
		args = []string{} // with nil, cobra takes the arguments of the process
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return p.Out.Finish(err)
}

// commands returns every command.
func commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{
		cell.EnterCommand(),
		cell.TryCommand(p),
		define.InitCommand(p),
		define.CheckCommand(p),
		define.PermsCommand(p),
		keys.CredsCommand(p),
		keys.JoinCommand(p),
		keys.KeysCommand(p),
		keys.AccountsCommand(p),
		define.ValidateCommand(p),
		simulate.KernelCommand(p, append(byhand.RunCommands(p), audit.RunCommands(p)...)...),
		contentguard.GuardCommand(p),
		contentguard.FetchURLCommand(p),
		simulate.RoleCommand(p, roles.Commands(p)...),
		run.UpCommand(p),
		run.GatewayCommand(p),
		audit.WitnessCommand(p),
		run.ReloadCommand(p),
		run.DemoCommand(p),
		conform.ConformanceCommand(p),
		conform.RedteamCommand(p),
		measure.BenchCommand(p),
		measure.BenchPartCommand(p),
		define.ShardsCommand(p),
		health.StatusCommand(p),
		health.DoctorCommand(p),
		health.NotifyCommand(p),
		byhand.QueryCommand(p),
		byhand.PublishCommand(p),
		byhand.InboxCommand(p),
		byhand.AnswerCommand(p),
		attach.ReaderCommand(p),
		attach.RelayCommand(p),
		attach.AgentCommand(p),
		attach.MCPCommand(p),
		attach.A2ACommand(p),
		attach.AdoptCommand(p),
		attach.HookCommand(p),
		attach.WrapCommand(p),
		attach.PlannerCommand(p),
		attach.ToolCommand(p),
		byhand.SessionCommand(p),
		byhand.TaintCommand(p),
		define.ProposalsCommand(p),
		approvals.ApprovalsCommand(p),
		ledger.LedgerCommand(p),
		audit.AuditCommand(p),
		audit.ExplainCommand(p),
		pages.WebCommand(p),
		archive.BackupCommand(p),
		archive.RestoreCommand(p),
		cli.CompletionCommand(p),
		cli.VersionCommand(p),
	}
}

func rootCommand(p *cli.Program) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "bcpmesh",
		Short: "Run a mesh of agents that can tell each other no more than declared",
		Long: `bcpmesh runs a mesh of agents. Readers work with hostile content; Controllers
act. A gateway between them lets only validated answers through, and charges
every bit of them to a budget.

A mesh is a folder with mesh.yaml and agents/*.md. Commands that need one find
it from the current folder upwards.

Exit codes: 0 done; 1 a problem was found, or the operation failed; 2 the
command line is wrong; 3 the protocol refused; 4 no problem was found, but not
everything could be looked at.`,
		Example: `  bcpmesh init ./office
  bcpmesh check ./office
  bcpmesh validate < cases.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return cli.ShowVersion(p)
			}
			return cli.MissingCommand(cmd, args)
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		// Suggestions go through suggestion, in one line.
		DisableSuggestions: true,
	}
	root.SetIn(p.In)
	root.SetOut(p.Out.Stdout)
	root.SetErr(p.Out.Stderr)
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetUsageFunc(cli.WriteUsage)
	root.PersistentFlags().BoolVar(&p.Out.JSON, "json", false, "write the result as JSON")
	root.Flags().BoolVar(&version, "version", false, "show the version, as the command version does")
	root.AddCommand(commands(p)...)
	root.SetHelpCommand(cli.HelpCommand(p))
	cli.FinishCommand(root)
	return root
}
