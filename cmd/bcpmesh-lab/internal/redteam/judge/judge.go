// Package judge makes the table of what words weigh (package text), and measures it. It reads sentences, and our own phrases and
// orders; the same sentences give the same table, byte for byte, on every machine.
package judge

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp/text"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/stats"
)

// Run measures tables of the sentences of a folder, which has benign.jsonl and hostile.jsonl, and returns the table of all of them.
func Run(folder fs.FS, out io.Writer) ([]byte, error) {
	rows, err := load(folder)
	if err != nil {
		return nil, err
	}
	own, err := own()
	if err != nil {
		return nil, err
	}
	return limitsFor(rows, own, none).write(tableWithout(rows, own, none, none)), show(out, crossValidate(rows, own), rows)
}

// show prints both errors, by kind, language and collection.
func show(out io.Writer, rules [folds]*text.Rules, rows []row) error {
	found, err := figures(rules, rows, func(r *row) []string {
		side := "benign"
		if r.hostile {
			side = "hostile"
			if r.Kind == kindPlain {
				return []string{"hostile " + kindPlain}
			}
			return []string{"hostile", "hostile " + r.Kind, "hostile by " + r.repository(), "hostile in " + r.Lang}
		}
		list := []string{side + " " + r.Kind}
		if slices.Contains(core, r.Kind) {
			list = append(list, "benign of bounded kinds", side+" in "+r.Lang)
		}
		if slices.Contains(orders, r.Kind) {
			list = append(list, "benign orders")
		}
		return list
	})
	if err != nil {
		return err
	}
	for _, group := range slices.Sorted(maps.Keys(found)) {
		f := found[group]
		low, high := stats.Wilson(f.held, f.rows)
		fmt.Fprintf(out, "%-45s %5d  held %5.1f %% (%.1f to %.1f)  hold_all %5.1f %%  refused %4.1f %%\n", group, f.rows, share100(f.held, f.rows), 100*low, 100*high, share100(f.signed, f.rows), share100(f.refused, f.rows))
	}
	return nil
}

func share100(n, of int) float64 { return 100 * float64(n) / float64(of) }
