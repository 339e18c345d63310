package roles

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func contractsCommand(p *cli.Program) *cobra.Command {
	var name string
	cmd := cli.Command("contracts [FILE...]", func(_ context.Context, args []string) error {
		if name == "" {
			return showContracts(p, args)
		}
		if len(args) > 0 {
			return cli.Usagef("role contracts: --print takes no files").WithHint("leave one out")
		}
		return printContract(p, name)
	})
	cmd.Flags().StringVar(&name, "print", "", "print the built-in contract of this `NAME`, byte for byte")
	cli.Complete(cmd, "print", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return builtinNames(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func builtinNames() []string {
	names := cli.Map(contract.Builtins(), func(b contract.Builtin) string { return b.Name })
	return names
}

func printContract(p *cli.Program, name string) error {
	for _, b := range contract.Builtins() {
		if b.Name == name {
			p.Out.Printf("%s", b.Bytes)
			return nil
		}
	}
	return cli.Usagef("role contracts: no built-in contract %s", cli.Quoted(name)).WithHint("there are %s", strings.Join(builtinNames(), ", ")).Near(name, builtinNames())
}

// contractReport is what is known of one contract.
type contractReport struct {
	Name string `json:"name"` // of a file, or of a built-in contract
	OK   bool   `json:"ok"`
	contract.Contract
	Defects []contractDefect `json:"defects,omitempty"`
}

type contractDefect struct {
	contract.Defect
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

func reportContract(name string, b []byte) contractReport {
	c, defects := contract.Parse(b)
	place := definition.DefectPlaces(b)
	return contractReport{name, len(defects) == 0, c, cli.Map(defects, func(d contract.Defect) contractDefect {
		line, column := place(d)
		return contractDefect{d, line, column, d.Code.Text()}
	})}
}

func showContracts(p *cli.Program, files []string) error {
	var reports []contractReport
	for _, b := range contract.Builtins() {
		if len(files) == 0 {
			reports = append(reports, reportContract(b.Name, []byte(b.Bytes)))
		}
	}
	for _, file := range files {
		b, err := cli.ReadFile(file, contract.MaxContract)
		if err != nil {
			return err
		}
		reports = append(reports, reportContract(file, b))
	}
	bad := 0
	for i := range reports {
		if !reports[i].OK {
			bad++
		}
	}
	if err := p.Out.Show(reports, func() { showContractReports(p.Out, reports) }); err != nil {
		return err
	}
	if bad > 0 {
		return cli.Failf("%s with defects", cli.Count(bad, "contract")).WithHint("docs/contracts.md has the format, its words and its predicates")
	}
	return nil
}

// showContractReports shows contracts one after the other.
func showContractReports(o *cli.Output, reports []contractReport) {
	for i := range reports {
		r := &reports[i]
		if i > 0 {
			o.Printf("\n")
		}
		if !r.OK {
			for _, d := range r.Defects {
				o.Printf("%s:%d:%d: ", cli.Plain(r.Name), d.Line, d.Column)
				if d.Where != "" {
					o.Printf("%s: ", d.Where)
				}
				o.Printf("%s (%s)\n", d.Message, d.Code)
			}
			continue
		}
		digest, _ := r.Digest.MarshalText()
		o.Heading(cli.Plain(r.Name) + ": " + string(r.Role) + ", sha256:" + string(digest))
		rows := cli.Map(r.Invariants, func(v contract.Invariant) []string {
			return []string{v.ID, v.Predicate.String(), v.Enforcement, v.Level.String()}
		})
		o.Table([]string{"invariant", "predicate", "enforcement", "level"}, rows)
	}
}
