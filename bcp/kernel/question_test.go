package kernel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	shown "github.com/bcpmesh/bcpmesh/bcp/tell"
)

const day = `{"id":"day","question":"Which day?","expected_format":"enum","values":["a","b"]}`

// question is a step that asks.
func question(id string, questions ...string) string {
	return fmt.Sprintf(`{"kind":"ask_requester","id":%q,"questions":[%s]}`, id, strings.Join(questions, ","))
}

// asking is a kernel whose plans may ask so often, and may be steered.
func asking(t fataler, times int, change func(*kernel.Definition)) *kernel.Kernel {
	return steered(t, func(d *kernel.Definition) {
		d.Limits.MaxQuestions = times
		if change != nil {
			change(d)
		}
	})
}

// reply is a message of kim's about the question that waits.
func (g *gateway) requester(members string, told kernel.Label) kernel.Change {
	g.t.Helper()
	id := g.next(kernel.ReleaseItem).Wait.ID
	return g.replyTo(id, "kim", members, told)
}

func (g *gateway) replyTo(id, from, members string, told kernel.Label) kernel.Change {
	g.t.Helper()
	body := fmt.Sprintf(`{"type":"bcp_run","question_id":%q,%s}`, id, members)
	requester := kim
	requester.Name = from
	c := g.state.DecideRun(g.moment(), "desk", requester, "all", told, []byte(body))
	if c.Code == "" {
		g.hears(bcp.AgentName(from), body)
	}
	return g.store(c)
}

// covers K3, KER-40
func TestAQuestionGoesToTheRequester(t *testing.T) {
	t.Parallel()
	tell := `{"kind":"tool","id":"t","tool":"tell","args":{"a":true,"b":{"ref":"q","path":"day"}}}`
	plan := fmt.Sprintf(`{"steps":[%s,%s],"final":"q"}`, question("q", day), tell)
	for _, by := range []string{"requester", "person", "requester after a crash"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, asking(t, 1, nil))
			run := g.begin("all")
			c := g.plan(plan)
			stopIf(t, c.Wait == nil || c.Wait.Kind != kernel.WaitQuestion || c.Wait.Agent != "kim" || c.Wait.Tells != 0,
				"got %+v", c.Wait)
			status, _ := g.state.Receipt(run, nil)
			failIf(t, string(status.QuestionID) != c.Wait.ID || len(status.Questions) != 1 || status.Questions[0].Question != "Which day?",
				"the requester is told %+v", status)
			if by == "requester after a crash" {
				g.todo = nil
				g.crash()
			}
			if by == "person" {
				g.person(kernel.Answer, `{"day":"b"}`)
			} else {
				g.requester(`"answer":{"day":"b"}`, kernel.Trusted())
			}
			g.result(`true`)
			end := g.end(kernel.Committed, "")
			failIf(t, string(end.Final) != `{"day":"b"}` || end.End.Label.Tainted(), "got %s, %+v", end.Final, end.End.Label)
			expect(t, g.calls(), `tell{"a":true,"b":"b"}`, "calls")
			want := "step_started:q requester_answered:q"
			failIf(t, !strings.Contains(g.events(), want), "got %s", g.events())
		})
	}
}

