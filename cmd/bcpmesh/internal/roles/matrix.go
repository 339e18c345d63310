package roles

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

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
