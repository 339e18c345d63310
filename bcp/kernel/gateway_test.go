package kernel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// gateway does with decisions what a real one does: it stores a record, applies it,
// and only then sends. After every record the state that the records make is
// compared with the one that lives.
type gateway struct {
	t       fataler
	kernels []*kernel.Kernel
	state   *kernel.State
	now     time.Time
	ids     int
	records [][2][]byte
	changes []kernel.Change
	sent    []kernel.Release // in order
	todo    []kernel.Release
	task    kernel.Label
	salt    [16]byte
	replay  bool // keep records, and compare after every one
	killed  bool // after every one
	settled bool // what tell returns is no choice of content
	heard   *heard
}

// heard is what the next change is about.
type heard struct {
	from    bcp.AgentName
	message []byte
}

// hears says what the next change is about.
func (g *gateway) hears(from bcp.AgentName, message string) []byte {
	g.heard = &heard{from, []byte(message)}
	return g.heard.message
}

// redecides decides about the newest record again, before it is applied.
func (g *gateway) redecides(record [2][]byte, endorsed *bcp.EndorseChange) {
	g.t.Helper()
	of := g.heard
	if g.heard = nil; of == nil {
		return
	}
	c, err := kernel.ParseChange(record[0], record[1])
	stopIf(g.t, err != nil, "%v: %s", err, record[0])
	c.Endorsed = endorsed // beside it
	again, possible := g.state.Redecide(&c, of.from, g.salt, of.message)
	if !possible {
		stopIf(g.t, c.Result == nil || c.Result.Code != kernel.LimitValueBytes, "not decided again: %s", record[0])
	} else if !again.Same(&c) {
		g.t.Fatalf("decided again otherwise:\nfirst %s\n      %s\nagain %s\n      %s", record[0], record[1], again.AppendJSON(nil), again.Private.AppendJSON(nil))
	}
}

func newGateway(t fataler, kernels ...*kernel.Kernel) *gateway {
	return &gateway{t: t, kernels: kernels, state: kernel.NewState(kernels...), now: start, task: kernel.Trusted(), replay: true}
}

// planned is a gateway with a run under the grant of everything, its plan, and what its first
// calls returned.
func planned(t fataler, k *kernel.Kernel, plan string, results ...string) *gateway {
	g := begun(t, k)
	g.plan(plan, results...)
	return g
}

// begun is such a gateway that waits for the plan.
func begun(t fataler, k *kernel.Kernel) *gateway {
	g := newGateway(t, k)
	g.begin("all")
	return g
}

func (g *gateway) moment() bcp.Moment {
	g.ids++
	g.now = g.now.Add(time.Second)
	return bcp.Moment{Now: g.now, Fresh: fmt.Sprintf("%024d", g.ids), Salt: g.salt}
}

// store records a decision and sends what follows from it.
func (g *gateway) store(c kernel.Change) kernel.Change {
	g.t.Helper()
	if g.replay {
		size := len(c.AppendJSON(nil)) + len(c.Private.AppendJSON(nil))
		stopIf(g.t, size > 1<<20, "a record of %d bytes fits no message", size)
		g.records = append(g.records, [2][]byte{c.AppendJSON(nil), c.Private.AppendJSON(nil)})
		g.redecides(g.records[len(g.records)-1], c.Endorsed)
	}
	err := g.state.Apply(&c)
	stopIf(g.t, err != nil, "after %d changes: %v", len(g.changes), err)
	g.changes = append(g.changes, c)
	if g.replay {
		g.compare()
	}
	out := g.state.Releases(&c)
	g.sent, g.todo = append(g.sent, out...), append(g.todo, out...)
	return c
}

// replayed is the state that the records make.
func (g *gateway) replayed() *kernel.State {
	g.t.Helper()
	s := kernel.NewState() // Apply needs no definitions
	for i, r := range g.records {
		c, err := kernel.ParseChange(r[0], r[1])
		stopIf(g.t, err != nil, "record %d: %v: %s", i+1, err, r[0])
		if again := c.AppendJSON(nil); !bytes.Equal(again, r[0]) || !bytes.Equal(c.Private.AppendJSON(nil), r[1]) {
			g.t.Fatalf("record %d is spelled in two ways:\n%s\n%s", i+1, r[0], again)
		}
		err = s.Apply(&c)
		stopIf(g.t, err != nil, "record %d: %v", i+1, err)
	}
	s.Define(g.kernels...)
	return s
}

func (g *gateway) compare() {
	g.t.Helper()
	live, made := savedText(g.state), savedText(g.replayed())
	stopIf(g.t, live != made, "after %s the records make another state:\nlive %s\nmade %s", g.records[len(g.records)-1][0], live, made)
	saved := g.state.Save()
	restored, err := kernel.Restore(saved, g.kernels...)
	if err != nil || savedText(restored) != savedText(g.state) || restored.NextDue() != g.state.NextDue() {
		g.t.Fatalf("%v: what is saved comes back as another state:\n%s", err, savedText(g.state))
	}
}

