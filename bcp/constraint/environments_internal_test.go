package constraint

import (
	"fmt"
	"testing"

	"cel.dev/cel-go/cel"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The expressions of a spec, and the rules of a tool, have one environment; other names or
// kinds have another. What is kept is bounded.
//
// covers P3.7, A-FLOODRESP
func TestOneEnvironmentForASpec(t *testing.T) {
	t.Parallel()
	same := func(a, b []bcp.Variable) bool {
		x, err := environmentFor(a)
		y, errY := environmentFor(b)
		if err != nil || errY != nil {
			t.Fatal(err, errY)
		}
		return x == y
	}
	names := []bcp.Variable{{Name: "only_here", Kind: bcp.KindBool}, {Name: "n", Kind: bcp.KindInt}}
	if !same(names, []bcp.Variable{names[0], names[1]}) || same(names, names[:1]) || same(names, []bcp.Variable{names[0], {Name: "n", Kind: bcp.KindText}}) {
		t.Error("environments are of other names, or not kept")
	}
	facts := []FactName{{Name: "only.here", Kind: FactBool}}
	one, err := ruleEnvironment(facts)
	if two, errTwo := ruleEnvironment(facts); err != nil || errTwo != nil || one != two {
		t.Errorf("%v, %v: the rules of a tool have two environments", err, errTwo)
	}
	made := map[*cel.Env]bool{}
	e := environments{language: base}
	for i := range maxEnvironments + 1 {
		for range 2 {
			environment, err := e.with([]named{{fmt.Sprint("v", i), cel.BoolType}})
			if err != nil {
				t.Fatal(err)
			}
			made[environment] = true
		}
	}
	if len(made) != maxEnvironments+1 || len(e.made) > maxEnvironments {
		t.Errorf("made %d, keeps %d", len(made), len(e.made))
	}
}
