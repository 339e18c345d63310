package conform

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// RedteamCommand returns the command redteam.
func RedteamCommand(p *cli.Program) *cobra.Command {
	var only []string
	var seed uint64
	cmd := &cobra.Command{
		Use: "redteam [DIR]",
		RunE: func(cmd *cobra.Command, args []string) error {
			all := redteam.Catalogue()
			if len(args) > 0 {
				own, err := ownAttacks(args)
				if err != nil {
					return err
				}
				all = own
			}
			return attack(cmd.Context(), p, all, only, seed)
		},
		ValidArgsFunction: cli.CompleteFolders,
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these attacks and classes: `IDS`")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`NUMBER` that seeds random acts")
	_ = cmd.RegisterFlagCompletionFunc("only", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var words []string
		for _, c := range redteam.Classes() {
			words = append(words, string(c))
		}
		for _, a := range redteam.Catalogue() {
			words = append(words, a.ID+"\t"+a.Text)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}) // the flag is there
	cmd.AddCommand(corpusCommand(p), leakageCommand(p))
	return cmd
}

// ownAttacks are those on the definitions in a folder.
func ownAttacks(args []string) ([]redteam.Attack, error) {
	m, err := ownMesh(args)
	if err != nil {
		return nil, err
	}
	return redteam.Own(m), nil
}

func attack(ctx context.Context, p *cli.Program, all []redteam.Attack, only []string, seed uint64) error {
	attacks, err := redteam.Select(all, only)
	if err != nil {
		return cli.Usagef("redteam: --only: %s", cli.Plain(err.Error())).WithHint("bcpmesh redteam --help lists the classes, and completion the attacks")
	}
	folder, err := os.MkdirTemp("", "bcpmesh-redteam-")
	if err != nil {
		return cli.Failf("no temporary folder for meshes: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(folder) }() // we made it
	done := 0
	found, err := redteam.Run(ctx, redteam.Config{State: folder, Attacks: attacks, Seed: seed, OnResult: func(r redteam.Result) {
		done++
		p.Out.Talkf("%d of %d: %s %s", done, len(attacks), r.ID, r.Verdict)
	}})
	if err != nil {
		return cli.Failf("%s", cli.Plain(err.Error()))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := showAttacks(p, found); err != nil {
		return err
	}
	return conclude("attack", "got through", found.Count, len(found.Results))
}

// conclude fails if something is broken, and in part if something could not be run.
func conclude(what, did string, count func(redteam.Verdict) int, all int) error {
	switch broken, notRun := count(redteam.Broken), count(redteam.NotRun); {
	case broken > 0:
		return cli.Failf("%s of %d %s", cli.Count(broken, what), all, did).WithHint("SECURITY.md says how to report it")
	case notRun > 0:
		return &cli.Failure{Code: cli.ExitPartly, Message: cli.Count(notRun, what) + " could not be run"}
	}
	return nil
}

func showAttacks(p *cli.Program, found redteam.Report) error {
	if p.Out.JSON {
		return p.Out.Value(redteam.Document{OK: found.OK(), Report: found})
	}
	var rows [][]string
	for _, r := range found.Results {
		text := r.Text
		for _, e := range r.Evidence {
			text += "\n(" + cli.Plain(e) + ")"
		}
		rows = append(rows, []string{r.ID, string(r.Class), r.Verdict.String(), (time.Duration(r.TookMS) * time.Millisecond).String(), text})
	}
	p.Out.Heading("Attacks")
	p.Out.Table([]string{"id", "class", "verdict", "took", "the attacker"}, rows)
	p.Out.Printf("%d held, %d got through, %d not run, %d skipped\n", found.Count(redteam.Held), found.Count(redteam.Broken), found.Count(redteam.NotRun), found.Count(redteam.Skipped))
	return nil
}