// crash forgets everything but the records, or what was saved, and does what a start
// does.
func (g *gateway) crash() {
	g.t.Helper()
	if g.state = g.replayed(); g.ids%2 == 0 {
		restored, err := kernel.Restore(g.state.Save(), g.kernels...)
		noError(g.t, err)
		g.state = restored
	}
	g.todo = g.state.Pending()
	g.sent = append(g.sent, g.todo...)
	for _, call := range g.state.Unanswered() {
		g.hears("", "")
		g.store(g.state.DecideRestart(g.moment(), call))
	}
}

// next takes the next release of a kind.
func (g *gateway) next(kind kernel.ReleaseKind) kernel.Release {
	g.t.Helper()
	for len(g.todo) > 0 {
		r := g.todo[0]
		g.todo = g.todo[1:]
		if r.Kind == kind {
			return r
		}
		stopIf(g.t, r.Kind != kernel.ReleaseReply, "released kind %d, waited for %d: %+v", r.Kind, kind, r.End)
	}
	g.t.Fatalf("nothing is released, waited for %d", kind)
	return kernel.Release{}
}

// begin starts a run.
func (g *gateway) begin(grant string) kernel.RunID {
	g.t.Helper()
	c := g.store(g.state.DecideRun(g.moment(), "desk", kim, grant, g.task, g.hears("kim", `{"task":"Do it."}`)))
	stopIf(g.t, c.Code != "", "the run is refused: %s", c.Code)
	return c.Run
}

// plan answers the planner's next request, and then the calls that follow, and returns what
// the last made.
func (g *gateway) plan(plan string, results ...string) kernel.Change {
	g.t.Helper()
	return g.planner(kernel.ReleasePlan, `"plan":`+plan, results...)
}

func (g *gateway) subPlan(plan string, results ...string) kernel.Change {
	g.t.Helper()
	return g.planner(kernel.ReleaseSubPlan, `"plan":`+plan, results...)
}

// planner answers the next request for a plan.
func (g *gateway) planner(kind kernel.ReleaseKind, members string, results ...string) kernel.Change {
	g.t.Helper()
	r := g.next(kind)
	c := g.store(g.state.DecidePlan(g.moment(), r.Agent, r.Wait.ID, g.hears(r.Agent, fmt.Sprintf(`{"plan_id":%q,%s}`, r.Wait.ID, members))))
	if len(results) > 0 {
		return g.result(results...)
	}
	return c
}

// result answers the next calls, and returns what the last made.
func (g *gateway) result(results ...string) (c kernel.Change) {
	g.t.Helper()
	for _, result := range results {
		c = g.outcome(g.next(kernel.ReleaseCall), `"result":`+result)
	}
	return c
}

func (g *gateway) outcome(r kernel.Release, members string) kernel.Change {
	g.t.Helper()
	return g.store(g.state.DecideOutcome(g.moment(), r.Agent, r.Wait.ID, r.Wait.Attempt, g.hears(r.Agent, fmt.Sprintf(`{"call_id":%q,%s}`, r.Wait.ID, members))))
}

// answer answers the next ask.
func (g *gateway) answer(answer string, code bcp.Code) kernel.Change {
	g.t.Helper()
	g.hears("", "")
	return g.store(g.state.DecideAnswer(g.moment(), g.next(kernel.ReleaseParse).Wait.ID, []byte(answer), code))
}

// person decides about the next item.
func (g *gateway) person(decision kernel.PersonDecision, result string) kernel.Change {
	g.t.Helper()
	if g.hears("sec", ""); result != "" && !json.Valid([]byte(result)) {
		g.heard = nil // it is refused
	}
	return g.store(g.state.DecidePerson(g.moment(), g.next(kernel.ReleaseItem).Wait.ID, decision, []byte(result)))
}

// pass lets time decide.
func (g *gateway) pass() kernel.Change {
	g.t.Helper()
	g.now = time.Unix(0, g.state.NextDue())
	c, due := g.state.DecideDue(g.moment())
	stopIf(g.t, !due, "nothing is due")
	g.hears("", "")
	return g.store(c)
}

// stop has the run that began first cancelled.
func (g *gateway) stop() kernel.Change {
	g.t.Helper()
	return g.store(g.state.DecideStop(g.moment(), g.changes[0].Run, kernel.Cancelled))
}

// end is how the run ended, and must have.
func (g *gateway) end(status kernel.Status, code kernel.Code) kernel.Release {
	g.t.Helper()
	r := g.next(kernel.ReleaseOutcome)
	stopIf(g.t, r.End.Status != status || r.End.Code != code,
		"got %s %s at %s (%s), want %s %s", r.End.Status, r.End.Code, r.End.Step, r.End.Cause, status, code)
	return r
}

