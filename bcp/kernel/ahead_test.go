package kernel_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// releases are the steps of what was released and not answered yet.
func (g *gateway) releases() string {
	var steps []string
	for _, r := range g.todo {
		if r.Kind == kernel.ReleaseCall || r.Kind == kernel.ReleaseParse {
			steps = append(steps, r.Wait.Step)
		}
	}
	return strings.Join(steps, " ")
}

// of takes the release of a step.
func (g *gateway) of(step string) kernel.Release {
	g.t.Helper()
	i := slices.IndexFunc(g.todo, func(r kernel.Release) bool { return r.Wait.Step == step && r.Kind != kernel.ReleaseReply })
	if i < 0 {
		g.t.Fatalf("%s is not released, but %s", step, g.releases())
	}
	r := g.todo[i]
	g.todo = slices.Delete(g.todo, i, i+1)
	return r
}

// says answers the step, of a tool or a Reader.
func (g *gateway) says(step, result string) kernel.Change {
	g.t.Helper()
	return g.reply(g.of(step), result)
}

func (g *gateway) reply(r kernel.Release, result string) kernel.Change {
	g.t.Helper()
	if r.Kind == kernel.ReleaseCall {
		return g.outcome(r, result)
	}
	if _, open := g.state.Waiting(r.Wait.ID); !open { // nobody decides about it
		return kernel.Change{}
	}
	g.hears("", "")
	if result == "" {
		return g.store(g.state.DecideAnswer(g.moment(), r.Wait.ID, nil, bcp.NotEnoughInformation))
	}
	return g.store(g.state.DecideAnswer(g.moment(), r.Wait.ID, []byte(result), ""))
}

func parseOf(id, source string) string {
	return fmt.Sprintf(`{"kind":"q_parse","id":%q,"source":%s,"schema_ref":"Summary","instruction":"Summarise %s."}`, id, source, id)
}

const (
	text   = `{"text":"x"}`
	toSelf = `{"kind":"tool","id":"send","tool":"send_email","args":{"to":"kim@example.com","body":{"ref":"c","path":"text"}}}`
)

// Reads and parses whose inputs are known are begun at once; a write waits for all before
// it, and what is behind it waits for the write. Each is recorded before it is sent, with
// its verdict, and counted.
// covers KER-12, KER-21, KER-25, KER-31
func TestStepsThatNeedNotWait(t *testing.T) {
	t.Parallel()
	again := `{"kind":"tool","id":"again","tool":"read_inbox","args":{}}`
	after := `{"kind":"tool","id":"after","tool":"read_contacts","args":{}}`
	g := newGateway(t, mustKernel(t, nil))
	g.begin("all")
	first := g.plan(steps(inbox, again, contacts, parseOf("a", `{"ref":"inbox","path":"latest.body"}`), parseOf("b", `{"ref":"again","path":"latest.body"}`),
		parseOf("c", `{"ref":"a","path":"text"}`), toSelf, after))
	if got := g.releases(); got != "inbox again contacts" || len(first.Ahead) != 2 || first.Totals.Effects != 3 || first.Steps[2].Judged == nil {
		t.Fatalf("released %s: %+v", got, first)
	}
	g.says("again", `"result":`+mail)
	if got := g.releases(); got != "inbox contacts b" {
		t.Fatalf("after the second read %s", got)
	}
	g.says("inbox", `"result":`+mail)
	if got := g.releases(); got != "contacts b a" {
		t.Fatalf("after the first read %s", got)
	}
	g.says("b", text)
	g.says("contacts", `"result":`+alice)
	g.says("a", text)
	if got := g.releases(); got != "c" {
		t.Fatalf("before the last question %s", got)
	}
	g.says("c", text)
	if got := g.releases(); got != "send" {
		t.Fatalf("before the write %s", got)
	}
	last := g.says("send", `"result":`+sent)
	if got := g.releases(); got != "after" || last.Totals.Effects != 5 || last.Totals.Parses != 3 {
		t.Fatalf("behind the write %s, %+v", got, last.Totals)
	}
	g.says("after", `"result":`+alice)
	g.end(kernel.Committed, "")
	if n := strings.Count(g.events(), "effect_intended"); n != 5 || strings.Count(g.events(), "effect_committed") != 5 || strings.Count(g.events(), "gate_decision") != 5 {
		t.Errorf("told as %s", g.events())
	}
	checkOrder(t, g)
}

