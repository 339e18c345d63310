package state

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The checks that a decision goes through are named in the order in which its
// code has them: the tables that explain a decision are read from the same lines
// that made it.
//
// covers P10, P11.1, P11.3
func TestChecksStandInTheOrderOfTheCode(t *testing.T) {
	t.Parallel()
	bodies := functionsOf(t)
	for kind, function := range map[bcp.DecisionKind]string{
		bcp.KindAsk: "DecideAsk", bcp.KindAnswer: "DecideAnswer", bcp.KindPush: "DecidePush", bcp.KindSession: "DecideSession", bcp.KindPropose: "propose",
		bcp.KindTaint: "DecideControl", bcp.KindApproval: "DecideApproval", bcp.KindViolation: "DecideViolation", bcp.KindErase: "DecideErase", bcp.KindEgress: "DecideEgress", bcp.KindUsage: "DecideUsage", bcp.KindEndorse: "DecideEndorse",
	} {
		var want []bcp.Check
		for _, c := range namedIn(bodies, function) {
			if !slices.Contains(want, c) {
				want = append(want, c)
			}
		}
		failIf(t, !slices.Equal(bcp.Checks(kind), want),
			"the checks of %s are\n%v, and its code has\n%v", kind, bcp.Checks(kind), want)
	}
}

// deciding are the functions that Decide methods have refuse for them.
var deciding = []string{"fromAgent", "fromKeeper", "fromUnsuspended", "escalate", "repeated", "fits", "limits", "refuseWithoutRoom", "judgeProposal", "refuseEgress", "settleEgress", "reserveEgress", "settleUsage", "reserveUsage", "rejected", "exceed", "refuse", "judgeApproval"}

// namedIn returns the checks that a function names, those of the functions that
// it calls at the place of the call.
func namedIn(bodies map[string]ast.Node, function string) (found []bcp.Check) {
	ast.Inspect(bodies[function], func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if c := checkNamed(n.Name); c != 0 {
				found = append(found, c)
			}
		case *ast.CallExpr:
			name := ""
			switch called := n.Fun.(type) {
			case *ast.SelectorExpr:
				name = called.Sel.Name
			case *ast.Ident:
				name = called.Name
			}
			if slices.Contains(deciding, name) {
				found = append(found, namedIn(bodies, name)...)
			}
		}
		return true
	})
	return found
}

func functionsOf(t *testing.T) map[string]ast.Node {
	t.Helper()
	bodies := make(map[string]ast.Node)
	for _, name := range must(filepath.Glob("*.go")) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		content := must(os.ReadFile(name))
		file := must(parser.ParseFile(token.NewFileSet(), name, content, 0))
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				bodies[f.Name.Name] = f.Body
			}
		}
	}
	return bodies
}

// checkNamed returns the check that a constant names: its word is the
// constant's, with underscores.
func checkNamed(constant string) bcp.Check {
	rest, ok := strings.CutPrefix(constant, "Check")
	if !ok {
		return 0
	}
	for _, info := range everyCheck() {
		if strings.ReplaceAll(info.Name, "_", "") == strings.ToLower(rest) {
			return info.Check
		}
	}
	return 0
}
