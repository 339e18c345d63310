package conform

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/corpus"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// corpusOptions are the flags of redteam corpus.
type corpusOptions struct {
	corpora       []string
	format, field string
	benign        string
	strings       int
	seed          uint64
}

func corpusCommand(p *cli.Program) *cobra.Command {
	var o corpusOptions
	cmd := &cobra.Command{
		Use:  "corpus [DIR]",
		RunE: func(cmd *cobra.Command, args []string) error { return runCorpus(cmd.Context(), p, args, o) },

		ValidArgsFunction: cli.CompleteFolders,
	}
	var formats []string
	for _, f := range corpus.Formats() {
		formats = append(formats, string(f))
	}
	cmd.Flags().StringArrayVar(&o.corpora, "corpus", nil, "`PATH` of a file or folder of strings; may be repeated")
	cmd.Flags().StringVar(&o.format, "format", "", "read them as a `FORMAT`; completion lists them")
	cmd.Flags().StringVar(&o.field, "field", "", "`NAME` of the field with the text, or names separated by dots")
	cmd.Flags().StringVar(&o.benign, "benign", "", "`FILE` with answers of honest Readers, in place of ours")
	cmd.Flags().IntVar(&o.strings, "strings", 0, "`NUMBER` of strings at most, chosen by the seed; 0 for all")
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "`NUMBER` that seeds random choices")
	cli.Complete(cmd, "format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runCorpus(ctx context.Context, p *cli.Program, args []string, o corpusOptions) error {
	if o.strings < 0 {
		return cli.Usagef("redteam corpus: --strings: expected a number from 0, got %d", o.strings)
	}
	c := corpus.Config{Attacks: corpus.Injections(), Benign: corpus.Benign(), Seed: o.seed}
	if len(args) > 0 {
		m, err := ownMesh(args)
		if err != nil {
			return err
		}
		c.Definition = m
	}
	if len(o.corpora) > 0 {
		c.Attacks = corpus.Set{}
	}
	for _, path := range o.corpora {
		set, err := loadCorpus(p, path, o)
		if err == nil {
			err = c.Attacks.Join(set)
		}
		if err != nil {
			return notLoaded(path, err)
		}
	}
	if o.benign != "" {
		set, err := loadCorpus(p, o.benign, corpusOptions{field: o.field})
		if errors.Is(err, corpus.ErrField) { // the field is that of the corpus
			set, err = loadCorpus(p, o.benign, corpusOptions{})
		}
		if err != nil {
			return notLoaded(o.benign, err)
		}
		c.Benign = set
	}
	if o.strings > 0 && len(c.Attacks.Texts) > o.strings {
		all := c.Attacks.Texts
		rand.New(rand.NewPCG(o.seed, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		c.Attacks.Texts = all[:o.strings]
	}
	folder, err := os.MkdirTemp("", "bcpmesh-corpus-")
	if err != nil {
		return cli.Failf("no temporary folder for a mesh: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(folder) }() // we made it
	c.State = folder
	c.OnProgress = func(done, of int) { p.Out.Talkf("%d of %d", done, of) }
	found, err := corpus.Run(ctx, c)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return cli.Failf("%s", cli.Plain(err.Error()))
	}
	if tried := len(c.Attacks.Texts) - found.Short; tried == 0 {
		return notTested(found.Short)
	}
	if err := showCorpus(p, found); err != nil {
		return err
	}
	if broken := found.Broken(); len(broken) > 0 {
		return cli.Failf("%s", cli.Plain(broken[0])).WithHint("SECURITY.md says how to report it")
	}
	return nil
}

// ownMesh is the mesh of a folder.
func ownMesh(args []string) (*bcp.Mesh, error) {
	folder, err := meshdir.Argument(args)
	if err != nil {
		return nil, err
	}
	m, err := folder.Load()
	if err != nil {
		return nil, err
	}
	return m, nil
}

func loadCorpus(p *cli.Program, path string, o corpusOptions) (corpus.Set, error) {
	set, err := corpus.Load(os.DirFS(filepath.Dir(filepath.Clean(path))), filepath.Base(filepath.Clean(path)), corpus.Options{Format: corpus.Format(o.format), Field: o.field})
	if err == nil {
		p.Out.Talkf("%s: %s of %s", cli.Quoted(path), cli.Count(len(set.Texts), "string"), cli.Count(len(set.Sources), "file"))
	}
	return set, err
}

// notTested is the failure of a run that said no string: it found nothing, whatever
// passes.
func notTested(short int) error {
	why := "the corpus has no strings"
	if short > 0 {
		why = fmt.Sprintf("none of %s has four words or more, which is what is counted", cli.Count(short, "string"))
	}
	return cli.Failf("nothing was tested: %s", why).WithHint("give longer texts with --corpus, or name with --field where they are; without --corpus the strings are ours")
}

func notLoaded(path string, err error) error {
	hint := "--help lists the forms that are recognised; --format names one"
	switch {
	case errors.Is(err, corpus.ErrField):
		hint = "--field NAME says where a record has its text"
	case errors.Is(err, corpus.ErrTooMany), errors.Is(err, corpus.ErrTooBig):
		hint = "divide it"
	case !errors.Is(err, corpus.ErrFormat):
		return cli.Failf("%s cannot be read: %s", cli.Quoted(path), cli.FileReason(err))
	}
	return cli.Failf("%s: %s", cli.Quoted(path), cli.Plain(err.Error())).WithHint("%s", hint)
}

// bothErrors are those of each category and on_anomaly, side by side.
func bothErrors(r corpus.Report) (rows [][]string) {
	for _, hostile := range r.Attacks {
		for _, honest := range r.Benign {
			if hostile.Way == corpus.Whole && honest.Category == hostile.Category && honest.OnAnomaly == hostile.OnAnomaly {
				rows = append(rows, []string{fmt.Sprint(hostile.Category), hostile.OnAnomaly, percent(hostile.Reached, hostile.Strings, hostile.Low, hostile.High),
					percent(honest.Strings-honest.Reached, honest.Strings, 1-honest.High, 1-honest.Low)})
			}
		}
	}
	return rows
}

// percent is a share with its interval; empty for none of none.
func percent(n, of int, low, high float64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*float64(n)/float64(of), 100*low, 100*high)
}

func showCorpus(p *cli.Program, r corpus.Report) error {
	if p.Out.JSON {
		return p.Out.Value(struct {
			OK bool `json:"ok"`
			corpus.Report
		}{len(r.Broken()) == 0, r})
	}
	rows := func(list []corpus.Row, benign bool) (rows [][]string) {
		for _, row := range list {
			rate := percent(row.Reached, row.Strings, row.Low, row.High)
			cells := []string{fmt.Sprint(row.Category), row.OnAnomaly, string(row.Way), fmt.Sprint(row.Strings), fmt.Sprint(row.Reached), rate, fmt.Sprint(row.Held), fmt.Sprint(row.Refused)}
			if benign {
				cells = append(cells[:2], cells[3:]...)
			}
			rows = append(rows, cells)
		}
		return rows
	}
	p.Out.Heading("Both errors: strings that reached, said whole, and honest answers that did not")
	p.Out.Table([]string{"category", "on_anomaly", "attackers reached (95 %)", "honest stopped (95 %)"}, bothErrors(r))
	p.Out.Heading("Strings of attackers")
	p.Out.Table([]string{"category", "on_anomaly", "said", "strings", "reached", "rate (95 %)", "held", "refused"}, rows(r.Attacks, false))
	p.Out.Heading("Answers of honest Readers")
	p.Out.Table([]string{"category", "on_anomaly", "answers", "delivered", "rate (95 %)", "held", "refused"}, rows(r.Benign, true))
	for _, s := range r.Sources {
		licence := ""
		if s.Licence != "" {
			licence = ", " + s.Licence
		}
		p.Out.Printf("%s: %s (%s%s)\n", cli.Plain(s.Name), cli.Count(s.Strings, "string"), s.Format, licence)
	}
	if r.Short > 0 {
		p.Out.Printf("%s of fewer than four words not counted\n", cli.Count(r.Short, "string"))
	}
	if r.Played != nil {
		p.Out.Printf("%d answers said through a mesh, %d came out otherwise\n", r.Played.Said, len(r.Played.Differs))
	}
	p.Out.Printf("Reached means that a string arrived, not that a model would obey it.\n")
	return nil
}
