package contract_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// The matrix is the draft's, with a row for tools; what is not in it is not seen.
func TestMatrix(t *testing.T) {
	t.Parallel()
	want := map[contract.Role][4]contract.Sight{
		contract.Planner:      {"yes", "no", "own", "no"},
		contract.Processor:    {"no", "no", "no", "yes"},
		contract.Orchestrator: {"yes", "yes", "yes", "metadata"},
		contract.User:         {"yes", "yes", "yes", "yes"},
		contract.Tool:         {"no", "own", "no", "no"},
		"":                    {"no", "no", "no", "no"},
		"supervisor":          {"no", "no", "no", "no"},
	}
	for role, sights := range want {
		for i, column := range contract.Columns() {
			expect(t, contract.Sees(role, column).Sees, sights[i], "%s sees of %s", role, column)
		}
		expect(t, contract.Sees(role, "secrets").Sees, contract.SeesNot, "%s sees of a column that is none", role)
	}
	cells := contract.Matrix()
	stopIf(t, len(cells) != len(contract.Roles())*len(contract.Columns()), "%d cells", len(cells))
	for i, cell := range cells {
		failIf(t, cell.Role != contract.Roles()[i/4] || cell.Column != contract.Columns()[i%4] || cell.How == "",
			"cell %d is %+v", i, cell)
	}
}

// There are eight ways between roles, each with the orchestrator at one end. A task of
// a user comes to the planner through the orchestrator; nothing else passes through it.
func TestEdges(t *testing.T) {
	t.Parallel()
	direct := map[[2]contract.Role]bool{
		{"user", "orchestrator"}: true, {"orchestrator", "planner"}: true, {"planner", "orchestrator"}: true, {"orchestrator", "tool"}: true,
		{"tool", "orchestrator"}: true, {"orchestrator", "processor"}: true, {"processor", "orchestrator"}: true, {"orchestrator", "user"}: true,
	}
	for _, from := range contract.Roles() {
		for _, to := range contract.Roles() {
			want := contract.NoPassage
			switch {
			case direct[[2]contract.Role{from, to}]:
				want = contract.Direct
			case from == contract.User && to == contract.Planner:
				want = contract.ByOrchestrator
			}
			expect(t, contract.Between(from, to), want, "%s to %s", from, to)
		}
	}
	families := map[string]bool{}
	for _, e := range contract.Edges() {
		failIf(t, !direct[[2]contract.Role{e.From, e.To}] || families[e.Family], "%+v", e)
		families[e.Family] = true
	}
	failIf(t, len(families) != 8, "%d ways", len(families))
}
