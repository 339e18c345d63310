package bcp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The checks that a decision goes through are named in the order in which its
// code has them: the tables that explain a decision are read from the same lines
// that made it.
//
// covers P10, P11.1, P11.3
func TestChecksStandInTheOrderOfTheCode(t *testing.T) {
	t.Parallel()
	bodies := functionsOf(t)
	for kind, function := range map[DecisionKind]string{
		KindAsk: "DecideAsk", KindAnswer: "DecideAnswer", KindPush: "DecidePush", KindSession: "DecideSession", KindPropose: "propose",
		KindTaint: "DecideControl", KindApproval: "DecideApproval", KindViolation: "DecideViolation", KindErase: "DecideErase", KindEgress: "DecideEgress",
	} {
		var want []Check
		for _, c := range namedIn(bodies, function) {
			if !slices.Contains(want, c) {
				want = append(want, c)
			}
		}
		if !slices.Equal(Checks(kind), want) {
			t.Errorf("the checks of %s are\n%v, and its code has\n%v", kind, Checks(kind), want)
		}
	}
}

// deciding are the functions that Decide methods have refuse for them.
var deciding = []string{"escalate", "repeated", "fits", "limits", "room", "judgeProposal", "refuseEgress", "settleEgress", "reserveEgress", "rejected", "exceed", "refuse", "judgeApproval"}

// namedIn returns the checks that a function names, those of the functions that
// it calls at the place of the call.
func namedIn(bodies map[string]ast.Node, function string) (found []Check) {
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
	for _, name := range []string{"decide.go", "proposal.go", "first.go", "budget.go", "operate.go", "approval.go", "effect.go", "erase.go", "egressdecision.go"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, 0)
		if err != nil {
			t.Fatal(err)
		}
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
func checkNamed(constant string) Check {
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

// Every check has its number, its rule and its word, and some kind of decision
// makes it.
//
// covers P11.1
func TestChecksAreFrozen(t *testing.T) {
	t.Parallel()
	used := map[Check]bool{}
	for _, kind := range DecisionKinds() {
		for _, c := range Checks(kind) {
			used[c] = true
		}
	}
	protocol, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for i, info := range checks[1:] {
		word, err := info.Check.MarshalText()
		var back Check
		if back.UnmarshalText(word) != nil || back != info.Check || int(info.Check) != i+1 || err != nil || string(word) != info.Name || info.Check.String() != info.Name || !used[info.Check] {
			t.Errorf("check %d is %+v, %q, %v, used %v", i+1, info, word, err, used[info.Check])
		}
		if !strings.Contains(string(protocol), info.Rule) {
			t.Errorf("%s: no rule %s", info.Name, info.Rule)
		}
		words = append(words, info.Name)
	}
	const want = "refusals message channel_first shape repeat channel category spec justified own_words session_failed escalations cat2_queries " +
		"budget push_budget capacity_budget window_budget total_budget reader outbox query answered cancelled deadline no_information answer queue " +
		"subscription controller act item in_time digest approver signature stands approval permission erasure rate filter batch keeper network links egress_budget egress_bytes"
	if got := strings.Join(words, " "); got != want {
		t.Errorf("checks are %s", got)
	}
	for _, c := range []Check{0, Check(len(checks)), 255} {
		if word, err := c.MarshalText(); err == nil || c.UnmarshalText([]byte("other")) == nil || c.String() != "invalid" || c.Info() != (CheckInfo{}) {
			t.Errorf("check %s is written %q", strconv.Itoa(int(c)), word)
		}
	}
}
