package simulate

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func roleMatrixCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "matrix",
		Short: "Show what each role sees and sends to whom",
		Long: `Show what each role sees, and whom it speaks to: the isolation matrix of the
dual-execution draft with a row for tools, and the only eight ways between roles.

  yes       it sees all that is meant for it
  own       it sends its own, and hears nothing of this kind
  metadata  it carries the bytes; what it decides depends on labels
  no        it sees nothing`,
		Example: "  bcpmesh role matrix\n  bcpmesh role matrix --json",
		Args:    cli.Arguments(0),
		RunE:    func(*cobra.Command, []string) error { return showMatrix(p) },
	}
}

// matrixCell is a cell of the isolation matrix in JSON.
type matrixCell struct {
	Role   contract.Role   `json:"role"`
	Column contract.Column `json:"column"`
	Sees   contract.Sight  `json:"sees"`
	How    string          `json:"how"`
}

type matrixEdge struct {
	From    contract.Role `json:"from"`
	To      contract.Role `json:"to"`
	Message string        `json:"message"`
	Family  string        `json:"family"`
}

type matrixReport struct {
	Cells []matrixCell `json:"cells"`
	Edges []matrixEdge `json:"edges"`
}

func showMatrix(p *cli.Program) error {
	var report matrixReport
	for _, c := range contract.Matrix() {
		report.Cells = append(report.Cells, matrixCell(c))
	}
	for _, e := range contract.Edges() {
		report.Edges = append(report.Edges, matrixEdge(e))
	}
	if p.Out.JSON {
		return p.Out.Value(report)
	}
	header := []string{"can see"}
	for _, column := range contract.Columns() {
		header = append(header, words(string(column)))
	}
	var rows [][]string
	for _, role := range contract.Roles() {
		row := []string{string(role)}
		for _, column := range contract.Columns() {
			row = append(row, string(contract.Sees(role, column).Sees))
		}
		rows = append(rows, row)
	}
	p.Out.Table(header, rows)
	rows = nil
	for _, e := range report.Edges {
		rows = append(rows, []string{string(e.From), string(e.To), e.Message, e.Family})
	}
	p.Out.Printf("\n")
	p.Out.Table([]string{"from", "to", "message", "subjects"}, rows)
	return nil
}

// words writes a word of the format for people.
func words(word string) string { return strings.ReplaceAll(word, "_", " ") }
