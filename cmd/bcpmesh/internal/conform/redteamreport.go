package conform

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/redteam"
	"github.com/bcpmesh/bcpmesh/mesh/redteam/report"
)

// reportForms says in which form each file is written, before anything is tried.
func reportForms(files []string) (map[string]report.Form, error) {
	forms := map[string]report.Form{}
	for _, file := range files {
		form, ok := report.FormOf(file)
		if !ok {
			return nil, cli.Usagef("redteam: --report: expected a file that ends with %s, got %s", strings.Join(report.Extensions, ", "), cli.Quoted(file))
		}
		forms[file] = form
	}
	return forms, nil
}

func writeReports(p *cli.Program, found redteam.Report, forms map[string]report.Form, folder string) error {
	for _, file := range slices.Sorted(maps.Keys(forms)) {
		b, err := report.Write(found, forms[file], cli.ProgramVersion(), folder)
		if err != nil {
			return err
		}
		if err := cli.WriteOver(file, b, 0o644); err != nil {
			return err
		}
		p.Out.Talkf("wrote %s", cli.Quoted(file))
	}
	return nil
}

// maxReport bounds a report that is read, in bytes.
const maxReport = 16 << 20

func redteamDiffCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two reports of redteam",
		Long: `Compare two reports of redteam in JSON, from --report FILE.json or --json: which
attacks have another verdict, and which are new or gone.

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
			return showChanges(p, report.Diff(before, after))
		},
	}
}

func readReport(file string) (redteam.Report, error) {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxReport) {
		err = cli.ErrTooLarge
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return redteam.Report{}, cli.Failf("%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
	}
	r, err := report.Read(b)
	if errors.Is(err, report.ErrRead) {
		return r, cli.Failf("%s is not a JSON report of redteam", cli.Quoted(file)).WithHint("bcpmesh redteam --report FILE.json writes one")
	}
	return r, err
}

func showChanges(p *cli.Program, changes []report.Change) error {
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
			OK      bool            `json:"ok"`
			Changes []report.Change `json:"changes"`
		}{worse == 0, append([]report.Change{}, changes...)}); err != nil {
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
