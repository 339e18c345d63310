package conform

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// maxReport bounds a report that is read, in bytes.
const maxReport = 16 << 20

func redteamDiffCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two reports of redteam",
		Long: `Compare two reports of redteam that --json wrote: which attacks have another verdict,
and which are new or gone.

The exit code is 1 if something is worse: an attack that held gets through, can no longer
be run or is gone, or a new one does not hold.`,
		Example: "  bcpmesh redteam diff last-week.json today.json",
		Args:    cli.Arguments(2, "OLD", "NEW"),
		RunE: func(_ *cobra.Command, args []string) error {
			before, err := readReport(args[0])
			if err != nil {
				return err
			}
			after, err := readReport(args[1])
			if err != nil {
				return err
			}
			return showChanges(p, redteam.Diff(before, after))
		},
	}
}

func readReport(file string) (redteam.Report, error) {
	b, err := cli.ReadFile(file, maxReport)
	if err != nil {
		return redteam.Report{}, err
	}
	r, err := redteam.ReadReport(b)
	if errors.Is(err, redteam.ErrRead) {
		return r, cli.Failf("%s is not a JSON report of redteam", cli.Quoted(file)).WithHint("bcpmesh redteam --json writes one")
	}
	return r, err
}

func showChanges(p *cli.Program, changes []redteam.Change) error {
	worse := 0
	var rows [][]string
	for _, c := range changes {
		before, after, what := c.Before.String(), c.After.String(), ""
		switch {
		case c.New:
			before = "not there"
		case c.Gone:
			after = "not there"
		}
		if c.Worse {
			what = "worse"
			worse++
		}
		rows = append(rows, []string{cli.Plain(c.ID), before, after, what})
	}
	switch {
	case p.Out.JSON:
		if err := p.Out.Value(struct {
			OK      bool             `json:"ok"`
			Changes []redteam.Change `json:"changes"`
		}{worse == 0, append([]redteam.Change{}, changes...)}); err != nil {
			return err
		}
	case len(rows) == 0:
		p.Out.Printf("The reports say the same.\n")
	default:
		p.Out.Table([]string{"ATTACK", "BEFORE", "AFTER", ""}, rows)
	}
	if worse > 0 {
		return cli.Failf("%s worse than before", cli.Count(worse, "attack"))
	}
	return nil
}
