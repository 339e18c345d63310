package conform

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/redteam"
	"github.com/bcpmesh/bcpmesh/mesh/redteam/leakage"
)

// leakageOptions are the flags of redteam leakage.
type leakageOptions struct {
	only []string
	seed uint64
}

func leakageCommand(p *cli.Program) *cobra.Command {
	var o leakageOptions
	cmd := &cobra.Command{
		Use:   "leakage",
		Short: "Look for more bits than the ledger shows",
		Long: `Look for more bits than the ledger shows, on meshes of this command's own.

  exact   every strategy of the Readers, and of the people who decide, on the real state
          machine: all that the Controller can hear has to weigh at most what
          bcp/CAPACITY.md says. It is a certificate for small meshes and horizons.

--only takes ids of tests, and methods. The exit code is 1 if there is a leak, and 4 if a
test could not be run.`,
		Example: "  bcpmesh redteam leakage\n  bcpmesh redteam leakage --only X-GAP,X-BOOLEAN\n  bcpmesh redteam leakage --json > leakage.json",
		Args:    cli.Arguments(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLeakage(cmd.Context(), p, o) },
	}
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "these tests and methods alone: `IDS`")
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "the `NUMBER` that random acts are made from")
	_ = cmd.RegisterFlagCompletionFunc("only", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var words []string
		for _, m := range leakage.Methods() {
			words = append(words, string(m))
		}
		for _, t := range leakage.Tests() {
			words = append(words, t.ID+"\t"+t.Text)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}) // the flag is there
	return cmd
}

func runLeakage(ctx context.Context, p *cli.Program, o leakageOptions) error {
	tests, err := leakage.Select(leakage.Tests(), o.only)
	if err != nil {
		return cli.Usagef("redteam leakage: --only: %s", cli.Plain(err.Error())).WithHint("completion lists the tests")
	}
	done := 0
	found := leakage.Run(ctx, leakage.Config{Tests: tests, Seed: o.seed, OnResult: func(r leakage.Result) {
		done++
		p.Out.Talkf("%d of %d: %s %s", done, len(tests), r.ID, r.Verdict)
	}})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := showLeakage(p, found); err != nil {
		return err
	}
	switch broken, notRun := found.Count(redteam.Broken), found.Count(redteam.NotRun); {
	case broken > 0:
		return cli.Failf("%s of %d found a leak", cli.Count(broken, "test"), len(found.Results)).WithHint("SECURITY.md says how to report it")
	case notRun > 0:
		return &cli.Failure{Code: cli.ExitPartly, Message: cli.Count(notRun, "test") + " could not be run"}
	}
	return nil
}

func showLeakage(p *cli.Program, found leakage.Report) error {
	if p.Out.JSON {
		return p.Out.Value(struct {
			OK bool `json:"ok"`
			leakage.Report
		}{found.Count(redteam.Held) == len(found.Results), found})
	}
	var rows [][]string
	for _, r := range found.Results {
		text, figure := r.Text, ""
		for _, e := range r.Evidence {
			text += "\n(" + cli.Plain(strings.SplitN(e, "\n", 2)[0]) + ")"
		}
		if c := r.Exact; c != nil {
			figure = fmt.Sprintf("%d strategies weigh %.6f of %d", c.Strategies, c.Weight, c.Limit)
		}
		rows = append(rows, []string{r.ID, string(r.Method), r.Verdict.String(), (time.Duration(r.TookMS) * time.Millisecond).String(), figure, text})
	}
	p.Out.Heading("Leakage")
	p.Out.Table([]string{"test", "method", "verdict", "took", "found", "what is looked at"}, rows)
	p.Out.Printf("%d held, %d leak, %d not run\n", found.Count(redteam.Held), found.Count(redteam.Broken), found.Count(redteam.NotRun))
	return nil
}