func TestRepliesThatAreRefused(t *testing.T) {
	t.Parallel()
	g := planned(t, asking(t, 1, nil), fmt.Sprintf(`{"steps":[%s],"final":"q"}`, question("q", day)))
	item := g.next(kernel.ReleaseItem).Wait.ID
	before := savedText(g.state)
	for _, tt := range []struct {
		name, id, from, members string
		told                    kernel.Label
		code                    kernel.Code
	}{
		{"not a choice", item, "kim", `"answer":{"day":"z"}`, kernel.Trusted(), kernel.BadOutcome},
		{"no object", item, "kim", `"answer":"a"`, kernel.Trusted(), kernel.BadOutcome},
		{"another question", item, "kim", `"answer":{"hour":"a"}`, kernel.Trusted(), kernel.BadOutcome},
		{"more", item, "kim", `"answer":{"day":"a","more":1}`, kernel.Trusted(), kernel.BadOutcome},
		{"none", item, "kim", `"answer":{}`, kernel.Trusted(), kernel.BadOutcome},
		{"not enough information", item, "kim", `"answer":{"not_enough_information":true}`, kernel.Trusted(), kernel.BadOutcome},
		{"both", item, "kim", `"answer":{"day":"a"},"refused":true`, kernel.Trusted(), kernel.Malformed},
		{"neither", item, "kim", `"new_session":true`, kernel.Trusted(), kernel.Malformed},
		{"not refused", item, "kim", `"refused":false`, kernel.Trusted(), kernel.Malformed},
		{"a task", item, "kim", `"answer":{"day":"a"},"task":"Do more."`, kernel.Trusted(), kernel.Malformed},
		{"another requester", item, "ann", `"answer":{"day":"a"}`, kernel.Trusted(), kernel.UnknownItem},
		{"another requester that refuses", item, "ann", `"refused":true`, kernel.Trusted(), kernel.UnknownItem},
		{"another item", "i000000000000000000000099", "kim", `"answer":{"day":"a"}`, kernel.Trusted(), kernel.UnknownItem},
		{"told since", item, "kim", `"answer":{"day":"a"}`, kernel.Told(1), kernel.ToldSince},
	} {
		c := g.replyTo(tt.id, tt.from, tt.members, tt.told)
		failIf(t, c.Code != tt.code || c.End != nil, "%s: got %q, want %q", tt.name, c.Code, tt.code)
	}
	expect(t, g.store(g.state.DecidePerson(g.moment(), item, kernel.Approve, nil)).Code, kernel.UnknownItem, "a person approves a question")
	c := g.store(g.state.DecidePerson(g.moment(), item, kernel.Done, []byte(`{"day":"a"}`)))
	failIf(t, c.Code != kernel.UnknownItem, "a person says of a question that it was done: %q", c.Code)
	g.records, g.replay = nil, false
	after := savedText(g.state)
	failIf(t, strings.SplitN(after, "\n", 2)[1] != strings.SplitN(before, "\n", 2)[1], "a refused reply changed the run:\n%s\n%s", before, after)
	// Whoever was told something may still refuse.
	c = g.replyTo(item, "kim", `"refused":true`, kernel.Told(9))
	failIf(t, c.End == nil || c.End.Code != kernel.ApprovalRejected, "got %+v", c)
}

func TestQuestionsThatEndARun(t *testing.T) {
	t.Parallel()
	plan := func(n int) string {
		var steps []string
		for i := range n {
			steps = append(steps, question(fmt.Sprintf("q%d", i), day))
		}
		return fmt.Sprintf(`{"steps":[%s],"final":"q0"}`, strings.Join(steps, ","))
	}
	for _, tt := range []struct {
		name   string
		change func(*kernel.Definition)
		play   func(g *gateway)
		status kernel.Status
		code   kernel.Code
	}{
		{"refused by the requester", nil, func(g *gateway) { g.plan(plan(1)); g.requester(`"refused":true`, kernel.Trusted()) }, kernel.Blocked, kernel.ApprovalRejected},
		{"refused by a person", nil, moves(plans(plan(1)), decides(kernel.Reject, "")), kernel.Blocked, kernel.ApprovalRejected},
		{"nobody answers", nil, func(g *gateway) { g.plan(plan(1)); g.todo = nil; g.pass() }, kernel.Blocked, kernel.ApprovalExpired},
		{"a full queue", func(d *kernel.Definition) { d.Limits.MaxPendingApprovals = 0 }, plans(plan(1)), kernel.Blocked, kernel.ApprovalQueueFull},
		{"one too many", nil, plans(plan(3)), kernel.Aborted, kernel.LimitQuestions},
		{"as many as may be", nil, func(g *gateway) {
			g.plan(plan(2))
			g.requester(`"answer":{"day":"a"}`, kernel.Trusted())
			g.requester(`"answer":{"day":"a"}`, kernel.Trusted())
		}, kernel.Committed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := begun(t, asking(t, 2, tt.change))
			tt.play(g)
			g.end(tt.status, tt.code)
		})
	}
}

