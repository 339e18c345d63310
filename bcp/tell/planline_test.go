package tell_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// A plan is told in the planner's words, each kind of step in a line.
//
// covers KER-31
func TestPlanLines(t *testing.T) {
	t.Parallel()
	got := tell.PlanLines([]byte(`{"steps":[{"kind":"const","id":"me","value":"kim"},{"kind":"tool","id":"t","tool":"look","args":{"a":{"ref":"me"},"b":[1,"x"]}},
		{"kind":"q_parse","id":"p","source":{"ref":"t","path":"body"},"schema_ref":"Mood","instruction":"Angry?"},
		{"kind":"subkernel","id":"s","source":{"ref":"t"},"instruction":"Do it.","grant":["a"]},{"kind":"merge","id":"m","inputs":{"x":{"ref":"p"}}},
		{"kind":"each","id":"e","over":{"ref":"t"},"as":"it","max":3,"do":[{"kind":"tool","id":"u","tool":"look"}]},
		{"kind":"each","id":"f","over":{"ref":"t"},"as":"it","max":3,"do":[{"kind":"tool","id":"v","tool":"look"}],"collect":{"y":{"ref":"v"}}},{"kind":"result","id":"r","source":{"ref":"p"},"schema_ref":"mood"}],"final":"r"}`))
	want := []string{`me = "kim"`, `t = look(a: me, b: [1, "x"])`, "p = a reader's Mood of t.body: Angry?", "s = a sub-run over t: Do it.", "m = {x: p}",
		"e = for each it of t, at most 3", "e / u = look()", "f = for each it of t, at most 3, gives lists {y: v}", "f / v = look()", "r = returns p as mood", "final: r"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := tell.PlanLines([]byte(`{}`)); got != nil {
		t.Errorf("no plan is %q", got)
	}
}