// Of equal questions that are asked at once each has an answer, and whoever's turn comes
// first has the first.
// covers KER-25, KER-53
func TestEqualQuestionsAhead(t *testing.T) {
	t.Parallel()
	one := func(id, source string) string {
		return strings.Replace(parseOf(id, source), "Summarise "+id, "Summarise", 1)
	}
	g := planned(t, mustKernel(t, nil), steps(inbox, contacts, one("a", `{"ref":"inbox","path":"latest.body"}`), one("b", `{"ref":"contacts","path":"contacts.0.name"}`)))
	g.says("contacts", `"result":`+strings.Replace(alice, "Alice", "at 3pm", 1))
	first := g.of("b")
	g.says("inbox", `"result":`+mail)
	if g.releases() != "b" {
		t.Fatalf("released %s", g.releases())
	}
	g.hears("", "")
	g.store(g.state.DecideAnswer(g.moment(), first.Wait.ID, []byte(text), ""))
	g.says("b", text)
	g.end(kernel.Committed, "")
	if strings.Count(g.events(), "q_parse_result:a") != 1 || strings.Count(g.events(), "q_parse_result:b") != 1 {
		t.Errorf("told as %s", g.events())
	}
}

// What fails ahead of its turn is heard in its turn, after the failures before it; a plan
// that was given up lets go of what it began, and late answers do no harm.
// covers KER-46, KER-47, KER-58
func TestFailuresAreHeardInTheirTurn(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, func(d *kernel.Definition) { d.Limits.MaxEffects = 4 })
	begin := func() *gateway {
		g := planned(t, k, steps(inbox, contacts, parseOf("p", `{"ref":"contacts","path":"contacts.0.name"}`)))
		return g
	}
	g := begin()
	if c := g.says("contacts", `"error":"no"`); c.Told != nil || c.Result.Code != kernel.ToolFailed {
		t.Errorf("a failure ahead of its turn: %+v", c)
	}
	g.crash()
	if g.says("inbox", `"result":`+mail); g.told() != `[{"attempt":1,"code":"tool_failed","step":"contacts"}]` {
		t.Errorf("told %s", g.told())
	}
	g.plan(steps(inbox)) // which was read
	g.end(kernel.Committed, "")

	g = begin()
	late := g.of("contacts")
	if g.says("inbox", `"error":"no"`); g.told() != `[{"attempt":1,"code":"tool_failed","step":"inbox"}]` {
		t.Errorf("told %s", g.told())
	}
	if c := g.outcome(late, `"result":`+alice); c.Code != kernel.LateOutcome || c.Alert != "" {
		t.Errorf("a late answer to a read: %+v", c)
	}
	if c := g.plan(steps(inbox, contacts)); c.Totals.Effects != 4 {
		t.Errorf("counted %+v", c.Totals)
	}
	g.says("contacts", `"result":`+alice)
	g.says("inbox", `"result":`+mail)
	g.end(kernel.Committed, "")

	// A tool that changed alerts at once, and ends the run in its turn.
	g = begin()
	if c := g.says("contacts", `"error":"x","not_performed":true,"code":"tool_changed"`); c.Alert != kernel.ToolChanged || c.End != nil {
		t.Errorf("%+v", c)
	}
	g.says("inbox", `"result":`+mail)
	for g.todo[0].Kind == kernel.ReleaseAlert {
		g.todo = g.todo[1:]
	}
	g.end(kernel.Errored, kernel.ToolChanged)
}

// A call that was begun ahead is sent again when its time is over, and after a start; the
// time that people take, and that of the run, is as it was.
// covers KER-24, KER-25
func TestSentAgainAhead(t *testing.T) {
	t.Parallel()
	g := newGateway(t, mustKernel(t, func(d *kernel.Definition) {
		d.UntestedRules = true
		d.Rules = append(d.Rules, kernel.Rule{ID: "ask", Effect: kernel.Ask, Tool: "read_contacts", When: "true"})
		d.Tools[1].Input = mustType(shape("q:string"))
	}))
	g.begin("all")
	g.plan(steps(inbox, `{"kind":"tool","id":"contacts","tool":"read_contacts","args":{"q":{"ref":"inbox","path":"latest.body"}}}`,
		`{"kind":"tool","id":"again","tool":"read_inbox"}`, `{"kind":"tool","id":"n","tool":"count","args":{"words":[{"ref":"inbox","path":"latest.subject"}]}}`))
	late := g.of("again")
	asked := g.says("inbox", `"result":`+mail)
	if asked.Wait.Kind != kernel.WaitApproval || g.releases() != "" { // nothing behind what a person decides about
		t.Fatalf("%+v, %s", asked, g.releases())
	}
	g.now = g.now.Add(time.Minute)
	if c := g.pass(); len(c.Ahead) != 1 || c.Ahead[0].Attempt != 2 || c.Deadline != asked.Deadline || c.Totals.Effects != 2 {
		t.Fatalf("%+v", c)
	}
	g.crash()
	if c := g.changes[len(g.changes)-1]; len(c.Ahead) != 1 || c.Ahead[0].Attempt != 3 {
		t.Fatalf("after a start %+v", c)
	}
	if c := g.store(g.state.DecideOutcome(g.moment(), late.Agent, late.Wait.ID, 4, []byte(`{}`))); c.Code != kernel.UnknownCall {
		t.Errorf("an attempt that was not: %+v", c)
	}
	if c := g.outcome(late, `"result":`+mail); c.Code != "" || c.Result == nil || c.Deadline != asked.Deadline {
		t.Errorf("the first attempt's answer: %+v", c)
	}
	g.todo = slices.DeleteFunc(g.todo, func(r kernel.Release) bool { return r.Kind == kernel.ReleaseAlert || r.Kind == kernel.ReleaseCall })
	if c := g.person(kernel.Approve, ""); c.Deadline != asked.Deadline+c.Time-asked.Time {
		t.Errorf("a person took %d, and the run has %d more", c.Time-asked.Time, c.Deadline-asked.Deadline)
	}
	if c := g.outcome(late, `"result":`+mail); c.Alert != kernel.SecondOutcome {
		t.Errorf("a second answer: %+v", c)
	}
	g.todo = slices.DeleteFunc(g.todo, func(r kernel.Release) bool { return r.Kind != kernel.ReleaseOutcome })
	g.end(kernel.Errored, kernel.SecondOutcome)
}