// move is what somebody does to a run. What planners, Readers, tools and people do next are
// moves, and so is what a run does by several.
type move = func(*gateway)

func moves(list ...move) move {
	return func(g *gateway) {
		for _, m := range list {
			m(g)
		}
	}
}

// plans has the planner answer, and then the tools that the plan calls.
func plans(plan string, outcomes ...string) move {
	return func(g *gateway) { g.plan(plan, outcomes...) }
}

func subPlans(plan string, outcomes ...string) move {
	return func(g *gateway) { g.subPlan(plan, outcomes...) }
}

func results(list ...string) move   { return func(g *gateway) { g.result(list...) } }
func answers(answer string) move    { return func(g *gateway) { g.answer(answer, "") } }
func unanswered(code bcp.Code) move { return func(g *gateway) { g.answer("", code) } }

// outcomes has a tool answer with members other than a result.
func outcomes(members string) move {
	return func(g *gateway) { g.outcome(g.next(kernel.ReleaseCall), members) }
}

func decides(decision kernel.PersonDecision, result string) move {
	return func(g *gateway) { g.person(decision, result) }
}

func ends(status kernel.Status, code kernel.Code) move {
	return func(g *gateway) { g.end(status, code) }
}

// defines has other definitions take effect.
func defines(kernels ...*kernel.Kernel) move {
	return func(g *gateway) { g.kernels = kernels; g.state.Define(kernels...) }
}

func passes(g *gateway) { g.pass() }

// tells says what the planner was told last.
func tells(code kernel.Code) move {
	return func(g *gateway) {
		c := g.changes[len(g.changes)-1]
		stopIf(g.t, c.Told == nil || c.Told.Code != code, "it is told %+v, not %s", c.Told, code)
	}
}

// calls lists what was sent to tools, as tool and arguments.
func (g *gateway) calls() string {
	var calls []string
	for _, r := range g.sent {
		if r.Kind == kernel.ReleaseCall {
			calls = append(calls, r.Tool.Name+string(r.Arguments))
		}
	}
	return strings.Join(calls, " ")
}

// told lists the errors in the last request to the planner.
func (g *gateway) told() string {
	for i := len(g.sent) - 1; i >= 0; i-- {
		if g.sent[i].Kind == kernel.ReleasePlan {
			var request struct{ Errors json.RawMessage }
			err := json.Unmarshal(g.sent[i].Body, &request)
			noError(g.t, err)
			return string(request.Errors)
		}
	}
	return ""
}

func (g *gateway) events() string {
	var events []string
	for i := range g.changes {
		for _, e := range g.changes[i].Events() {
			events = append(events, e.String())
		}
	}
	return strings.Join(events, " ")
}

// The results of the tools of most tests.
const (
	mail  = `{"latest":{"sender":"boss","subject":"Meeting","body":"at 3pm"}}`
	sent  = `{"ok":true,"message_id":"m1"}`
	alice = `{"contacts":[{"name":"Alice","email":"alice@example.com"}]}`
)

// covers KER-2, KER-3, KER-21, KER-22, KER-31, KER-40, KER-41, KER-42, KER-47, KER-53, KER-55, KER-57, KER-60
func TestRunOfTheExample(t *testing.T) {
	t.Parallel()
	g := planned(t, mustKernel(t, nil), mailPlan)
	g.result(mail)
	c := g.answer(`{"text":"meeting at 3pm"}`, "")
	last := c.Steps[len(c.Steps)-1] // also what the gate says is recorded, though it was certain before
	failIf(t, last.Path != "send" || last.Judged == nil || last.Judged.Code != kernel.Declassified || fmt.Sprint(last.Judged.Rules) != "[mail-to-self]" ||
		!strings.Contains(spelled(last.Arguments[0].Label), `"summary.text":`) || fmt.Sprint(last.Inputs) != "[summary.text me]", "got %+v", last)
	g.result(sent)
	end := g.end(kernel.Committed, "")
	expect(t, g.calls(), `read_inbox{} send_email{"body":"meeting at 3pm","to":"kim@example.com"}`, "calls")
	expect(t, string(end.Final), `{"message_id":"m1","ok":true}`, "got %s", end.Final)
	expect(t, len(g.records), 5, "records, want 5: one for each wait")
	want := "plan_emitted step_started:me step_started:inbox gate_decision:read_inbox:allow effect_intended:read_inbox effect_committed:read_inbox " +
		"step_started:summary q_parse_result:summary step_started:send gate_decision:send_email:allow effect_intended:send_email effect_committed:send_email run_committed"
	failIf(t, g.events() != want, "got %s", g.events())
}

// savedText is all that is saved of runs, to compare it.
func savedText(runs *kernel.State) string {
	var text strings.Builder
	for _, r := range runs.Save() {
		fmt.Fprintf(&text, "%d %s %s\n", r.At, r.Open, r.Said)
	}
	return text.String()
}
