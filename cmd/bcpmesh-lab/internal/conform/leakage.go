package conform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/leakage"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/section"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// leakageOptions are the flags of redteam leakage.
type leakageOptions struct {
	only []string
	seed uint64
	time cli.DurationFlag

	write string
}

func leakageCommand(p *cli.Program) *cobra.Command {
	o := leakageOptions{time: cli.DurationFlag{Value: 4 * time.Minute, Least: 10 * time.Second}}
	cmd := &cobra.Command{
		Use:  "leakage",
		RunE: func(cmd *cobra.Command, _ []string) error { return runLeakage(cmd.Context(), p, o) },
	}
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "only these tests and methods: `IDS`")
	cmd.Flags().Var(&o.time, "time", "about how long it may take on two cores")
	cmd.Flags().StringVar(&o.write, "write", "", "write tables into leakage.md of `DIR`")
	cli.Complete(cmd, "write", cli.CompleteFolders)
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "`NUMBER` that seeds random acts")
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

// fullTime is the time in which everything is tried as often as it is worth.
const fullTime = 30 * time.Minute

func runLeakage(ctx context.Context, p *cli.Program, o leakageOptions) error {
	tests, err := leakage.Select(leakage.Tests(), o.only)
	if err != nil {
		return cli.Usagef("redteam leakage: --only: %s", cli.Plain(err.Error())).WithHint("completion lists the tests")
	}
	folder, err := os.MkdirTemp("", "bcpmesh-leakage-")
	if err != nil {
		return cli.Failf("no temporary folder for meshes: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(folder) }() // we made it
	share := min(1, o.time.Value.Seconds()/fullTime.Seconds())
	done := 0
	found := leakage.Run(ctx, leakage.Config{State: folder, Tests: tests, Seed: o.seed, Pairs: int(1000 * share), Trials: int(6000 * share), OnResult: func(r leakage.Result) {
		done++
		p.Out.Talkf("%d of %d: %s %s", done, len(tests), r.ID, r.Verdict)
	}})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := showLeakage(p, found); err != nil {
		return err
	}
	if o.write != "" {
		if err := writeLeakage(o.write, found); err != nil {
			return err
		}
	}
	return conclude("test", "found a leak", found.Count, len(found.Results))
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
		if r.Closed != nil {
			figure = fmt.Sprintf("%d pairs", r.Closed.Pairs)
		}
		if m := r.Measured; m != nil {
			figure = fmt.Sprintf("%.2f bits at least, %.2f charged", m.Moved, m.Charged)
		}
		if m := r.Rate; m != nil {
			figure = fmt.Sprintf("%.2f bits at least, %.2f would have been seen", m.Moved, m.Seen)
		}
		rows = append(rows, []string{r.ID, string(r.Method), r.Verdict.String(), (time.Duration(r.TookMS) * time.Millisecond).String(), figure, text})
	}
	p.Out.Heading("Leakage")
	p.Out.Table([]string{"test", "method", "verdict", "took", "found", "what is looked at"}, rows)
	p.Out.Printf("%d held, %d leak, %d not run\n", found.Count(redteam.Held), found.Count(redteam.Broken), found.Count(redteam.NotRun))
	return nil
}

// writeLeakage writes the document's tables.
func writeLeakage(folder string, found leakage.Report) error {
	document := filepath.Join(folder, "leakage.md")
	text, err := os.ReadFile(document)
	if err == nil {
		text, err = section.Replace(text, "redteam leakage", found.Markdown())
	}
	if err == nil {
		err = os.WriteFile(document, text, 0o644)
	}
	if err != nil {
		return cli.Failf("--write %s: %s", cli.Quoted(folder), cli.FileReason(err))
	}
	return nil
}