// Nothing but time depends on who answers first: the end of a run, its value and its label,
// and the first error that the planner is told are the same in every order.
// covers KER-12, KER-24, KER-105
func TestOrderOfAnswersChangesNothing(t *testing.T) {
	t.Parallel()
	k := smallKernel(t, nil)
	several := 0
	rapid.Check(t, func(t *rapid.T) {
		plan, _ := drawPlan(t, 4, true)
		seed, failing := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 4).Draw(t, "failing") == 0
		ends := map[string]bool{}
		for round := range 3 {
			g := newGateway(t, k)
			g.begin("all")
			for len(g.todo) > 0 && g.todo[0].Kind == kernel.ReleaseReply {
				g.todo = g.todo[1:]
			}
			if g.plan(plan); strings.Contains(g.releases(), " ") {
				several++
			}
			ends[g.playInOrder(func(n int) int {
				if round == 0 {
					return 0
				}
				return rapid.IntRange(0, n-1).Draw(t, "who answers")
			}, seed, failing)] = true
			checkOrder(t, g)
		}
		if len(ends) != 1 {
			t.Fatalf("%s ends as %v", plan, ends)
		}
	})
	if several == 0 {
		t.Error("no two steps were begun at once: the check shows nothing")
	}
}

// playInOrder plays a run, and answers whichever is chosen of what is open. What a step
// gets depends on the step's call or question alone.
func (g *gateway) playInOrder(choose func(of int) int, seed uint64, failing bool) string {
	g.t.Helper()
	boolean, choice := []string{"false", "true"}, []string{"a", "b", "c"}
	for {
		open := slices.DeleteFunc(slices.Clone(g.todo), func(r kernel.Release) bool { return r.Kind == kernel.ReleaseReply || r.Kind == kernel.ReleaseAlert })
		r := open[choose(len(open))]
		h := fnv.New64a()
		fmt.Fprint(h, seed, r.Wait.Key)
		n := int(h.Sum64() % 24)
		both := func(x, y string) string { return fmt.Sprintf(`{%q:%s,%q:%q}`, x, boolean[n%2], y, choice[n%3]) }
		take := func() kernel.Release {
			g.todo = slices.DeleteFunc(g.todo, func(o kernel.Release) bool { return o.Wait.ID == r.Wait.ID })
			return r
		}
		switch r.Kind {
		case kernel.ReleaseSubPlan:
			g.subPlan(`{"steps":[{"kind":"const","id":"c","value":"x"},{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Flags","instruction":"i"}],"final":"p"}`)
		case kernel.ReleaseParse:
			if failing && n < 6 {
				g.reply(take(), "")
			} else {
				g.reply(take(), both("u", "v"))
			}
		case kernel.ReleaseItem:
			g.person(kernel.Approve, "")
		case kernel.ReleaseCall:
			result := map[string]string{"coin": boolean[n%2], "tell": boolean[n%2], "dials": both("hot", "face"), "mix": both("x", "y")}[r.Tool.Name]
			if failing && n < 6 && r.Tool.Name != "tell" {
				g.reply(take(), `"error":"no"`)
			} else {
				g.reply(take(), `"result":`+result)
			}
		case kernel.ReleaseOutcome:
			return fmt.Sprintf("%s %s %s %s", r.End.Status, r.End.Code, r.Final, spelled(r.End.Label))
		default:
			return g.told()
		}
	}
}
