package kernel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// A requester's rules are compiled before its message is decided about, and not again when
// its plan comes. What was prepared of other rules, another grant or other definitions is
// not taken for them; a rule that means nothing is refused whoever compiles it.
//
// covers A-SLOW
func TestOwnRulesArePrepared(t *testing.T) { // not parallel: it counts allocations
	k := mustKernel(t, nil)
	const task = `{"task":"Do it.","forbid":[{"tool":"*","when":"run.depth > 3"}]}`
	allocations := func(p *kernel.OwnRules, body string) float64 {
		g := newGateway(t, k)
		return testing.AllocsPerRun(5, func() {
			g.state.Adopt(p)
			expect(t, g.state.DecideRun(g.moment(), "desk", kim, "all", g.task, []byte(body)).Code, "", "refused")
		})
	}
	prepared := k.Prepare("kim", "all", []byte(task))
	compiled := allocations(nil, task)
	taken := allocations(prepared, task)
	failIf(t, taken > compiled/4, "%.0f allocations with rules that are compiled, %.0f without", taken, compiled)
	planned := func(body string) float64 {
		g := newGateway(t, k)
		g.store(g.state.DecideRun(g.moment(), "desk", kim, "all", g.task, []byte(body)))
		r := g.next(kernel.ReleasePlan)
		return testing.AllocsPerRun(5, func() {
			g.state.DecidePlan(g.moment(), r.Agent, r.Wait.ID, fmt.Appendf(nil, `{"plan_id":%q,"plan":%s}`, r.Wait.ID, mailPlan))
		})
	}
	with, without := planned(task), planned(`{"task":"Do it."}`)
	failIf(t, with > without+compiled/4, "%.0f allocations for a plan with rules, %.0f without, compiled are %.0f", with, without, compiled)
	for name, p := range map[string]*kernel.OwnRules{
		"other rules":       k.Prepare("kim", "all", []byte(strings.Replace(task, "> 3", "> 2", 1))),
		"other definitions": mustKernel(t, nil).Prepare("kim", "all", []byte(task)),
	} {
		taken := allocations(p, task)
		failIf(t, p == nil || taken < compiled/2, "%s: %.0f allocations, compiled are %.0f", name, taken, compiled)
	}
	for name, p := range map[string]*kernel.OwnRules{
		"no message":         k.Prepare("kim", "all", []byte(`{`)),
		"no rules":           k.Prepare("kim", "all", []byte(`{"task":"x"}`)),
		"no grant":           k.Prepare("kim", "none", []byte(task)),
		"nobody":             k.Prepare("eve", "all", []byte(task)),
		"a tool of nobody's": k.Prepare("kim", "all", []byte(strings.Replace(task, `"*"`, `"wipe"`, 1))),
	} {
		failIf(t, p != nil, "%s: something is prepared", name)
	}
	bad := strings.Replace(task, "run.depth > 3", "run.depth >", 1)
	for _, p := range []*kernel.OwnRules{nil, k.Prepare("kim", "all", []byte(bad)), prepared} {
		g := newGateway(t, k)
		g.state.Adopt(p)
		c := g.state.DecideRun(g.moment(), "desk", kim, "all", g.task, []byte(bad))
		failIf(t, c.Code != kernel.BadRule || c.Place == nil || c.Place.Rule != 1, "a rule that means nothing is %s at %+v", c.Code, c.Place)
	}
	g := newGateway(t, k)
	g.state.Adopt(k.Prepare("kim", "all", []byte(strings.Replace(task, "run.depth > 3", "true", 1))))
	g.store(g.state.DecideRun(g.moment(), "desk", kim, "all", g.task, []byte(strings.Replace(task, "run.depth > 3", "true", 1))))
	g.plan(mailPlan)
	if g.end(kernel.Blocked, kernel.Forbidden); fmt.Sprint(g.changes[1].Steps[0].Judged.Rules) != "[requester-1]" {
		t.Errorf("got %+v", g.changes[1].Steps[0].Judged)
	}
}
