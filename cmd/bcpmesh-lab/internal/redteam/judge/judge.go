// Package judge makes the table of what words weigh (package text), and measures it. It reads sentences, and our own phrases and
// orders; the same sentences give the same table, byte for byte, on every machine.
package judge

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/stats"
)

// Result is what is made of sentences.
type Result struct {
	Table   []byte // for package text
	Figures string // the tables of docs/guard.md
}

// Run makes a table of the sentences of a folder, which has benign.jsonl and hostile.jsonl, and measures it. Errors by kind, language
// and collection go to out.
func Run(folder fs.FS, out io.Writer) (*Result, error) {
	rows, err := load(folder)
	if err != nil {
		return nil, err
	}
	own, err := own()
	if err != nil {
		return nil, err
	}
	rules := crossValidate(rows, own)
	found, err := figures(rules, rows, groups)
	if err != nil {
		return nil, err
	}
	for _, group := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(out, "%-45s %5d  held %s  hold_all %s  refused %s\n", group, found[group].rows, found[group].rate(found[group].held), found[group].rate(found[group].signed), found[group].rate(found[group].refused))
	}
	evaded, err := evaded(rules, rows)
	if err != nil {
		return nil, err
	}
	return &Result{
		Table:   limitsFor(rows, own, none).write(tableWithout(rows, own, none, none)),
		Figures: markdown(found) + "\n" + evaded,
	}, nil
}

// groups are those that a row counts in.
func groups(r *row) []string {
	switch {
	case r.Kind == kindPlain:
		return []string{"hostile " + kindPlain}
	case r.hostile:
		list := []string{"hostile", "hostile " + r.Kind, "hostile by " + r.repository(), "hostile in " + r.Lang}
		if !r.english() {
			list = append(list, "hostile outside English")
		}
		return list
	case slices.Contains(core, r.Kind):
		return []string{"benign", "benign " + r.Kind, "benign in " + r.Lang}
	case slices.Contains(orders, r.Kind):
		return []string{"benign orders", "benign " + r.Kind}
	}
	return []string{"benign " + r.Kind}
}

// rate is a share with its interval of 95 %.
func (f *figure) rate(n int) string {
	low, high := stats.Wilson(n, f.rows)
	return fmt.Sprintf("%.1f%% (%.1f–%.1f)", share100(n, f.rows), 100*low, 100*high)
}

// tabled are the groups of the table.
var tabled = []struct{ group, name string }{
	{"benign mail", "mail"}, {"benign chat", "chat, with links"}, {"benign answer", "answers"}, {"benign support", "support"}, {"benign review", "reviews"}, {"benign narrative", "narrative"},
	{"benign sentence", "sentences, 19 languages"}, {"benign", "all of these"}, {"benign mail_request", "requests in mail"}, {"benign notinject", "NotInject"}, {"benign command", "commands"}, {"benign prompt", "prompts"},
	{"hostile", "**hostile**, without plain questions"}, {"hostile task", "hostile tasks for tools"}, {"hostile outside English", "hostile, not English"},
}

func markdown(found map[string]*figure) string {
	var b strings.Builder
	b.WriteString("| sentences | number | `hold` holds | `hold_all` holds | refused |\n|---|---|---|---|---|\n")
	for _, g := range tabled {
		if f := found[g.group]; f != nil {
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %.1f%% |\n", g.name, f.rows, f.rate(f.held), f.rate(f.signed), share100(f.refused, f.rows))
		}
	}
	return b.String()
}

func share100(n, of int) float64 { return 100 * float64(n) / float64(of) }
