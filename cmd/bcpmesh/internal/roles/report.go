package roles

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/facts"
)

func reportCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	cmd := &cobra.Command{
		Use: "report",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reports, err := buildReports(cmd, p, &who)
			if err != nil {
				return err
			}
			if err := p.Out.Show(reports, func() { showReports(p.Out, reports) }); err != nil {
				return err
			}
			var not []string
			for _, r := range reports {
				if !r.Report.OK {
					not = append(not, r.Contract)
				}
			}
			switch {
			case len(reports) == 0:
				return cli.Failf("no agent of the mesh has a role").WithHint("a kernel gives agents roles: docs/kernel.md")
			case len(not) > 0:
				return cli.Failf("it is not shown that %s kept", is(not)).WithHint("docs/contracts.md says what shows each invariant")
			}
			return nil
		},
	}
	who.AddTo(cmd, "auditor")
	return cmd
}

func is(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

// kept is the report of one contract, and of whom it is.
type kept struct {
	Contract string          `json:"contract"`
	Agents   []bcp.AgentName `json:"agents"`
	Report   contract.Report `json:"report"`
}

// buildReports gathers the facts of a mesh, and reports on each contract that one of its
// agents keeps.
func buildReports(cmd *cobra.Command, p *cli.Program, who *client.Flags) ([]kept, error) {
	folder, err := who.Where.Folder()
	if err != nil {
		return nil, err
	}
	m, err := folder.Load()
	if err != nil {
		return nil, err
	}
	proven, jwts, err := meshdir.Prove(folder.State)
	if err != nil {
		return nil, err
	}
	f := facts.Of(m, proven, jwts, cli.ProgramVersion())
	if proven != nil {
		var monitor facts.Monitor
		if err := audit.EachDecision(cmd.Context(), p, who, monitor.Add); err != nil {
			return nil, err
		}
		f.Monitors = monitor.Facts()
	}
	contracts := definition.Contracts(m)
	reports := []kept{}
	for _, x := range listParts(m) {
		i := slices.IndexFunc(reports, func(k kept) bool { return k.Contract == x.Contract })
		if i < 0 {
			i = len(reports)
			reports = append(reports, kept{Contract: x.Contract, Report: contract.Verify(contracts[x.Contract], f)})
		}
		reports[i].Agents = append(reports[i].Agents, x.Agent)
	}
	return reports, nil
}

func showReports(o *cli.Output, reports []kept) {
	for i, k := range reports {
		if i > 0 {
			o.Printf("\n")
		}
		names := cli.Map(k.Agents, func(name bcp.AgentName) string { return string(name) })
		verdict := "is not shown to be kept"
		if k.Report.OK {
			verdict = "is kept"
		}
		o.Heading(k.Contract + " " + verdict + " by " + strings.Join(names, ", "))
		var rows [][]string
		for _, v := range k.Report.Invariants {
			verdict := string(v.Verdict)
			if v.But != "" {
				verdict += ", but for errors"
			}
			rows = append(rows, []string{v.ID, v.Predicate, v.Declared.String(), levels(v.Shown), verdict})
		}
		for _, w := range k.Report.Prohibited {
			verdict := string(contract.Holds)
			switch {
			case w.Fails:
				verdict = string(contract.Fails)
			case len(w.Shown) == 0:
				verdict = string(contract.Unverified)
			}
			rows = append(rows, []string{"never " + w.Word, w.Predicate, "", levels(w.Shown), verdict})
		}
		o.Table([]string{"invariant", "predicate", "declared", "shown", "verdict"}, rows)
		rows = nil
		for _, v := range k.Report.Invariants {
			for _, e := range v.Evidence {
				says := e.Detail
				if e.Against {
					says = "against it: " + says
				}
				if e.Record > 0 {
					says += ", first by record " + strconv.FormatUint(e.Record, 10)
				}
				rows = append(rows, []string{v.ID, e.Level.String(), e.By, cli.Plain(says)})
			}
			if v.But != "" {
				rows = append(rows, []string{v.ID, "", "but for", v.But})
			}
		}
		if len(rows) > 0 {
			o.Printf("\n")
			o.Table([]string{"invariant", "level", "by", "evidence"}, rows)
		}
	}
}

func levels(shown []contract.Level) string {
	if len(shown) == 0 {
		return "nowhere"
	}
	words := cli.Map(shown, func(l contract.Level) string { return l.String() })
	return strings.Join(words, ", ")
}
