package exact

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// gameKernel looks and writes; it writes what content had a part in if that is true.
var gameKernel = func() *kernel.Kernel {
	shape := func(schema string) *kernel.Type {
		t, err := kernel.ParseType([]byte(schema))
		if err != nil {
			panic(err)
		}
		return t
	}
	boolean, caps := shape(`{"type":"boolean"}`), []kernel.Capability{"all"}
	limits := kernel.DefaultLimits()
	limits.MaxPlans, limits.RunTTL, limits.ApprovalTTL = 3, 5*gameSlot, 3*gameSlot/2
	k, defects := kernel.New(kernel.Definition{
		Name: "desk", Planner: "planner", Limits: limits, UntestedRules: true,
		Requesters: map[bcp.AgentName][]string{"main": {"all"}}, Grants: map[string][]kernel.Capability{"all": caps},
		Tools: []kernel.Tool{
			{Service: "files", Name: "look", Level: kernel.Read, RequiredCaps: caps, Input: shape(`{"type":"object","properties":{}}`), Output: boolean},
			{Service: "files", Name: "write", Level: kernel.Write, RequiredCaps: caps, Input: shape(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`), Output: boolean},
		},
		Schemas: []kernel.Schema{{Name: "Yes", Reader: "mail", Spec: parse(askYes)}},
		Rules: []kernel.Rule{
			{ID: "read", Effect: kernel.Declassify, Tool: "write", When: "args.ok.tainted && task.influence == 0 && !control.tainted"},
			{ID: "no", Effect: kernel.Forbid, Tool: "write", When: "!args.ok.value", ReadsData: true},
			{ID: "ask", Effect: kernel.Ask, Tool: "write", When: "args.ok.tainted && task.influence == 0"},
		},
	})
	if len(defects) > 0 {
		panic(defects)
	}
	return k
}()

// The plans of a game: one that content has no part in, and one that it has.
const (
	writePlan = `{"steps":[{"kind":"tool","id":"w","tool":"write","args":{"ok":true}}],"final":"w"}`
	readPlan  = `{"steps":[{"kind":"tool","id":"l","tool":"look"},{"kind":"q_parse","id":"p","source":{"ref":"l"},"schema_ref":"Yes","instruction":"Is it?"},
{"kind":"tool","id":"w","tool":"write","args":{"ok":{"ref":"p","path":"ok"}}}],"final":"w"}`
)

// runs returns the state of the runs with a moment of theirs.
func (p *Position) runs() (*kernel.State, bcp.Moment) {
	m := p.moment()
	m.Now = p.state.JournalTime(m)
	return p.state.Runs(), m
}

// begin is an act of the Controller: it asks its kernel for a run.
func (p *Position) begin(message string) bool {
	runs, m := p.runs()
	task := kernel.Trusted()
	if bits, told := p.state.Told(p.game.Controller, m); told {
		task = kernel.Told(kernel.Width((bits + bcp.Bit - 1) / bcp.Bit))
	}
	c := runs.DecideRun(m, "desk", kernel.Requester{Name: string(p.game.Controller)}, "all", task, []byte(message))
	if p.record(m, &c, p.game.Controller); c.Wait == nil && c.Code != kernel.Repeated {
		p.tell("run refused: %s", c.Code)
		return false
	}
	p.run = c.Run
	return true
}

// Run is an act of the Controller: it asks its kernel for a plan, which is always the same,
// and hears whether it would be allowed. That depends on what the Controller was told.
func (p *Position) Run() {
	if p.begin(`{"task":"write","plan_only":true}`) {
		p.plan(writePlan)
		p.hearEnd()
	}
}

// Read is an act of the Controller: it has its kernel read, and write what it read.
func (p *Position) Read() { p.begin(`{"request_id":"r","task":"read"}`) }

// Ended is an act of the Controller: it hears how its run ended, which it asks for again
// once it has begun anew.
func (p *Position) Ended() {
	p.hearEnd()
	p.Session("open")
	if bits, _ := p.state.Told(p.game.Controller, p.moment()); bits != 0 {
		p.fail(fmt.Errorf("after it began anew, the Controller was told %s", bits))
	}
	before := p.capacity
	p.Read()
	p.hearEnd()
	if bits, _ := p.state.Told(p.game.Controller, p.moment()); bits != p.capacity-before || bits == 0 {
		p.fail(fmt.Errorf("the end of a run that it heard of again told it %s, %s are charged", bits, p.capacity-before))
	}
	p.Session("close")
	p.Session("open")
}

func (p *Position) hearEnd() {
	runs, _ := p.runs()
	receipt, _ := runs.Receipt(p.run, nil)
	p.tell("run: %s %s", receipt.Status, receipt.Code)
}

// waits returns what the run waits for.
func (p *Position) waits() kernel.Release {
	runs, _ := p.runs()
	for _, id := range runs.Unanswered() {
		r, _ := runs.Waiting(id)
		return r
	}
	for _, r := range runs.Pending() {
		return r
	}
	return kernel.Release{}
}

// plan answers the planner's request.
func (p *Position) plan(plan string) {
	runs, m := p.runs()
	id := p.waits().Wait.ID
	c := runs.DecidePlan(m, "planner", id, fmt.Appendf(nil, `{"plan_id":%q,"plan":%s}`, id, plan))
	p.record(m, &c, "planner")
}

// answering offers what the Readers, tools and people that a run waits for can do.
func answering(p *Position) (moves []Move) {
	add := func(decide func(*kernel.State, bcp.Moment, string) kernel.Change) {
		moves = append(moves, func(p *Position) {
			runs, m := p.runs()
			c := decide(runs, m, p.waits().Wait.ID)
			p.record(m, &c, "")
		})
	}
	switch wait := p.waits().Wait; wait.Kind {
	case kernel.WaitReader:
		for answer, code := range map[string]bcp.Code{yes: "", no: "", "1": bcp.NotEnoughInformation, "2": bcp.Expired, "3": bcp.Rejected, "4": bcp.Unavailable} {
			add(func(s *kernel.State, m bcp.Moment, id string) kernel.Change {
				return s.DecideAnswer(m, id, []byte(answer), code)
			})
		}
	case kernel.WaitTool:
		for _, outcome := range []string{`"result":true`, `"result":1`, `"error":"no"`, `"error":"no","not_performed":true,"code":"tool_changed"`} {
			add(func(s *kernel.State, m bcp.Moment, id string) kernel.Change {
				return s.DecideOutcome(m, "files", id, wait.Attempt, fmt.Appendf(nil, `{"call_id":%q,%s}`, id, outcome))
			})
		}
	case kernel.WaitApproval, kernel.WaitDoubt:
		can := []kernel.PersonDecision{kernel.Approve, kernel.Reject}
		if wait.Kind == kernel.WaitDoubt {
			can = []kernel.PersonDecision{kernel.Reject, kernel.Done, kernel.NotDone}
		}
		for _, person := range can {
			add(func(s *kernel.State, m bcp.Moment, id string) kernel.Change {
				return s.DecidePerson(m, id, person, []byte("true"))
			})
		}
	default:
		moves = []Move{doNothing}
	}
	return moves
}

// replan has the planner plan the same whenever it is asked, which is told if it is the one
// that hears.
func (p *Position) replan() {
	if r := p.waits(); r.Kind == kernel.ReleasePlan {
		if p.game.Planner {
			p.tell("%s", strings.ReplaceAll(string(r.Body), r.Wait.ID, "it"))
		}
		p.plan(readPlan)
	}
}

// record commits what a kernel decided, with what it tells whoever hears.
func (p *Position) record(m bcp.Moment, c *kernel.Change, from bcp.AgentName) {
	d := p.commit(p.state.DecideRun(m, c, from, nil))
	e := event{slot: p.Now(), part: "the run", run: true}
	switch {
	case p.game.Planner && c.Told != nil:
		e.charge, e.what = bcp.Bits(c.Totals.PlannerBits)*bcp.Bit-p.capacity, fmt.Sprintf("error %s %s", c.Told.Step, c.Told.Code)
	case !p.game.Planner && d.Capacity > 0:
		e.charge, e.what = d.Capacity, fmt.Sprintf("end %s %s", c.End.Status, c.End.Code)
	default:
		return
	}
	p.capacity += e.charge
	p.charged = append(p.charged, e)
}