func TestPlansThatAskWrongly(t *testing.T) {
	t.Parallel()
	k := asking(t, 1, nil)
	f := kernel.Frame{Grant: frame(k, "all").Grant, Query: kernel.Trusted(), Questions: 1}
	many := strings.Repeat(day+",", bcp.MaxQuestions)
	for i := range bcp.MaxQuestions {
		many = strings.Replace(many, `"day"`, fmt.Sprintf(`"d%d"`, i), 1)
	}
	for _, tt := range []struct {
		name, step string
		frame      func(*kernel.Frame)
		code       kernel.Code
	}{
		{"a question", question("q", day), nil, ""},
		{"as many as a spec has", question("q", strings.TrimSuffix(many, ",")), nil, ""},
		{"one more", question("q", many+day), nil, kernel.Malformed},
		{"none", question("q"), nil, kernel.Malformed},
		{"no list", `{"kind":"ask_requester","id":"q","questions":` + day + `}`, nil, kernel.Malformed},
		{"no questions", `{"kind":"ask_requester","id":"q"}`, nil, kernel.Malformed},
		{"another key", `{"kind":"ask_requester","id":"q","questions":[` + day + `],"source":{"ref":"x"}}`, nil, kernel.Malformed},
		{"no values", question("q", `{"id":"day","question":"Which day?","expected_format":"enum"}`), nil, kernel.Malformed},
		{"a summary", question("q", `{"id":"day","question":"Which day?","expected_format":"summary"}`), nil, kernel.Malformed},
		{"sealed", question("q", `{"id":"day","question":"Which day?","expected_format":"sealed"}`), nil, kernel.Malformed},
		{"a question that shows a value", question("q", `{"id":"day","question":{"ref":"x"},"expected_format":"boolean"}`), nil, kernel.Malformed},
		{"without leave", question("q", day), func(f *kernel.Frame) { f.Questions = 0 }, kernel.UnknownKind},
		{"in a sub-run", question("q", day), func(f *kernel.Frame) { f.Depth = 1 }, kernel.UnknownKind},
	} {
		of := f
		if tt.frame != nil {
			tt.frame(&of)
		}
		expect(t, faultOf(k, `{"steps":[`+tt.step+`],"final":"q"}`, of), tt.code, "%s", tt.name)
	}
}

// A question that content steers to tells its requester that, once, and what is answered
// has that label: it is no way to launder a choice.
func TestASteeredQuestionIsCharged(t *testing.T) {
	t.Parallel()
	plan := fmt.Sprintf(`{"steps":[{"kind":"tool","id":"d","tool":"dials"},
		{"kind":"when","id":"w","on":{"ref":"d","path":"face"},"cases":{"a":[%s],"b":[%s],"c":[%s]},"yields":{"day":{"ref":"q","path":"day"}}}],"final":"w"}`,
		question("q", day), question("q", strings.Replace(day, "Which", "What", 1)), question("q", strings.Replace(day, "Which", "On what", 1)))
	g := planned(t, asking(t, 1, nil), plan)
	c := g.result(`{"hot":true,"face":"b"}`)
	paid := c.Totals.Control
	want := bcp.ChoiceBits(3)
	stopIf(t, paid != want, "paid %s, want %s", paid, want)
	if want := (7*bcp.Bit + paid + bcp.Bit - 1) / bcp.Bit * bcp.Bit; c.Wait.Tells != want || charged(g.state, &c) != want {
		t.Errorf("the question tells %s, recorded %s, want %s", c.Wait.Tells, charged(g.state, &c), want)
	}
	// What the question told does not keep from an answer, one bit more does.
	own := kernel.Width(c.Wait.Tells / bcp.Bit)
	item := g.next(kernel.ReleaseItem).Wait.ID
	expect(t, g.replyTo(item, "kim", `"answer":{"day":"a"}`, kernel.Told(own+1)).Code, kernel.ToldSince, "told more since")
	c = g.replyTo(item, "kim", `"answer":{"day":"a"}`, kernel.Told(own))
	stopIf(t, c.End == nil || c.End.Status != kernel.Committed || !c.End.Label.Tainted(), "got %+v", c.End)
	expect(t, charged(g.state, &c), bcp.Bit, "the end tells")
}

