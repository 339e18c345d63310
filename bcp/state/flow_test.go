package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What a state does never goes beyond what its definitions say, and gets there.
//
// covers P8.2, P8.3, A-NEUTRAL
func TestFlowBoundsExposure(t *testing.T) {
	t.Parallel()
	names := []bcp.AgentName{"clerk", "planner", "relay"}
	worst := newWorld(t, testMesh()).play(`
		ask relay mail yes               => accept
		answer mail 1 {"ok":true}        => taint:medium
		push mail clerk alarm {"n":1}    => taint:medium
		push relay planner alarm {"ok":true} => taint:medium`)
	for _, a := range bcp.FlowOf(testMesh()).Agents {
		if slices.Contains(names, a.Name) && (a.Exposure != bcp.TaintMedium || worst.state.Exposure(a.Name) != a.Exposure || a.Base != bcp.TaintLow) {
			t.Errorf("%+v, and is exposed to %s", a, worst.state.Exposure(a.Name))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		mesh := testMesh()
		for i := range mesh.Agents {
			mesh.Agents[i].BaseTaint = bcp.Taint(rapid.IntRange(0, 3).Draw(rt, "taint"))
		}
		f := bcp.FlowOf(mesh)
		w := newWorld(t, mesh)
		for range rapid.IntRange(0, 8).Draw(rt, "acts") {
			for line := range strings.Lines(rapid.SampledFrom([]string{
				"ask relay mail yes \n answer mail " + fmt.Sprint(len(w.queries)+1) + ` {"ok":true}`,
				"ask planner web yes \n answer web " + fmt.Sprint(len(w.queries)+1) + ` {"ok":true}`,
				`push mail planner alarm {"ok":true}`, `push mail clerk alarm {"n":1}`, `push relay planner alarm {"ok":true}`,
				"close relay", "open planner",
			}).Draw(rt, "act")) {
				w.act(line)
			}
		}
		w.play("")
		for i, a := range f.Agents {
			failIf(rt, slices.Contains(names, a.Name) && w.state.Exposure(a.Name) > a.Exposure,
				"%s is exposed to %s, at worst %s", a.Name, w.state.Exposure(a.Name), a.Exposure)
			got := w.state.answerTaint(a.Name, w.now.UnixNano())
			failIf(rt, got > f.Agents[i].Answers, "%s answers with %s, at worst %s", a.Name, got, a.Answers)
		}
	})
}
