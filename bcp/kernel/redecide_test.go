package kernel_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// Every record of every run of these tests is decided again when it is stored, and is the
// same: see gateway.redecides. What was changed in a record, or is decided under other
// definitions, is another.
//
// covers DUAL-19
func TestRedecideFindsWhatIsAnother(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(*kernel.Change){
		"nothing":    func(*kernel.Change) {},
		"a verdict":  func(c *kernel.Change) { c.Steps[1].Judged.Code = kernel.Declassified },
		"a label":    func(c *kernel.Change) { c.Steps[0].Label = tainted() },
		"a key":      func(c *kernel.Change) { c.Wait.Key[0] ^= 1 },
		"a total":    func(c *kernel.Change) { c.Totals.Effects = 0 },
		"a deadline": func(c *kernel.Change) { c.Deadline++ },
		"a call":     func(c *kernel.Change) { c.Private.Arguments = []byte(`{"to":"evil@example.com"}`) },
	} {
		g := newGateway(t, mustKernel(t, nil))
		g.begin("all")
		request := g.next(kernel.ReleasePlan)
		message := []byte(`{"plan_id":"` + request.Wait.ID + `","plan":` + mailPlan + `}`)
		decided := g.state.DecidePlan(g.moment(), "planner", request.Wait.ID, message)
		recorded, err := kernel.ParseChange(decided.AppendJSON(nil), decided.Private.AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		forge(&recorded)
		again, possible := g.state.Redecide(&recorded, "planner", g.salt, message)
		if same := again.Same(&recorded); !possible || same != (name == "nothing") {
			t.Errorf("%s: possible %t, the same %t", name, possible, same)
		}
		g.state.Define(mustKernel(t, func(d *kernel.Definition) { d.Limits.MaxEffects = 0 }), mustKernel(t, func(d *kernel.Definition) { d.Name, d.Tools, d.Rules = "desk", nil, nil }))
		if again, possible := g.state.Redecide(&recorded, "planner", g.salt, message); !possible || again.Same(&recorded) {
			t.Errorf("%s: other definitions decide the same", name)
		}
	}
}