// After an error that content chose, the planner may write it into a question.
func TestAQuestionAfterAnErrorIsCharged(t *testing.T) {
	t.Parallel()
	g := begun(t, asking(t, 2, nil))
	ask := question("q", day)
	g.plan(fmt.Sprintf(`{"steps":[%s,{"kind":"tool","id":"l","tool":"items"},{"kind":"tool","id":"t","tool":"tell","args":{"a":{"ref":"l","path":"list.1.hot"},"b":"a"}}],"final":"t"}`, ask))
	g.requester(`"answer":{"day":"a"}`, kernel.Trusted())
	c := g.result(`{"list":[]}`)
	stopIf(t, c.Told == nil || c.Told.Control == nil, "got %+v", c.Told)
	// The same question is not asked again, and its answer is as the plan is by now.
	second := fmt.Sprintf(`{"steps":[%s,%s],"final":"q"}`, ask, question("more", strings.Replace(day, "Which", "What", 1)))
	c = g.plan(second)
	stopIf(t, c.Wait == nil || c.Wait.Kind != kernel.WaitQuestion || c.Wait.Step != "more", "got %+v", c.Wait)
	expect(t, c.Wait.Tells, 7*bcp.Bit+bcp.Bits(c.Totals.PlannerBits)*bcp.Bit, "the question tells")
	c = g.requester(`"answer":{"day":"a"}`, kernel.Trusted())
	failIf(t, c.End == nil || !c.End.Label.Tainted(), "got %+v", c.End)
}

// Planners hear that they may ask, and nobody else's request changed.
func TestPlannersHearThatTheyMayAsk(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]bool{0: false, 3: true} {
		g := begun(t, asking(t, times, nil))
		var request map[string]json.RawMessage
		noError(t, json.Unmarshal(g.next(kernel.ReleasePlan).Body, &request))
		n, told := request["max_questions"]
		failIf(t, told != want || told && string(n) != "3", "%d: got %s", times, n)
	}
}

// An approver of the kernel may answer in the requester's place, and sees what is asked:
// there is nothing to approve, and no other form of answer.
//
// covers KER-70, P7.1
func TestAnApproverAnswers(t *testing.T) {
	t.Parallel()
	l := signedLedger(t, asking(t, 1, func(d *kernel.Definition) { d.Approvers = []bcp.AgentName{"ada"} }))
	l.g.begin("all")
	l.g.plan(fmt.Sprintf(`{"steps":[%s],"final":"q"}`, question("q", day)))
	l.catchUp()
	items := l.state.Items()
	stopIf(t, len(items) != 1 || items[0].Kind != bcp.ItemQuestion || items[0].Taint != bcp.TaintLow || items[0].Reader != "kim",
		"got %+v", items)
	it := items[0]
	l.checkHeld(it)
	from := bcp.Sender{Key: "key"}
	view, code := l.state.View("ada", it.ID)
	stopIf(t, code != "" || len(view.Effect.Questions) != 1 || view.Effect.Changed || !shown.Intact(&view), "%s: %+v", code, view)
	frame := shown.ItemFrames(&view, l.g.now)[0]
	failIf(t, len(frame.Parts) != 1 || frame.Parts[0] != (shown.Part{Asked: "day", Text: "Which day? (a, b)"}), "shown is %+v", frame)
	const answer = `{"answer":{"day":"b"}}`
	for _, tt := range []struct {
		name, by, content string
		act               bcp.Act
	}{
		{"approved", "ada", string(view.Content), bcp.Approve},
		{"by an agent", "bob", answer, bcp.EditItem},
		{"no choice", "ada", `{"answer":{"day":"z"}}`, bcp.EditItem},
		{"a result", "ada", `{"result":{"day":"b"}}`, bcp.EditItem},
		{"two keys", "ada", `{"answer":{"day":"b"},"result":1}`, bcp.EditItem},
	} {
		d := l.state.DecideApproval(l.moment(), bcp.AgentName(tt.by), from, tt.act, approval(it, tt.act, []byte(tt.content), nil))
		failIf(t, d.Verdict == bcp.Accept, "%s counts", tt.name)
	}
	d := l.state.DecideApproval(l.moment(), "ada", from, bcp.EditItem, approval(it, bcp.EditItem, []byte(answer), nil))
	stopIf(t, d.Verdict != bcp.Accept || d.Capacity != 0, "got %s %s", d.Verdict, d.Code)
	l.store(d)
	c, err := kernel.ReadRecord(&d)
	failIf(t, err != nil || c.End == nil || string(c.Private.Final) != `{"day":"b"}` || len(l.state.Items()) != 0, "%v: %+v", err, c)
}
