package exact

import (
	"cmp"
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// gameKernel has one tool, which writes, and no rule: what content had a part in may not
// be written.
var gameKernel = func() *kernel.Kernel {
	shape := func(schema string) *kernel.Type {
		t, err := kernel.ParseType([]byte(schema))
		if err != nil {
			panic(err)
		}
		return t
	}
	k, defects := kernel.New(kernel.Definition{
		Name: "desk", Planner: "planner", Limits: kernel.DefaultLimits(),
		Requesters: map[bcp.AgentName][]string{"main": {"all"}}, Grants: map[string][]kernel.Capability{"all": {"write"}},
		Tools: []kernel.Tool{{Service: "files", Name: "write", Level: kernel.Write, RequiredCaps: []kernel.Capability{"write"},
			Input: shape(`{"type":"object","properties":{"text":{"type":"string"}}}`), Output: shape(`{"type":"boolean"}`)}},
	})
	if len(defects) > 0 {
		panic(defects)
	}
	return k
}()

// Run is an act of the Controller: it asks its kernel for a plan, which is always the same,
// and hears whether it would be allowed. That depends on what the Controller was told.
func (p *Position) Run() {
	runs, _ := p.state.Runs().(*kernel.State)
	if runs == nil {
		p.fail(fmt.Errorf("the game has no kernel"))
		return
	}
	m := p.moment()
	m.Now = p.state.JournalTime(m)
	task := kernel.Trusted()
	if bits, told := p.state.Told(p.game.Controller, m); told {
		task = kernel.Told(kernel.Width((bits + bcp.Bit - 1) / bcp.Bit))
	}
	c := runs.DecideRun(m, "desk", kernel.Requester{Name: string(p.game.Controller)}, "all", task, []byte(`{"task":"write","plan_only":true}`))
	if c.Wait == nil {
		p.tell("run refused: %s", c.Code)
		return
	}
	p.record(m, runs, &c, p.game.Controller)
	plan := fmt.Appendf(nil, `{"plan_id":%q,"plan":{"steps":[{"kind":"tool","id":"w","tool":"write","args":{"text":"x"}}],"final":"w"}}`, c.Wait.ID)
	run := c.Run
	c = runs.DecidePlan(m, "planner", c.Wait.ID, plan)
	p.record(m, runs, &c, "planner")
	status, _ := runs.Status(run)
	p.tell("run: %s %s", cmp.Or(string(status.Status), bcp.RunOpen), status.Code)
}

// record commits what a kernel decided.
func (p *Position) record(m bcp.Moment, runs *kernel.State, c *kernel.Change, from bcp.AgentName) {
	r := runs.Record(c, from)
	if c.Start != nil {
		r.Agent, r.Role = from, bcp.RoleController
	}
	p.commit(p.state.DecideRun(m, r))
}
